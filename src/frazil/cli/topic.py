"""``frazil topic``: topics of the cluster."""

from __future__ import annotations

import click

from frazil.cli.completion import topic_names
from frazil.cli.output import Part, show, show_detail
from frazil.cli.session import Session, fail, pairs, pass_session, run, say


@click.group()
def topic() -> None:
    """Topics: create, list, describe, alter, delete."""


@topic.command("list")
@pass_session
def list_topics(session: Session) -> None:
    """All topics."""

    async def work() -> None:
        async with session.kafka() as kafka:
            rows = await kafka.list_topics()
        show(("topic", "partitions", "id"), [(r.name, r.partitions, r.topic_id) for r in rows], session.output)

    run(work())


@topic.command()
@click.argument("name", shell_complete=topic_names)
@pass_session
def describe(session: Session, name: str) -> None:
    """Partitions, offsets and settings of one topic."""

    async def work() -> None:
        async with session.kafka() as kafka:
            detail = await kafka.describe_topic(name)
        facts: list[tuple[str, object]] = [("topic", detail.name), ("id", detail.topic_id)]
        configs = sorted(detail.configs.items())
        rows = [(p.partition, p.start_offset, p.end_offset, p.end_offset - p.start_offset, p.leader) for p in detail.partitions]
        partitions = Part("partitions", ("partition", "start", "end", "records", "leader"), rows)
        facts += [("configs", dict(configs))] if session.output != "table" else [(name, value or None) for name, value in configs]
        show_detail(facts, [partitions], session.output)

    run(work())


@topic.command()
@click.argument("name")
@click.option("-p", "--partitions", type=click.IntRange(1), default=1, show_default=True)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Topic setting, for example retention.ms=3600000.")
@pass_session
def create(session: Session, name: str, partitions: int, settings: tuple[str, ...]) -> None:
    """Create a topic."""
    configs = {key: value for key, value in pairs(settings).items() if value is not None}

    async def work() -> None:
        async with session.kafka() as kafka:
            detail = await kafka.create_topic(name, partitions=partitions, configs=configs)
        say(f"created topic {detail.name} with {len(detail.partitions)} partition(s), id {detail.topic_id}")

    run(work())


@topic.command()
@click.argument("name", shell_complete=topic_names)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Setting to change; NAME= sets it back to its default.")
@click.option("-p", "--partitions", type=click.IntRange(1), help="New total number of partitions.")
@pass_session
def alter(session: Session, name: str, settings: tuple[str, ...], partitions: int | None) -> None:
    """Change settings of a topic or raise its number of partitions."""
    if not settings and partitions is None:
        fail("nothing to change: give --set or --partitions")

    async def work() -> None:
        async with session.kafka() as kafka:
            if settings:
                await kafka.alter_topic(name, pairs(settings))
            if partitions is not None:
                await kafka.add_partitions(name, partitions)
        say(f"altered topic {name}")

    run(work())


@topic.command()
@click.argument("name", shell_complete=topic_names)
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_session
def delete(session: Session, name: str, yes: bool) -> None:
    """Delete a topic and its data. Landed tables keep their rows."""
    if not yes:
        click.confirm(f"delete topic {name} and its data?", abort=True, err=True)

    async def work() -> None:
        async with session.kafka() as kafka:
            await kafka.delete_topic(name)
        say(f"deleted topic {name}")

    run(work())
