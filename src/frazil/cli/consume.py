"""``frazil consume``: records to stdout."""

from __future__ import annotations

import sys

import click

from frazil.admin.port import ConsumePlan, IncomingRecord
from frazil.cli.completion import group_names, topic_names
from frazil.cli.output import line_of
from frazil.cli.session import Session, pass_session, run, say
from frazil.cli.times import TIME, time_ms


@click.command()
@click.argument("topic", shell_complete=topic_names)
@click.option("--from", "start", default="earliest", metavar="earliest|latest|OFFSET", show_default=True, help="Where to start.")
@click.option("--from-time", metavar=TIME, help="Start at the first record of this time: 2026-01-31T12:00:00Z, or 15m, 2h, 7d ago.")
@click.option("-p", "--partition", "partitions", type=int, multiple=True, help="Only these partitions.")
@click.option("-n", "--max", "records_max", type=click.IntRange(1), help="Stop after so many records.")
@click.option("-f", "--follow", is_flag=True, help="Wait for more at the end of the log.")
@click.option(
    "-g", "--group", default="", shell_complete=group_names, help="Start at this group's committed offsets and commit what was printed."
)
@pass_session
def consume(
    session: Session,
    topic: str,
    start: str,
    from_time: str | None,
    partitions: tuple[int, ...],
    records_max: int | None,
    follow: bool,
    group: str,
) -> None:
    """Print the records of a topic: values as lines, or whole records with -o json or -o yaml."""
    start_ms = None if from_time is None else time_ms(from_time, "--from-time")
    plan = ConsumePlan(
        topic=topic, start=start, start_ms=start_ms, partitions=partitions, records_max=records_max, follow=follow, group=group
    )

    async def work() -> None:
        count = 0
        async with session.kafka() as kafka:
            async for record in kafka.consume(plan):
                _print(record, session.output)
                count += 1
        sys.stdout.flush()
        say(f"consumed {count:,} records from {topic}")

    run(work())


def _print(record: IncomingRecord, output: str) -> None:
    if output == "table":
        sys.stdout.buffer.write((record.value or b"") + b"\n")
        return
    fields = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": record.key,
        "value": record.value,
        "headers": [list(header) for header in record.headers],
    }
    sys.stdout.buffer.write(line_of(fields, output))
