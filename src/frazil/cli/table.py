"""``frazil table``: Iceberg tables that topics land in."""

from __future__ import annotations

import datetime

import click

from frazil.admin.port import NewTable
from frazil.cli.completion import table_names, topic_names
from frazil.cli.output import Part, show, show_detail
from frazil.cli.session import Session, fail, pairs, pass_session, run, say

_SNAPSHOTS_SHOWN = 10
_options = click.option(
    "--option",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    help="Option of the landing (docs/landing-options.md), e.g. paused=true; NAME= takes one away.",
)


@click.group()
def table() -> None:
    """Tables: list, describe, create, alter, drop."""


@table.command("list")
@pass_session
def list_tables(session: Session) -> None:
    """Every table that is or should be landed, and the tables of the records that were refused."""
    from frazil.assembly.tables import open_tables

    async def work() -> None:
        async with open_tables(session.settings().settings) as tables:
            rows = await tables.status()
        found: list[tuple[str, str, str, int | None]] = []
        for row in rows:
            found.append((row.table, row.topics, row.state, row.lag_records))
            found += [(fed, row.topics, f"fed by {row.table}", None) for fed in row.feeds]
            if row.dead_letters:
                found.append((f"{row.table}_dead", row.topics, "dead letters", None))
        show(("table", "topics", "state", "lag"), found, session.output)

    run(work())


@table.command()
@click.argument("name", shell_complete=table_names)
@pass_session
def describe(session: Session, name: str) -> None:
    """Columns, snapshots and progress of one table; of a route the tables it feeds, and the home table of its progress."""
    from frazil.assembly.tables import open_tables

    async def work() -> None:
        async with open_tables(session.settings().settings) as tables:
            detail = await tables.describe(name)
        snapshots = [
            (s.snapshot_id, datetime.datetime.fromtimestamp(s.at_ms / 1000, tz=datetime.UTC), s.operation, s.added_records, s.total_records)
            for s in detail.snapshots
        ]
        shown = snapshots if session.output != "table" else snapshots[-_SNAPSHOTS_SHOWN:]
        fed = [(fed.table, fed.value, fed.rows) for fed in detail.feeds]
        feeds = [Part("tables", ("table", "value", "rows"), fed)] if fed else []
        parts = [
            Part("columns", ("column", "type"), detail.columns),
            Part("progress", ("topic id", "partition", "next offset"), detail.progress),
            *feeds,
            Part("snapshots", ("snapshot", "at", "operation", "added", "total"), shown),
        ]
        show_detail([("table", detail.table), ("metadata", detail.metadata_location)], parts, session.output)

    run(work())


@table.command()
@click.argument("name")
@click.option(
    "-t", "--topic", "topics", multiple=True, required=True, shell_complete=topic_names, help="Topic to land; may be given again."
)
@click.option(
    "--value",
    type=click.Choice(["json", "json-schema", "avro", "protobuf", "raw", "string", "int", "long", "float", "double"]),
    default="json",
    show_default=True,
    help="What record values are; json-schema, avro and protobuf name schemas of registry.url.",
)
@click.option("--column", "columns", multiple=True, metavar="DDL", help="Declared column, e.g. 'price decimal(10,2)'; none: inferred.")
@click.option("--no-metadata-columns", is_flag=True, help="Leave out _topic, _kafka_partition, _offset, _timestamp, _key and _headers.")
@click.option("--commit-interval-ms", type=click.IntRange(1_000), help="Time between two commits; default: landing.commit_interval_ms.")
@_options
@pass_session
def create(
    session: Session,
    name: str,
    topics: tuple[str, ...],
    value: str,
    columns: tuple[str, ...],
    no_metadata_columns: bool,
    commit_interval_ms: int | None,
    options: tuple[str, ...],
) -> None:
    """Land topics, from their first record on, in the Iceberg table NAMESPACE.NAME; they no longer land by themselves.

    Records the table cannot take go to NAMESPACE.NAME_dead with the reason.
    """
    from frazil.assembly.tables import open_tables

    wish = NewTable(
        table=name,
        topics=topics,
        value=value,
        columns=columns,
        metadata_columns=not no_metadata_columns,
        commit_interval_ms=commit_interval_ms,
        options={key: given for key, given in pairs(options, "--option").items() if given is not None},
    )

    async def work() -> None:
        async with open_tables(session.settings().settings) as tables:
            await tables.create(wish)
        say(f"{', '.join(topics)} will land in {name}")

    run(work())


@table.command()
@click.argument("name", shell_complete=table_names)
@_options
@click.option("--commit-interval-ms", type=click.IntRange(1_000), help="Time between two commits of this table.")
@pass_session
def alter(session: Session, name: str, options: tuple[str, ...], commit_interval_ms: int | None) -> None:
    """Change how a table is landed: pause it with --option paused=true, go on with --option paused=."""
    from frazil.assembly.tables import open_tables

    if not options and commit_interval_ms is None:
        fail("nothing to change: give --option or --commit-interval-ms")

    async def work() -> None:
        async with open_tables(session.settings().settings) as tables:
            await tables.alter(name, pairs(options, "--option"), commit_interval_ms=commit_interval_ms)
        say(f"altered the landing into {name}")

    run(work())


@table.command()
@click.argument("name", shell_complete=table_names)
@click.option("--purge", is_flag=True, help="Drop the table from the catalog too; its files stay until you delete them.")
@pass_session
def drop(session: Session, name: str, purge: bool) -> None:
    """Stop landing into a table."""
    from frazil.assembly.tables import open_tables

    async def work() -> None:
        async with open_tables(session.settings().settings) as tables:
            await tables.drop(name, purge=purge)
        say(f"{name} is no longer landed" + (" and was dropped from the catalog" if purge else ""))

    run(work())
