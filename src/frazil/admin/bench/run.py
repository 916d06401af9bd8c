"""One run: topics, consumers, producers, the drain, the report."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from frazil.admin.bench.cluster import Cluster, Pipes, Spot, offsets
from frazil.admin.bench.consumer import Consumer
from frazil.admin.bench.pipe import Pipe
from frazil.admin.bench.plan import BenchPlan
from frazil.admin.bench.producer import Producer, make_batches
from frazil.admin.bench.report import BenchReport, Phase, phase
from frazil.admin.bench.tally import Tally
from frazil.kit.chance import Chance
from frazil.kit.clock import Clock
from frazil.kit.tasks import spawn

_EARLIEST, _LATEST = -2, -1
_QUIET_S = 10.0
"""How long the last records may take to arrive."""
_LOOK_S = 0.05


@dataclass(slots=True)
class _Open:
    """Connections of one run."""

    pipes: list[Pipes] = field(default_factory=list)

    async def to(self, cluster: Cluster) -> Pipes:
        """A new set of connections, one to each leader."""
        found = Pipes(Pipe)
        self.pipes.append(found)
        await found.open(cluster.leaders.values())
        return found


async def run_bench(
    bootstrap: tuple[str, int], plan: BenchPlan, *, chance: Chance, clock: Clock, notice: Callable[[str], None]
) -> BenchReport:
    """Runs ``plan`` against the cluster at ``bootstrap``; tells what it does through ``notice``.

    Raises Refused for a plan that cannot be run, RetryLater when the cluster goes away.
    """
    plan.check()
    control = Pipe(*bootstrap)
    await control.open()
    cluster = Cluster(control)
    opened = _Open()
    try:
        await cluster.prepare(plan.topics, plan.partitions)
        return await _measure(cluster, opened, plan, make_batches(plan, chance, clock.now_ms()) if plan.producers else [], notice)
    finally:
        for pipes in opened.pipes:
            await pipes.close()
        if not plan.keep:
            await cluster.remove_made()
        await control.close()


async def _measure(cluster: Cluster, opened: _Open, plan: BenchPlan, batches: list[bytes], notice: Callable[[str], None]) -> BenchReport:
    loop = asyncio.get_running_loop()
    look = await opened.to(cluster)
    starts = await offsets(look, cluster.leaders, _LATEST if plan.producers else _EARLIEST)
    tally = Tally(begin=loop.time() + (plan.warmup_s if plan.producers else 0.0), reached=dict(starts))
    consumers = []
    for number in range(plan.consumers):
        mine = {spot: leader for at, (spot, leader) in enumerate(sorted(cluster.leaders.items())) if at % plan.consumers == number}
        if mine:
            consumer = Consumer(mine, tally, await opened.to(cluster))
            consumers.append(spawn(f"bench consumer {number}", consumer.run()))
    try:
        if plan.producers:
            producers = [Producer(at, plan, cluster.leaders, batches, tally, await opened.to(cluster)) for at in range(plan.producers)]
            notice(f"{plan.producers} producer(s), batches of {plan.records_per_batch} record(s) of {plan.record_bytes} bytes")
            # Connections are open; the window begins now.
            tally.begin = loop.time() + plan.warmup_s
            await _together(producers, consumers)
        ends = await offsets(look, cluster.leaders, _LATEST)
        if consumers:
            await _drain(tally, ends, consumers)
        if tally.forgotten_records:
            # Asked before, the ends did not yet hold what was still on its way.
            ends = await offsets(look, cluster.leaders, _LATEST)
    finally:
        for task in consumers:
            task.cancel()
        await asyncio.gather(*consumers, return_exceptions=True)
    return _report(plan, tally, ends if consumers else {})


async def _together(producers: list[Producer], consumers: list[asyncio.Task[None]]) -> None:
    """Runs the producers to their end. A consumer that fails ends the run."""
    tasks = [spawn(f"bench producer {producer.number}", producer.run()) for producer in producers]
    try:
        pending: set[asyncio.Task[None]] = set(tasks)
        while pending & set(tasks):
            done, pending = await asyncio.wait({*pending, *consumers}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _drain(tally: Tally, ends: dict[Spot, int], consumers: list[asyncio.Task[None]]) -> None:
    """Waits until everything there is was read, or nothing came for a while."""
    loop = asyncio.get_running_loop()
    quiet_since = loop.time()
    while loop.time() - max(quiet_since, tally.read_at) < _QUIET_S:
        if tally.read_records >= tally.forgotten_records and all(tally.reached[spot] >= end for spot, end in ends.items()):
            return
        for task in consumers:
            if task.done():
                task.result()
        await asyncio.sleep(_LOOK_S)


def _report(plan: BenchPlan, tally: Tally, ends: dict[Spot, int]) -> BenchReport:
    phases: list[Phase] = []
    if plan.producers:
        phases.append(_phase("produce", tally.acked_records, plan, tally.acked_at - tally.begin, tally.latencies_s))
    if ends and plan.producers and plan.acks == 0:
        # Without answers nobody knows which batch went where: only how much came.
        seconds = tally.read_at - tally.begin + plan.warmup_s
        phases.append(_phase("end to end", tally.read_records, plan, seconds, ()))
    elif ends and plan.producers:
        took = tally.end_to_end_s()
        last = max((at for key, at in tally.arrived.items() if tally.begun.get(key, -1.0) >= tally.begin), default=tally.begin)
        phases.append(_phase("end to end", len(took) * plan.records_per_batch, plan, last - tally.begin, took))
    elif ends:
        phases.append(phase("consume", records=tally.read_records, size=tally.read_bytes, seconds=max(0.0, tally.read_at - tally.begin)))
    missing = sum(max(0, end - tally.reached[spot]) for spot, end in ends.items())
    return BenchReport(phases=tuple(phases), errors=tally.errors, first_error=tally.first_error, missing=missing)


def _phase(name: str, records: int, plan: BenchPlan, seconds: float, latencies_s: Sequence[float]) -> Phase:
    return phase(name, records=records, size=records * plan.record_bytes, seconds=max(0.0, seconds), latencies_s=latencies_s)
