"""``frazil land``: the landing process and its status."""

from __future__ import annotations

import click

from frazil.cli.output import show
from frazil.cli.session import Session, pass_session, run


@click.group(invoke_without_command=True)
@click.option("--supervised", is_flag=True, hidden=True, help="End when the parent process ends.")
@click.pass_context
def land(context: click.Context, supervised: bool) -> None:
    """Run landing (without a subcommand), or ask how it is doing."""
    if context.invoked_subcommand is None:
        from frazil.assembly.landing import run_landing

        session = context.ensure_object(Session)
        run(run_landing(session.settings().settings, supervised=supervised))


@land.command()
@pass_session
def status(session: Session) -> None:
    """State, freshness, lag, and for a stalled table the stage and the reason. Exit code 2 when one is not well."""
    from frazil.assembly.tables import open_tables

    async def work() -> bool:
        async with open_tables(session.settings().settings) as tables:
            rows = await tables.status()
        show(
            ("table", "topics", "state", "freshness ms", "lag", "stage", "reason"),
            [(r.table, r.topics, r.state, r.freshness_ms, r.lag_records, r.stage, r.reason) for r in rows],
            session.output,
        )
        return all(row.state in ("running", "idle") for row in rows)

    if not run(work()):
        raise SystemExit(2)
