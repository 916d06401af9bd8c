"""``frazil broker``: one broker process."""

from __future__ import annotations

import click

from frazil.cli.session import Session, guarded, pass_session


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on (setting broker.port).")
@click.option("--supervised", is_flag=True, hidden=True, help="End when the parent process ends.")
@pass_session
def broker(session: Session, port: int | None, supervised: bool) -> None:
    """Run a broker until SIGTERM or SIGINT; then it answers what it has taken and stops."""
    from frazil.assembly.broker import run_broker
    from frazil.assembly.loops import run_on_fast_loop

    extra = {} if port is None else {"broker.port": str(port)}
    settings = session.settings(extra).settings
    guarded(lambda: run_on_fast_loop(run_broker(settings, supervised=supervised)))
