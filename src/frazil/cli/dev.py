"""``frazil dev``: broker and landing on one locked directory."""

from __future__ import annotations

import click

from frazil.cli.session import Session, pass_session, run


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on (setting broker.port).")
@pass_session
def dev(session: Session, port: int | None) -> None:
    """Run broker and landing as two processes under this one, until SIGTERM or SIGINT."""
    from frazil.assembly.dev import run_dev

    extra = {} if port is None else {"broker.port": str(port)}
    flags = {**session.flags, **extra}
    run(run_dev(session.settings(extra).settings, config=session.config, flags=flags))
