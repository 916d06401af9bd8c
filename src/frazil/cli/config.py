"""``frazil config``: which settings hold, and why."""

from __future__ import annotations

import click

from frazil.cli.output import show
from frazil.cli.session import Session, pass_session


@click.group()
def config() -> None:
    """Settings of this process."""


@config.command()
@click.option("--changed", is_flag=True, help="Only settings that differ from their default source.")
@pass_session
def explain(session: Session, changed: bool) -> None:
    """Every setting with its value, its source, its variable and what it is for."""
    rows = [
        (leaf.name, leaf.value, leaf.source, leaf.variable, leaf.about)
        for leaf in session.settings().explained
        if not changed or leaf.source != "default"
    ]
    show(("setting", "value", "source", "variable", "about"), rows, session.output)
