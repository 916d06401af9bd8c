"""``frazil produce``: lines of stdin become records."""

from __future__ import annotations

import asyncio
import sys

import click

from frazil.admin.port import OutgoingRecord
from frazil.cli.completion import topic_names
from frazil.cli.session import Session, fail, pass_session, run, say

_LINES_AT_ONCE = 5_000
Header = tuple[str, bytes]


@click.command()
@click.argument("topic", shell_complete=topic_names)
@click.option("-k", "--key-separator", metavar="TEXT", help="Split each line at the first TEXT into key and value.")
@click.option("-p", "--partition", type=int, default=-1, help="Partition; default: by key, or round robin.")
@click.option("-z", "--codec", type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]), default="none", show_default=True)
@click.option("-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="Header of every record; may be given again.")
@pass_session
def produce(session: Session, topic: str, key_separator: str | None, partition: int, codec: str, headers: tuple[str, ...]) -> None:
    """Produce each line of stdin as one record, with acks=all."""
    beside = tuple(_header(text) for text in headers)

    async def work() -> None:
        sent = 0
        async with session.kafka() as kafka:
            while lines := await asyncio.to_thread(_some_lines):
                records = [_record(line, key_separator, partition, beside) for line in lines]
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


def _header(text: str) -> Header:
    name, equals, value = text.partition("=")
    if not equals:
        fail(f"--header {text!r}: want NAME=VALUE")
    return name, value.encode("utf-8")


def _record(line: bytes, separator: str | None, partition: int, headers: tuple[Header, ...]) -> OutgoingRecord:
    key, found, value = (line, b"", b"") if separator is None else line.partition(separator.encode("utf-8"))
    if not found:
        return OutgoingRecord(key=None, value=line, partition=partition, headers=headers)
    return OutgoingRecord(key=key, value=value, partition=partition, headers=headers)
