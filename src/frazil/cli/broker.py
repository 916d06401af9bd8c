"""``frazil broker``: one broker process."""

from __future__ import annotations

import click

from frazil.cli.session import Session, pass_session, run


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on (setting broker.port).")
@click.option("--supervised", is_flag=True, hidden=True, help="End when the parent process ends.")
@pass_session
def broker(session: Session, port: int | None, supervised: bool) -> None:
    """Run a broker until SIGTERM or SIGINT; then it answers what it has taken and stops."""
    from frazil.assembly.broker import run_broker

    extra = {} if port is None else {"broker.port": str(port)}
    run(run_broker(session.settings(extra).settings, supervised=supervised))
