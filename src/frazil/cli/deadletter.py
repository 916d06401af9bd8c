"""``frazil deadletter``: records that tables could not take."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any, TypeVar

import click

from frazil.admin.deadletters import LetterFilter, chosen
from frazil.cli.completion import table_names
from frazil.cli.output import show
from frazil.cli.session import Session, pass_session, run, say
from frazil.cli.times import TIME, time_ms

F = TypeVar("F", bound=Callable[..., Any])
_FILTERS = (
    click.option("--code", "codes", multiple=True, help="Only letters with this code (`frazil deadletter list` shows them)."),
    click.option("-t", "--topic", "topics", multiple=True, help="Only letters of this topic."),
    click.option("-p", "--partition", type=click.IntRange(0), help="Only letters of this partition."),
    click.option("--offset", type=click.IntRange(0), help="Only the letter of this offset."),
    click.option("--before", metavar=TIME, help="Only letters refused before: 2026-01-31T12:00:00Z, or 15m, 2h, 7d ago."),
)


def _filtered(command: F) -> F:
    for option in reversed(_FILTERS):
        command = option(command)
    return command


@click.group()
def deadletter() -> None:
    """Dead letters: list, show, replay, purge what tables could not take."""


@deadletter.command("list")
@click.argument("table", required=False, shell_complete=table_names)
@pass_session
def list_letters(session: Session, table: str | None) -> None:
    """Dead letters by table, topic and code: how many, and since when."""
    from frazil.assembly.deadletters import open_dead_letters

    async def work() -> None:
        async with open_dead_letters(session.settings().settings) as letters:
            rows = await letters.counts(table)
        found = [(row.table, row.topic, row.code, row.letters, _time(row.first_ms), _time(row.last_ms)) for row in rows]
        show(("table", "topic", "code", "letters", "first", "last"), found, session.output)
        if not rows:
            say("no dead letters")

    run(work())


@deadletter.command("show")
@click.argument("table", shell_complete=table_names)
@click.option("-n", "--most", type=click.IntRange(1, 100_000), default=10, show_default=True, help="So many, the newest first.")
@_filtered
@pass_session
def show_letters(session: Session, /, table: str, most: int, **given: Any) -> None:  # noqa: ANN401 - the filter's options
    """Letters of TABLE with their bytes (text, or base64) and the reason, the newest first."""
    from frazil.assembly.deadletters import open_dead_letters

    which = _which(**given)

    async def work() -> None:
        async with open_dead_letters(session.settings().settings) as letters:
            rows = await letters.letters(table, which, most=most)
        columns = ("topic", "partition", "offset", "code", "reason", "key", "value", "headers", "timestamp", "refused at")
        found = [
            (
                row.topic,
                row.partition,
                row.offset if row.offset == row.last_offset else f"{row.offset}-{row.last_offset}",
                row.code,
                row.reason,
                row.key,
                row.value,
                [[name, value] for name, value in row.headers],
                None if row.timestamp_ms is None else _time(row.timestamp_ms),
                _time(row.failed_at_ms),
            )
            for row in rows
        ]
        show(columns, found, session.output)
        if not rows:
            say("no such letters")

    run(work())


@deadletter.command()
@click.argument("table", shell_complete=table_names)
@_filtered
@click.option("--execute", is_flag=True, help="Do it. Without this only what would be done is shown.")
@pass_session
def replay(session: Session, /, table: str, execute: bool, **given: Any) -> None:  # noqa: ANN401 - the filter's options
    """Decode letters of TABLE again, as the table takes values now: good ones become rows, once, and their letters go.

    After the schema, the registry or the landing's options were put right. Shows what it would do; --execute does it.
    """
    from frazil.assembly.deadletters import open_dead_letters

    which = _which(**given)

    async def work() -> None:
        async with open_dead_letters(session.settings().settings) as letters:
            answer = await letters.replay(table, which, execute=execute)
        verb = "landed" if execute else "would land"
        found = [(verb, "", "", answer.landed), ("in the table already", "", "", answer.there_already)]
        found += [("refused again", code, reason, count) for code, reason, count in answer.refused]
        show(("what", "code", "reason", "letters"), found, session.output)
        say(f"{answer.landed} of {answer.chosen} letters of {table} landed" if execute else "nothing was changed; --execute does it")

    run(work())


@deadletter.command()
@click.argument("table", shell_complete=table_names)
@_filtered
@click.option("--execute", is_flag=True, help="Do it. Without this letters are only counted.")
@pass_session
def purge(session: Session, /, table: str, execute: bool, **given: Any) -> None:  # noqa: ANN401 - the filter's options
    """Remove letters of TABLE for good. The records stay in their topics as long as these keep them."""
    from frazil.assembly.deadletters import open_dead_letters

    which = _which(**given)

    async def work() -> None:
        async with open_dead_letters(session.settings().settings) as letters:
            count = await letters.purge(table, which, execute=execute)
        words = " and ".join(chosen(which)) or "any code"
        say(f"{count} letters of {table} with {words} {'are gone' if execute else 'would go; --execute removes them'}")

    run(work())


def _which(codes: tuple[str, ...], topics: tuple[str, ...], partition: int | None, offset: int | None, before: str | None) -> LetterFilter:
    return LetterFilter(
        codes=codes,
        topics=topics,
        partition=partition,
        offset=offset,
        before_ms=None if before is None else time_ms(before, "--before"),
    )


def _time(at_ms: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(at_ms / 1000, tz=datetime.UTC)
