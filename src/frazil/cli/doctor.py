"""``frazil doctor``: is everything here that Frazil needs?"""

from __future__ import annotations

import click

from frazil.cli.output import show
from frazil.cli.session import Session, pass_session, run


@click.command()
@pass_session
def doctor(session: Session) -> None:
    """Check this installation, the stores and the broker. Exit code 1 when there is a problem."""
    from frazil.assembly.doctor import examine

    findings = run(examine(session.settings().settings))
    show(("level", "about", "finding"), [(f.level, f.about, f.text) for f in findings], session.output)
    if any(finding.level == "problem" for finding in findings):
        raise click.exceptions.Exit(1)
