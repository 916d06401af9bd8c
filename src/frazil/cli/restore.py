"""``frazil restore``: after metadata was put back from an older copy."""

from __future__ import annotations

import click

from frazil.cli.output import show
from frazil.cli.session import Session, pass_session, run, say

_COLUMNS = ("topic", "partition", "next offset", "raised to", "log start", "starts at", "segments found", "sealed now", "lost offsets")


@click.command()
@click.option("--yes", is_flag=True, help="Do it. Without it the command only shows what it would do.")
@pass_session
def restore(session: Session, yes: bool) -> None:
    """Make an older copy of metadata fit its bucket again.

    Use it when processes refuse to start because metadata is older than the bucket. Stop every broker and landing process first.
    No offset is given out twice afterwards; records that were neither sealed nor known to the copy are lost, and named.
    """
    from frazil.assembly.restore import run_restore

    answer = run(run_restore(session.settings().settings, apply=yes))
    rows = [
        (r.topic, r.partition, r.head, r.new_head, r.log_start, r.new_log_start, r.adopted, r.sealed, r.lost or None) for r in answer.rows
    ]
    show(_COLUMNS, rows, session.output)
    say(answer.older or "the marks of metadata and bucket match: nothing says that metadata is an older copy")
    for note in answer.notes:
        say(f"note: {note}")
    if any(row.lost or row.new_log_start > row.log_start for row in answer.rows):
        say("LOST: ranges above, and offsets below a raised log start, may have held acknowledged records; nothing holds them any more")
    say("restored; brokers and landing may start" if yes else "nothing was changed; add --yes to do this")
