"""``frazil produce``: lines of stdin become records."""

from __future__ import annotations

import asyncio
import sys

import click

from frazil.admin.port import OutgoingRecord
from frazil.cli.completion import topic_names
from frazil.cli.session import Session, pass_session, run, say

_LINES_AT_ONCE = 5_000


@click.command()
@click.argument("topic", shell_complete=topic_names)
@click.option("-k", "--key-separator", metavar="TEXT", help="Split each line at the first TEXT into key and value.")
@click.option("-p", "--partition", type=int, default=-1, help="Partition; default: by key, or round robin.")
@click.option("-z", "--codec", type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]), default="none", show_default=True)
@pass_session
def produce(session: Session, topic: str, key_separator: str | None, partition: int, codec: str) -> None:
    """Produce each line of stdin as one record, with acks=all."""

    async def work() -> None:
        sent = 0
        async with session.kafka() as kafka:
            while lines := await asyncio.to_thread(_some_lines):
                records = [_record(line, key_separator, partition) for line in lines]
                sent += await kafka.produce(topic, records, codec=codec)
                if sys.stderr.isatty():
                    click.echo(f"\r{sent:,} records", err=True, nl=False)
        say(f"{'' if not sys.stderr.isatty() else chr(13)}produced {sent:,} records to {topic}")

    run(work())


def _some_lines() -> list[bytes]:
    lines: list[bytes] = []
    for line in sys.stdin.buffer:
        lines.append(line.rstrip(b"\r\n"))
        if len(lines) >= _LINES_AT_ONCE:
            break
    return lines


def _record(line: bytes, separator: str | None, partition: int) -> OutgoingRecord:
    if separator is None:
        return OutgoingRecord(key=None, value=line, partition=partition)
    key, found, value = line.partition(separator.encode("utf-8"))
    return OutgoingRecord(key=key, value=value, partition=partition) if found else OutgoingRecord(key=None, value=line, partition=partition)
