"""``frazil land``: the landing process and its status."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

import click

from frazil.admin.landreset import LandResetRow, LandResetWish, parse_partitions
from frazil.cli.completion import table_names
from frazil.cli.output import show
from frazil.cli.session import Session, fail, guarded, pass_session, run, say
from frazil.cli.times import TIME, time_ms


@click.group(invoke_without_command=True)
@click.option(
    "-f", "--file", "files", multiple=True, metavar="FILE|DIR|-", help="Run the landings of these manifests, and nothing else."
)
@click.option("--with-registry", is_flag=True, help="Serve the cluster's schema registry in this process too.")
@click.option("--supervised", is_flag=True, hidden=True, help="End when the parent process ends.")
@click.pass_context
def land(context: click.Context, files: tuple[str, ...], with_registry: bool, supervised: bool) -> None:
    """Run landing (without a subcommand), or ask how it is doing."""
    session = context.ensure_object(Session)
    if context.invoked_subcommand is not None:
        if files:
            fail(f"-f runs a manifest and goes without a subcommand; leave {context.invoked_subcommand!r} out")
    elif files:
        from frazil.assembly.landfile import run_manifest

        run(run_manifest(session.settings().settings, files))
    else:
        from frazil.assembly.landing import run_landing

        run(run_landing(session.settings().settings, supervised=supervised, with_registry=with_registry))


@land.command()
@pass_session
def status(session: Session) -> None:
    """State, freshness, lag, dead letters, and for a stalled table the stage and the reason. Exit code 2 when one is not well."""
    from frazil.assembly.tables import open_tables

    async def work() -> bool:
        async with open_tables(session.settings().settings) as tables:
            rows = await tables.status()
        show(
            ("table", "topics", "state", "freshness ms", "lag", "dead letters", "stage", "reason"),
            [(r.table, r.topics, r.state, r.freshness_ms, r.lag_records, r.dead_letters, r.stage, r.reason) for r in rows],
            session.output,
        )
        for row in rows:
            if row.dead_letters:
                say(f"refused records of {row.table}: frazil deadletter show {row.table}")
        if not rows:
            say("no table is landed yet; a new topic gets its table within seconds")
        return all(row.state in ("running", "idle") for row in rows)

    if not run(work()):
        raise SystemExit(2)


@land.command()
@click.argument("table", shell_complete=table_names)
@click.option("--timeout", "timeout_s", type=click.FloatRange(0), default=60.0, show_default=True, help="Seconds before giving up.")
@pass_session
def wait(session: Session, table: str, timeout_s: float) -> None:
    """Wait until every record that TABLE's topics hold now is in it, or in its dead letters."""
    from frazil.admin.arrival import await_arrival
    from frazil.assembly.tables import open_tables

    async def work() -> None:
        async with session.kafka() as kafka, open_tables(session.settings().settings) as tables:
            count = await await_arrival(kafka, tables, table, timeout_s=timeout_s)
        say(f"{table} has all {count:,} records")

    run(work())


@land.command()
@click.argument("table", shell_complete=table_names)
@click.option("--to", default="", metavar=f"earliest|latest|OFFSET|{TIME}", help="Where all partitions shall go on.")
@click.option("--partition", "partitions", multiple=True, metavar="TOPIC:N=OFFSET", help="Where this one shall, in its own way.")
@click.option("--delete-rows", is_flag=True, help="Delete the rows that will be read again, in the same commit.")
@click.option("--allow-duplicates", is_flag=True, help="Rows that are read again may be there twice.")
@click.option("-f", "--file", "files", multiple=True, metavar="FILE|DIR|-", help="The table is landed by these manifests.")
@click.option("--yes", is_flag=True, help="Do it without asking.")
@pass_session
def reset(
    session: Session,
    table: str,
    to: str,
    partitions: tuple[str, ...],
    delete_rows: bool,
    allow_duplicates: bool,
    files: tuple[str, ...],
    yes: bool,
) -> None:
    """Set where TABLE goes on in its log: one commit to the table, while landing may run.

    Shows first, per partition, what will be read again and which rows are there already, and asks.
    """
    from frazil.assembly.landreset import open_reset

    place = None if to in ("", "earliest", "latest") or to.isdecimal() else time_ms(to, "--to")
    wish = LandResetWish(
        to=to if place is None else datetime.datetime.fromtimestamp(place / 1000, tz=datetime.UTC).isoformat(),
        partitions=guarded(lambda: parse_partitions(partitions)),
        delete_rows=delete_rows,
        allow_duplicates=allow_duplicates,
    )

    async def work(execute: bool) -> tuple[LandResetRow, ...]:
        async with open_reset(session.settings().settings, table, files) as admin:
            return await (admin.reset(wish) if execute else admin.preview(wish))

    columns = ("topic", "partition", "now", "then", "read again", "rows there", "passed over")
    rows = run(work(execute=False))
    if not rows:
        say(f"every partition of {table} is where it shall be already")
        return
    found = [(r.topic, r.partition, r.now, r.then, r.read_again, r.rows, r.skipped) for r in rows]
    show(columns, found, session.output)
    _tell(table, rows, delete_rows=delete_rows, allow_duplicates=allow_duplicates)
    if not yes and not click.confirm(f"reset {table}?", err=True):
        fail("nothing was changed")
    run(work(execute=True))
    say(f"{table} goes on there")


def _tell(table: str, rows: Sequence[LandResetRow], *, delete_rows: bool, allow_duplicates: bool) -> None:
    again, skipped, there = (sum(counts) for counts in zip(*((r.read_again, r.skipped, r.rows or 0) for r in rows), strict=True))
    if again:
        twice = "be there twice, unless the table has one row per key"
        what = "are deleted" if delete_rows else f"will {twice}" if allow_duplicates else f"would {twice}"
        say(f"{again:,} offsets will be read again; {there:,} rows of {table} {what}")
        if there and not (delete_rows or allow_duplicates):
            say("then say --delete-rows, or --allow-duplicates; without one of them it is refused")
    if skipped:
        say(f"{skipped:,} offsets will never be read; the snapshot records the loss")
