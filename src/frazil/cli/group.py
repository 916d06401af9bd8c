"""``frazil group``: consumer groups."""

from __future__ import annotations

import click

from frazil.cli.output import show, show_one
from frazil.cli.session import Session, pass_session, run, say


@click.group()
def group() -> None:
    """Consumer groups: list, describe, delete."""


@group.command("list")
@pass_session
def list_groups(session: Session) -> None:
    """All groups with their state."""
    from frazil.assembly.verbs import open_kafka

    async def work() -> None:
        async with open_kafka(*session.broker_address()) as kafka:
            rows = await kafka.list_groups()
        show(("group", "state", "type"), [(r.group, r.state, r.protocol_type) for r in rows], session.output)

    run(work())


@group.command()
@click.argument("name")
@pass_session
def describe(session: Session, name: str) -> None:
    """Members, committed offsets and lag."""
    from frazil.assembly.verbs import open_kafka

    async def work() -> None:
        async with open_kafka(*session.broker_address()) as kafka:
            detail = await kafka.describe_group(name)
        members = [(m.member_id, m.client_id, m.host) for m in detail.members]
        offsets = [(o.topic, o.partition, o.committed_offset, o.end_offset, o.lag) for o in detail.offsets]
        if session.output == "json":
            show_one([("group", detail.group), ("state", detail.state), ("members", members), ("offsets", offsets)], session.output)
            return
        show_one([("group", detail.group), ("state", detail.state), ("assignor", detail.protocol)], session.output)
        click.echo()
        show(("member", "client", "host"), members, session.output)
        click.echo()
        show(("topic", "partition", "committed", "end", "lag"), offsets, session.output)

    run(work())


@group.command()
@click.argument("name")
@pass_session
def delete(session: Session, name: str) -> None:
    """Delete an empty group and its offsets."""
    from frazil.assembly.verbs import open_kafka

    async def work() -> None:
        async with open_kafka(*session.broker_address()) as kafka:
            await kafka.delete_group(name)
        say(f"deleted group {name}")

    run(work())
