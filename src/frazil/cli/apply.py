"""``frazil apply`` and ``frazil diff``: manifests."""

from __future__ import annotations

import click

from frazil.cli.output import show
from frazil.cli.session import Session, pass_session, run, say

_files = click.option(
    "-f", "--file", "files", multiple=True, required=True, metavar="FILE|DIR|-", help="Manifests: a file, a directory, or - for stdin."
)


@click.command()
@_files
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@pass_session
def apply(session: Session, files: tuple[str, ...], dry_run: bool) -> None:
    """Make topics, tables and catalogs as manifests say. Doing it again changes nothing."""
    from frazil.assembly.manifests import open_manifests

    async def work() -> None:
        async with open_manifests(session.settings().settings, session.kafka) as manifests:
            steps = await manifests.plan(files)
            done = len(steps) if dry_run else 0
            try:
                for step in steps[done:]:
                    await manifests.apply(step)
                    done += 1
            finally:  # what was made before one was refused is made
                show(("object", "result"), [(step.title, step.verdict) for step in steps[:done]], session.output)
        if dry_run:
            say("nothing was done (--dry-run)")

    run(work())


@click.command()
@_files
@pass_session
def diff(session: Session, files: tuple[str, ...]) -> None:
    """Show what apply would change. Exit code 1 when something would, 0 when not, more when it cannot be told."""
    from frazil.assembly.manifests import open_manifests

    async def work() -> bool:
        async with open_manifests(session.settings().settings, session.kafka) as manifests:
            steps = await manifests.plan(files)
        text = "".join(step.diff() for step in steps)
        click.echo(text, nl=False)
        return bool(text)

    if run(work(), failure_code=2):
        raise SystemExit(1)
