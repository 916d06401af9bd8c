"""``frazil group``: consumer groups."""

from __future__ import annotations

import click

from frazil.admin.port import ResetWish
from frazil.cli.completion import group_names, topic_names
from frazil.cli.output import Part, show, show_detail
from frazil.cli.session import Session, fail, pass_session, run, say
from frazil.cli.times import TIME, time_ms


@click.group()
def group() -> None:
    """Consumer groups: list, describe, reset, delete."""


@group.command("list")
@pass_session
def list_groups(session: Session) -> None:
    """All groups with their state."""

    async def work() -> None:
        async with session.kafka() as kafka:
            rows = await kafka.list_groups()
        show(("group", "state", "type"), [(r.group, r.state, r.protocol_type) for r in rows], session.output)

    run(work())


@group.command()
@click.argument("name", shell_complete=group_names)
@pass_session
def describe(session: Session, name: str) -> None:
    """Members, committed offsets and lag."""

    async def work() -> None:
        async with session.kafka() as kafka:
            detail = await kafka.describe_group(name)
        facts: list[tuple[str, object]] = [("group", detail.group), ("state", detail.state), ("assignor", detail.protocol or None)]
        members = Part("members", ("member", "client", "host"), [(m.member_id, m.client_id, m.host) for m in detail.members])
        rows = [(o.topic, o.partition, o.committed_offset, o.end_offset, o.lag) for o in detail.offsets]
        show_detail(facts, [members, Part("offsets", ("topic", "partition", "committed", "end", "lag"), rows)], session.output)

    run(work())


@group.command()
@click.argument("name", shell_complete=group_names)
@pass_session
def delete(session: Session, name: str) -> None:
    """Delete an empty group and its offsets."""

    async def work() -> None:
        async with session.kafka() as kafka:
            await kafka.delete_group(name)
        say(f"deleted group {name}")

    run(work())


@group.command()
@click.argument("name", shell_complete=group_names)
@click.option(
    "-t", "--topic", "topics", multiple=True, shell_complete=topic_names, help="Topic to reset; default: all the group has offsets of."
)
@click.option("--to", default="", metavar="earliest|latest|OFFSET", help="Where the group shall go on.")
@click.option("--to-time", metavar=TIME, help="Or: at the first record of this time: 2026-01-31T12:00:00Z, or 15m, 2h, 7d ago.")
@click.option("--execute", is_flag=True, help="Do it. Without this only what would be done is shown.")
@pass_session
def reset(session: Session, name: str, topics: tuple[str, ...], to: str, to_time: str | None, execute: bool) -> None:
    """Set where a group without members goes on. Shows what it would do; --execute does it."""
    if bool(to) == (to_time is not None):
        fail("give --to or --to-time")
    wish = ResetWish(topics=topics, to=to, to_ms=None if to_time is None else time_ms(to_time, "--to-time"))

    async def work() -> None:
        async with session.kafka() as kafka:
            rows = await kafka.plan_reset(name, wish)
            if execute:
                await kafka.reset(name, rows)
        found = [(row.topic, row.partition, row.committed_offset, row.new_offset) for row in rows]
        show(("topic", "partition", "committed", "new"), found, session.output)
        say(f"group {name} was reset" if execute else "nothing was changed; --execute does it")

    run(work())
