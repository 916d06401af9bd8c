"""Brokers, producers, upkeep and kills on one seeded loop with faulty stores; the log is then read by a process that saw nothing.

Held: each idempotent record once and in order, each acknowledged record at the offset it was given, offsets dense, no hole,
nothing left over. A client behaves as Kafka's: five in flight, resend on trouble to any broker, an out-of-order answer for its
oldest batch is fatal.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from typing import Any

import pytest
from tests.simulation.loop import run_virtual
from tests.unit.log.world import Broker, World, batch, key, values

from frazil.kit.delays import Delay
from frazil.kit.errors import FrazilError, RetryLater
from frazil.kit.names import PartitionKey
from frazil.log.append import Appended, FaultKind, FlushPolicy
from frazil.log.flush import Flush
from frazil.metadata.faulty import FaultyMetadata, MetadataFaults
from frazil.metadata.stores.memory import MemoryMetadata
from frazil.objects.faulty import FaultyObjects, ObjectFaults
from frazil.objects.stores.memory import MemoryObjects

METADATA = MetadataFaults(
    range_delay=Delay(p50_ms=2, p99_ms=30),
    commit_delay=Delay(p50_ms=2, p99_ms=30),
    unavailable=0.03,
    lost_applied=0.05,
    lost_unapplied=0.03,
    lost_late=0.03,
    late_ms=300,
    hint_dropped=0.3,
    hint_late=0.2,
)
OBJECTS = ObjectFaults(
    put_delay=Delay(p50_ms=20, p99_ms=300),
    get_delay=Delay(p50_ms=5, p99_ms=50),
    s_503=0.05,
    s_404=0.02,
    s_412=0.01,
    s_cut_n=0.03,
    s_cut_a=0.03,
    s_late=0.02,
    late_ms=700,
)


class Killed(Exception):
    """A fault point stopped the process."""


class Cluster:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.world = World()
        self.partitions: list[PartitionKey] = []
        self.brokers: list[Broker] = []
        self.followers: list[asyncio.Task[Any]] = []
        self.quiet = False
        self.done = False

    def start(self) -> Broker:
        rng = self.rng
        seed = rng.getrandbits(32)
        store = FaultyMetadata(MemoryMetadata(self.world.metadata, self.world.clock), random.Random(seed), METADATA)
        objects = FaultyObjects(MemoryObjects(self.world.bucket, self.world.clock), random.Random(seed + 1), OBJECTS)
        policy = FlushPolicy(
            interval_ms=rng.choice([0, 5, 40]), inflight=rng.choice([1, 2, 4]), put_tries=rng.choice([1, 3]), put_deadline_ms=2000,
            commit_deadline_ms=rng.choice([50, 2000]), hedge_share=rng.choice([0.0, 0.5]), hedge_enough=3,
        )  # fmt: skip
        broker = self.world.broker(store=store, objects=objects, policy=policy, seed=seed)
        decide = broker.appender._decide

        async def stopped_now_and_then(ready: list[Flush]) -> None:
            if not self.quiet and rng.random() < 0.02:
                await asyncio.sleep(rng.uniform(1, 6))  # SIGSTOP between PUT and transaction (R01)
            await decide(ready)

        broker.appender._decide = stopped_now_and_then  # type: ignore[method-assign]
        return broker.start()

    def calm(self) -> None:
        self.quiet = True
        for broker in self.brokers:
            broker.store.plan = MetadataFaults()
            broker.objects.plan = ObjectFaults()

    async def kill_now_and_then(self) -> None:
        while not self.done:
            await asyncio.sleep(self.rng.uniform(0.5, 4))
            at = self.rng.randrange(len(self.brokers))
            old = self.brokers[at]
            if self.rng.random() < 0.5:
                point = self.rng.choice(["B1", "B3", "B4"])
                old.faults.arm(_killer(point))
                await asyncio.wait((old.task,), timeout=2)  # type: ignore[arg-type]
            old.task.cancel()  # type: ignore[union-attr]
            await asyncio.gather(old.task, return_exceptions=True)  # type: ignore[arg-type]
            self.brokers[at] = self.start()
            if self.quiet:
                self.calm()

    async def keep_house(self) -> None:
        while not self.done:
            await asyncio.sleep(self.rng.uniform(0.5, 3))
            broker = self.rng.choice(self.brokers)
            care = broker.caretaker(seal_age_ms=1500, grace_ms=1000, segment_bytes=1000, orphan_interval_ms=2000)
            try:
                await asyncio.wait_for(care.pass_once(), self.rng.uniform(0.1, 5))
            except (TimeoutError, FrazilError) as error:
                assert isinstance(error, TimeoutError | RetryLater), error

    async def look_for_orphans(self) -> None:
        while not self.done:
            await asyncio.sleep(self.rng.uniform(0.2, 2))
            collector = self.rng.choice(self.brokers).caretaker(seal_age_ms=800, grace_ms=1000).collector
            try:
                await collector.pass_once(orphans=True)
            except RetryLater:
                continue

    async def read_now_and_then(self) -> None:
        """Consumers on any broker, which may lag: they must see a prefix without a hole."""
        while not self.done:
            broker, where = self.rng.choice(self.brokers), self.rng.choice(self.partitions)
            try:
                seen = await values(broker.reader, where, bytes_max=self.rng.choice([1, 200, 1 << 20]))
            except (RetryLater, FrazilError) as error:
                assert isinstance(error, RetryLater) or "in use is gone" in str(error), error
                continue
            assert [offset for offset, _ in seen] == list(range(len(seen)))
            await asyncio.sleep(self.rng.uniform(0, 1))


def _killer(point: str) -> Any:
    def hook(reached: str) -> None:
        if reached == point:
            raise Killed(point)

    return hook


class Producer:
    """An idempotent client: in order, at most five in flight, resends until every batch is acknowledged."""

    def __init__(self, cluster: Cluster, pid: int, where: PartitionKey, total: int) -> None:
        self.cluster, self.pid, self.where, self.total = cluster, pid, where, total
        self.acked: dict[str, int | None] = {}
        self.at = 0

    async def run(self) -> None:
        rng = self.cluster.rng
        waiting: deque[tuple[int, asyncio.Task[Any]]] = deque()
        sent = 0
        while sent < self.total or waiting:
            if not waiting:
                self._choose()
            while sent < self.total and len(waiting) < 5 and not (waiting and sent % 40 == 0):
                waiting.append((sent, self._send(sent)))
                sent += 1
                if rng.random() < 0.5:
                    await asyncio.sleep(rng.uniform(0, 0.05))
            first, task = waiting[0]
            outcome = await self._outcome(task)
            if isinstance(outcome, Appended):
                self.acked[f"{self.pid}-{first}"] = outcome.base_offset
                waiting.popleft()
            elif outcome == FaultKind.DUPLICATE_SEQUENCE:
                self.acked[f"{self.pid}-{first}"] = None
                waiting.popleft()
            else:
                assert outcome in (None, FaultKind.RETRY), f"producer {self.pid} batch {first}: {outcome}"
                await asyncio.sleep(rng.uniform(0, 0.1))
                numbers = [number for number, _ in waiting]
                for _, old in waiting:
                    await self._outcome(old)
                self._choose()
                waiting = deque((number, self._send(number)) for number in numbers)

    def _choose(self) -> None:
        """Another broker, as when a leader moves; never with batches in flight, as clients do."""
        self.at = self.cluster.rng.randrange(len(self.cluster.brokers))

    def _send(self, number: int) -> asyncio.Task[Any]:
        data = batch([f"{self.pid}-{number}"], pid=self.pid, epoch=0, sequence=number)
        return asyncio.ensure_future(self.cluster.brokers[self.at].append(self.where, data))

    async def _outcome(self, task: asyncio.Task[Any]) -> Any:
        """Answer, fault kind, or None for no answer in time."""
        try:
            answer = await asyncio.wait_for(asyncio.shield(task), 5)
        except (TimeoutError, RetryLater):
            return None
        return answer if isinstance(answer, Appended) else answer.kind


class Plain:
    """A client without idempotence: one at a time, never resends; what is acknowledged must be there, once, at its offset."""

    def __init__(self, cluster: Cluster, name: str, total: int) -> None:
        self.cluster, self.name, self.total = cluster, name, total
        self.acked: dict[tuple[PartitionKey, str], int] = {}

    async def run(self) -> None:
        rng = self.cluster.rng
        for number in range(self.total):
            where = rng.choice(self.cluster.partitions)
            value = f"{self.name}-{number}"
            try:
                answer = await asyncio.wait_for(rng.choice(self.cluster.brokers).append(where, batch([value])), 5)
            except (TimeoutError, RetryLater):
                continue
            if isinstance(answer, Appended):
                self.acked[where, value] = answer.base_offset


async def chaos(seed: int) -> None:
    cluster = Cluster(seed)
    world, rng = cluster.world, cluster.rng
    setup = world.broker()
    topic = await setup.topic("t", 3)
    cluster.partitions = [key(p, topic.topic_id) for p in range(3)]
    cluster.brokers = [cluster.start() for _ in range(rng.choice([1, 2, 3]))]
    producers = [Producer(cluster, pid, rng.choice(cluster.partitions), 120) for pid in range(1, 5)]
    plain = [Plain(cluster, f"plain{n}", 100) for n in range(3)]
    chores = [cluster.kill_now_and_then(), cluster.keep_house(), cluster.look_for_orphans(), cluster.read_now_and_then()]
    background = [asyncio.ensure_future(chore) for chore in chores]
    clients = [asyncio.ensure_future(client.run()) for client in (*producers, *plain)]
    working = asyncio.gather(*clients)
    await asyncio.wait((working, *background), return_when=asyncio.FIRST_COMPLETED, timeout=100_000)
    cluster.done = True
    for task in background:
        if task.done():
            task.result()
    await working
    await asyncio.gather(*background)
    cluster.calm()
    for broker in cluster.brokers:
        await broker.store.late_commits()
        await broker.objects.late_puts()
        await broker.stop()
    await _judge(world, cluster, producers, plain)
    await _empty(world, setup)


async def _judge(world: World, cluster: Cluster, producers: list[Producer], plain: list[Plain]) -> None:
    fresh = await world.fresh()
    assert not fresh.index.troubles()
    for where in cluster.partitions:
        seen = await values(fresh.reader, where)
        assert [offset for offset, _ in seen] == list(range(fresh.index.end(where)))
        texts = [value for _, value in seen]
        for producer in producers:
            own = [value for value in texts if value.startswith(f"{producer.pid}-")]
            expected = [f"{producer.pid}-{n}" for n in range(producer.total)] if producer.where == where else []
            assert own == expected
            if producer.where == where:
                given = {value: offset for value, offset in producer.acked.items() if offset is not None}
                assert all(texts[offset] == value for value, offset in given.items())
        for client in plain:
            for (there, value), offset in client.acked.items():
                if there == where:
                    assert texts[offset] == value and texts.count(value) == 1


async def _empty(world: World, setup: Broker) -> None:
    """After graces every bundle and commit record is gone, and what is left is exactly the segments."""
    care = setup.caretaker(grace_ms=1000, seal_age_ms=1000)
    for _ in range(4):
        await asyncio.sleep(3)
        await care.collector.pass_once(orphans=True)
        await care.pass_once()
    assert not care.sealer.troubles
    assert world.objects("bundles/") == [] and world.commit_keys() == []
    kept = {segment.object_key for logs in setup.index.state.logs.values() for log in logs.values() for segment in log.segments}
    assert {name for name in world.objects("default/") if name.endswith(".kfs")} == kept


@pytest.mark.parametrize("seed", range(12))
def test_chaos(seed: int) -> None:
    run_virtual(chaos(seed))
