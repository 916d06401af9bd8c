"""``frazil bench``: load against any Kafka bootstrap, and what it measured."""

from __future__ import annotations

import pathlib
from dataclasses import replace
from typing import Any

import click
import yaml

from frazil.admin.bench import BenchPlan, BenchReport, Phase, plan_of_workload
from frazil.cli.completion import topic_names
from frazil.cli.output import show
from frazil.cli.session import Session, fail, guarded, pass_session, run, say

_CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
_ACKS = {"0": 0, "1": 1, "all": -1}
_COLUMNS = ("phase", "records", "seconds", "records per s", "mb per s", "p50 ms", "p99 ms", "p999 ms", "max ms")


@click.command()
@click.option("-t", "--topic", shell_complete=topic_names, help="Topic to use; default: one made for the run, which is not landed.")
@click.option("-p", "--partitions", type=click.IntRange(1), default=1, show_default=True, help="Partitions of a topic that is made.")
@click.option("-n", "--records", type=click.IntRange(0), default=0, help="End after so many records.")
@click.option("--seconds", type=click.FloatRange(0), help="End after so long; default 10, or no such end with --records.")
@click.option("--warmup", "warmup_s", type=click.FloatRange(0), help="Seconds before counting begins; default 1, or 0 with --records.")
@click.option("--size", type=click.IntRange(0, 16_000_000), default=1024, show_default=True, help="Bytes of a record's value.")
@click.option("--rate", type=click.FloatRange(0), default=0.0, help="Records per second in all; default: as fast as answers come.")
@click.option("--batch-bytes", type=click.IntRange(1), default=65_536, show_default=True, help="Largest batch.")
@click.option(
    "--linger-ms", type=click.FloatRange(0), default=5.0, show_default=True, help="With --rate: what comes in this time is one batch."
)
@click.option("-z", "--codec", type=click.Choice(_CODECS), default="none", show_default=True)
@click.option("--acks", type=click.Choice(list(_ACKS)), default="all", show_default=True)
@click.option("--producers", type=click.IntRange(0), default=1, show_default=True, help="0: read what the topic holds.")
@click.option("--inflight", type=click.IntRange(1), default=5, show_default=True, help="Batches of one producer without an answer.")
@click.option("--consumers", type=click.IntRange(0), default=1, show_default=True, help="0: only produce.")
@click.option("--keep", is_flag=True, help="Leave the topic that was made for the run.")
@click.option("-w", "--workload", type=click.Path(exists=True, dir_okay=False), help="Workload file of the OpenMessaging benchmark (YAML).")
@pass_session
def bench(session: Session, /, workload: str | None, **given: Any) -> None:  # noqa: ANN401 - click's options, by name
    """Produce and consume at once, and print throughput and latencies.

    It speaks the protocol itself, with batches made beforehand, so that the cluster is measured and not a client library. Latencies are
    of batches: from when they were sent (with --rate: due) until acknowledged (produce) or read (end to end). Exit code 1 when a batch
    was refused or an acknowledged record not read.
    """
    from frazil.assembly.verbs import bench as run_load
    from frazil.assembly.verbs import bench_topic

    host, port = session.broker_address()
    plan = guarded(lambda: _plan(workload, given, bench_topic))

    async def work() -> BenchReport:
        async with session.kafka():  # waits for a broker that is just starting
            return await run_load(host, port, plan, notice=say)

    report = run(work())
    show(_COLUMNS, [_row(phase) for phase in report.phases], session.output)
    _judge(report)


def _plan(workload: str | None, given: dict[str, Any], fresh: Any) -> BenchPlan:  # noqa: ANN401
    counted = given["records"] > 0
    plan = BenchPlan(
        topics=(given["topic"] or fresh(),),
        partitions=given["partitions"],
        records=given["records"],
        seconds=given["seconds"] if given["seconds"] is not None else (0.0 if counted else 10.0),
        warmup_s=given["warmup_s"] if given["warmup_s"] is not None else (0.0 if counted else 1.0),
        record_bytes=given["size"],
        rate=given["rate"],
        batch_bytes=given["batch_bytes"],
        linger_ms=given["linger_ms"],
        codec=given["codec"],
        acks=_ACKS[given["acks"]],
        producers=given["producers"],
        inflight=given["inflight"],
        consumers=given["consumers"],
        keep=given["keep"],
    )
    if workload is None:
        return plan
    try:
        document = yaml.safe_load(pathlib.Path(workload).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        fail(f"{workload}: {error}")
    if not isinstance(document, dict):
        fail(f"{workload}: want a mapping, as a workload of the OpenMessaging benchmark is")
    loaded = plan_of_workload(document, base=plan, prefix=plan.topics[0])
    # What was said on the command line as well wins over the file.
    return replace(loaded, seconds=given["seconds"]) if given["seconds"] is not None else loaded


def _row(phase: Phase) -> tuple[object, ...]:
    latencies = (phase.p50_ms, phase.p99_ms, phase.p999_ms, phase.max_ms)
    times = [None if value is None else round(value, 2) for value in latencies]
    return (phase.name, phase.records, round(phase.seconds, 2), round(phase.records_per_s), round(phase.mb_per_s, 1), *times)


def _judge(report: BenchReport) -> None:
    if report.errors:
        fail(f"{report.errors} batch(es) were refused; the first: {report.first_error}")
    if report.missing:
        fail(f"{report.missing:,} record(s) of the topic were not read within 10 quiet seconds")
