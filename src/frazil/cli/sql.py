"""``frazil sql``: one question over landed tables."""

from __future__ import annotations

import sys

import click

from frazil.cli.output import show
from frazil.cli.session import Session, fail, pass_session, run, say


@click.command()
@click.argument("question", required=False)
@pass_session
def sql(session: Session, question: str | None) -> None:
    """Answer a SQL question over landed tables (namespace.table), read by DuckDB. Without an argument: from stdin."""
    from frazil.assembly.tables import open_tables

    if question is None and sys.stdin.isatty():
        say("type a question; Ctrl-D ends it")
    text = question if question is not None else sys.stdin.read()
    if not text.strip():
        fail("no question: give SQL as an argument or on stdin")

    async def work() -> None:
        async with open_tables(session.settings().settings) as tables:
            answer = await tables.sql(text)
        show(answer.columns, answer.rows, session.output, verbatim=True)

    run(work())
