"""``frazil registry``: the cluster's schema registry."""

from __future__ import annotations

import click

from frazil.cli.session import Session, pass_session, run


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on (setting registry.port).")
@click.option("--supervised", is_flag=True, hidden=True, help="End when the parent process ends.")
@pass_session
def registry(session: Session, port: int | None, supervised: bool) -> None:
    """Serve the cluster's schema registry (Confluent's API) until SIGTERM or SIGINT."""
    from frazil.assembly.registry import run_registry

    extra = {} if port is None else {"registry.port": str(port)}
    run(run_registry(session.settings(extra).settings, supervised=supervised))
