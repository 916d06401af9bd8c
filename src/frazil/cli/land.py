"""``frazil land``: the landing process and its status."""

from __future__ import annotations

import click

from frazil.cli.completion import table_names
from frazil.cli.output import show
from frazil.cli.session import Session, fail, pass_session, run, say


@click.group(invoke_without_command=True)
@click.option(
    "-f", "--file", "files", multiple=True, metavar="FILE|DIR|-", help="Run the landings of these manifests, and nothing else."
)
@click.option("--supervised", is_flag=True, hidden=True, help="End when the parent process ends.")
@click.pass_context
def land(context: click.Context, files: tuple[str, ...], supervised: bool) -> None:
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

        run(run_landing(session.settings().settings, supervised=supervised))


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
                say(f'refused records of {row.table}: frazil sql "SELECT code, reason, value FROM {row.table}_dead"')
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
