"""Opens the verbs that are asked of a broker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from frazil.admin.bench import BenchPlan, BenchReport, run_bench
from frazil.admin.kafka import KafkaClient
from frazil.admin.port import KafkaAdmin
from frazil.kit.chance import seeded_chance, system_chance
from frazil.kit.clock import SystemClock


@asynccontextmanager
async def open_kafka(
    host: str, port: int, *, patience_s: float = 0.0, notice: Callable[[str], None] | None = None
) -> AsyncIterator[KafkaAdmin]:
    """Verbs asked of the broker at ``host:port``. Raises RetryLater when nobody listens within ``patience_s`` seconds."""
    client = KafkaClient(host, port)
    await client.open(patience_s=patience_s, notice=notice)
    try:
        yield client
    finally:
        await client.close()


async def bench(host: str, port: int, plan: BenchPlan, *, notice: Callable[[str], None]) -> BenchReport:
    """Loads the cluster at ``host:port`` as ``plan`` says."""
    return await run_bench((host, port), plan, chance=seeded_chance(1), clock=SystemClock(), notice=notice)


def bench_topic() -> str:
    """A topic name for one load. Names that begin with two underscores are not landed by themselves."""
    return f"__bench-{system_chance().getrandbits(40):010x}"
