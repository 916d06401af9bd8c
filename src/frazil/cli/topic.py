"""``frazil topic``: topics of the cluster."""

from __future__ import annotations

import click

from frazil.cli.output import show, show_one
from frazil.cli.session import Session, fail, pass_session, run, say


@click.group()
def topic() -> None:
    """Topics: create, list, describe, alter, delete."""


@topic.command("list")
@pass_session
def list_topics(session: Session) -> None:
    """All topics."""
    from frazil.assembly.verbs import open_kafka

    async def work() -> None:
        async with open_kafka(*session.broker_address()) as kafka:
            rows = await kafka.list_topics()
        show(("topic", "partitions", "id"), [(r.name, r.partitions, r.topic_id) for r in rows], session.output)

    run(work())


@topic.command()
@click.argument("name")
@pass_session
def describe(session: Session, name: str) -> None:
    """Partitions, offsets and settings of one topic."""
    from frazil.assembly.verbs import open_kafka

    async def work() -> None:
        async with open_kafka(*session.broker_address()) as kafka:
            detail = await kafka.describe_topic(name)
        if session.output == "json":
            partitions = [
                {"partition": p.partition, "start": p.start_offset, "end": p.end_offset, "leader": p.leader} for p in detail.partitions
            ]
            show_one(
                [("topic", detail.name), ("id", detail.topic_id), ("configs", dict(detail.configs)), ("partitions", partitions)],
                session.output,
            )
            return
        show_one([("topic", detail.name), ("id", detail.topic_id), *sorted(detail.configs.items())], session.output)
        click.echo()
        show(
            ("partition", "start", "end", "records", "leader"),
            [(p.partition, p.start_offset, p.end_offset, p.end_offset - p.start_offset, p.leader) for p in detail.partitions],
            session.output,
        )

    run(work())


@topic.command()
@click.argument("name")
@click.option("-p", "--partitions", type=click.IntRange(1), default=1, show_default=True)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Topic setting, for example retention.ms=3600000.")
@pass_session
def create(session: Session, name: str, partitions: int, settings: tuple[str, ...]) -> None:
    """Create a topic."""
    from frazil.assembly.verbs import open_kafka

    configs = {key: value for key, value in pairs(settings).items() if value is not None}

    async def work() -> None:
        async with open_kafka(*session.broker_address()) as kafka:
            detail = await kafka.create_topic(name, partitions=partitions, configs=configs)
        say(f"created topic {detail.name} with {len(detail.partitions)} partition(s), id {detail.topic_id}")

    run(work())


@topic.command()
@click.argument("name")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Setting to change; NAME= sets it back to its default.")
@click.option("-p", "--partitions", type=click.IntRange(1), help="New total number of partitions.")
@pass_session
def alter(session: Session, name: str, settings: tuple[str, ...], partitions: int | None) -> None:
    """Change settings of a topic or raise its number of partitions."""
    from frazil.assembly.verbs import open_kafka

    if not settings and partitions is None:
        fail("nothing to change: give --set or --partitions")

    async def work() -> None:
        async with open_kafka(*session.broker_address()) as kafka:
            if settings:
                await kafka.alter_topic(name, pairs(settings))
            if partitions is not None:
                await kafka.add_partitions(name, partitions)
        say(f"altered topic {name}")

    run(work())


@topic.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_session
def delete(session: Session, name: str, yes: bool) -> None:
    """Delete a topic and its data. Landed tables keep their rows."""
    from frazil.assembly.verbs import open_kafka

    if not yes:
        click.confirm(f"delete topic {name} and its data?", abort=True, err=True)

    async def work() -> None:
        async with open_kafka(*session.broker_address()) as kafka:
            await kafka.delete_topic(name)
        say(f"deleted topic {name}")

    run(work())


def pairs(settings: tuple[str, ...]) -> dict[str, str | None]:
    """``NAME=VALUE`` texts as a mapping; an empty value is None."""
    found: dict[str, str | None] = {}
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals:
            fail(f"--set {text!r}: want NAME=VALUE")
        found[name] = value or None
    return found
