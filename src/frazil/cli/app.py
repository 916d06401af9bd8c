"""The root command: global options, and one command per noun."""

from __future__ import annotations

import click

from frazil import __version__
from frazil.cli.anywhere import accept_after, keep_changes
from frazil.cli.apply import apply, diff
from frazil.cli.bench import bench
from frazil.cli.broker import broker
from frazil.cli.completion import completion
from frazil.cli.config import config
from frazil.cli.consume import consume
from frazil.cli.deadletter import deadletter
from frazil.cli.dev import dev
from frazil.cli.doctor import doctor
from frazil.cli.group import group
from frazil.cli.land import land
from frazil.cli.output import FORMATS
from frazil.cli.produce import produce
from frazil.cli.registry import registry
from frazil.cli.restore import restore
from frazil.cli.session import Session
from frazil.cli.sql import sql
from frazil.cli.table import table
from frazil.cli.topic import topic


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="frazil")
@click.option("-c", "--config", metavar="FILE", help="Settings file (YAML). Default: $FRAZIL_CONFIG.")
@click.option("-o", "--output", type=click.Choice(FORMATS), default="table", help="How data is printed on stdout.")
@click.option("-b", "--bootstrap", metavar="HOST:PORT", default="", help="Broker to ask. Default: from the settings.")
@click.option("-d", "--data-dir", metavar="DIR", help="Directory of the embedded stores (setting data_dir).")
@click.option("-s", "--set", "changes", multiple=True, metavar="NAME=VALUE", help="Any setting, e.g. -s landing.commit_interval_ms=1000.")
@click.pass_context
def main(context: click.Context, config: str | None, output: str, bootstrap: str, data_dir: str | None, changes: tuple[str, ...]) -> None:
    """Kafka clients in, Iceberg tables out, seconds later, exactly once.

    The options below may also stand after the command.
    """
    session = Session(config=config, output=output, bootstrap=bootstrap)
    keep_changes(session, changes)
    if data_dir is not None:
        session.flags["data_dir"] = data_dir
    context.obj = session


for command in (
    dev, broker, land, registry, apply, diff, topic, group, produce, consume, table, deadletter, sql,
    restore, doctor, bench, config, completion,
):  # fmt: skip
    main.add_command(command)
accept_after(main)
