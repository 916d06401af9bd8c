"""``frazil group``: consumer groups."""

from __future__ import annotations

import click

from frazil.cli.completion import group_names
from frazil.cli.output import Part, show, show_detail
from frazil.cli.session import Session, pass_session, run, say


@click.group()
def group() -> None:
    """Consumer groups: list, describe, delete."""


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
