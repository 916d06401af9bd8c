"""The design rules of the log, each as its scenario. Where a test says ``planted`` it shows that the scenario bites without the rule."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest
from tests.unit.log.world import OTHER, SHARDS, Broker, World, batch, in_world, key, run_of, until, values

from frazil.kit.chance import ulid_at
from frazil.kit.delays import Delay
from frazil.kit.errors import Corrupt, Missing, RetryLater
from frazil.kit.names import PartitionKey
from frazil.log.append import Appended, Appender, AppendFault, AppendRun, FaultKind, FlushPolicy
from frazil.log.attempt import BYTES_MAX, OPERATIONS_MAX
from frazil.log.collect import Collector, CollectReport
from frazil.log.commit import Sequencer
from frazil.log.flush import Flush
from frazil.log.refs import OffsetOutOfRange, Ref, Want
from frazil.log.seal import Sealer
from frazil.log.shards import HORIZON
from frazil.log.state import KnownPlan
from frazil.metadata.faulty import CommitFault, FaultyMetadata, MetadataFaults
from frazil.metadata.port import Entry, Revision, Write
from frazil.metadata.stores.memory import MemoryMetadata
from frazil.objects.faulty import FaultyObjects, ObjectFault, ObjectFaults
from frazil.objects.stores.memory import MemoryObjects
from frazil.records import split_batches

HOUR = 3600


class Stall:
    """Stops a broker between the PUT and the transaction, as SIGSTOP would, until ``go``."""

    def __init__(self, broker: Broker) -> None:
        self.reached = asyncio.Event()
        self.go = asyncio.Event()
        self._broker = broker
        self._decide = broker.appender._decide
        broker.appender._decide = self._stalled  # type: ignore[method-assign]

    async def _stalled(self, ready: list[Flush]) -> None:
        self.reached.set()
        await self.go.wait()
        await self._decide(ready)


async def late_commit(world: World, collector: Any) -> tuple[Any, Broker, PartitionKey]:
    """R01's scenario: PUT, a long stop, a collection, then the commit."""
    one, two = world.broker(seed=1).start(), world.broker(seed=2)
    topic = await one.topic("t")
    where = key(0, topic.topic_id)
    await one.append(where, batch(["before"]))
    stall = Stall(one)
    pending = asyncio.ensure_future(one.append(where, batch(["stalled"])))
    await stall.reached.wait()
    await asyncio.sleep(2 * HOUR)
    care = two.caretaker()
    await care.sealer.pass_once()
    await (collector(care.collector) if collector else care.collector).pass_once()
    stall.go.set()
    answer = await pending
    return answer, one, where


def test_r01_a_stopped_broker_commits_a_bundle_that_still_exists() -> None:
    async def body(world: World) -> None:
        answer, one, where = await late_commit(world, None)
        assert answer == Appended(1, 0, -1)
        assert one.appender.counts.replaced == 1
        fresh = await world.fresh()
        assert await values(fresh.reader, where) == [(0, "before"), (1, "stalled")]
        await one.stop()

    in_world(body)


def test_r01_planted_collector_without_horizon_loses_an_acknowledged_record() -> None:
    class Reckless(Collector):
        async def _close(self) -> str:
            return ulid_at(self._deps.clock.now_ms() - self._policy.seal_age_ms)

    async def body(world: World) -> None:
        def reckless(collector: Collector) -> Collector:
            world.metadata._drop(HORIZON)  # as if sealing had not raised it either
            collector._deps.index.state.spent.clear()
            return Reckless(collector._deps, collector._policy)

        answer, one, where = await late_commit(world, reckless)
        assert answer == Appended(1, 0, -1)
        fresh = await world.fresh()
        with pytest.raises((Corrupt, Missing)):
            await values(fresh.reader, where, start=1)
        await one.stop()

    in_world(body)


def test_r01_orphans_go_only_when_closed() -> None:
    async def body(world: World) -> None:
        one = world.broker().start()
        topic = await one.topic("t")
        stall = Stall(one)
        pending = asyncio.ensure_future(one.append(key(0, topic.topic_id), batch(["a"])))
        await stall.reached.wait()
        assert one.task is not None
        one.task.cancel()
        with pytest.raises(RetryLater):
            await pending
        two = world.broker()
        care = two.caretaker()
        await care.collector.pass_once(orphans=True)
        assert len(world.objects("bundles/")) == 1, "too young"
        await asyncio.sleep(HOUR)
        report = await care.collector.pass_once(orphans=True)
        assert report.orphans == 1 and world.objects("bundles/") == []

    in_world(body)


def test_r01_slow_clock_gets_past_the_horizon() -> None:
    async def body(world: World) -> None:
        one = world.broker().start()
        await one.append(key(), batch(["a"]))
        future = world.clock.now_ms() + 5_000_000
        world.metadata.apply([Write(key=HORIZON, value=ulid_at(future).encode())], ())
        assert await one.append(key(), batch(["b"])) == Appended(1, 0, -1)
        assert await values(one.reader, key()) == [(0, "a"), (1, "b")]
        await one.stop()

    in_world(body)


class Forgetful(Sequencer):
    """Without R02: a lost or conflicting answer is taken for a loss."""

    async def _look(self, own: str) -> Any:
        return Entry(key=own, value=b"", version=Revision(0))

    def _find_own(self, moved: Any, own: str) -> Any:
        return None

    async def _lose(self, moved: Any, attempt: Any) -> None:
        for flush in attempt.undecided():
            flush.chunk += 1
        await super()._lose(moved, attempt)


async def lost_answer(world: World, fault: CommitFault, sequencer: type[Sequencer] | None) -> list[tuple[int, str]]:
    store = FaultyMetadata(MemoryMetadata(world.metadata, world.clock), random.Random(1))
    one = world.broker(store=store)
    if sequencer is not None:
        one.appender._sequencer.__class__ = sequencer
    one.start()
    assert await one.append(key(), batch(["a"])) == Appended(0, 0, -1)
    store.force(fault)
    answer = await one.append(key(), batch(["b"]))
    assert isinstance(answer, Appended)
    await store.late_commits()
    await one.append(key(), batch(["c"]))
    await one.stop()
    fresh = await world.fresh()
    seen = await values(fresh.reader, key())
    assert (answer.base_offset, "b") in seen
    return seen


@pytest.mark.parametrize("fault", list(CommitFault))
def test_r02_a_lost_answer_gives_one_offset(fault: CommitFault) -> None:
    assert in_world(lambda world: lost_answer(world, fault, None)) == [(0, "a"), (1, "b"), (2, "c")]


def test_r02_planted_without_commit_key_doubles() -> None:
    seen = in_world(lambda world: lost_answer(world, CommitFault.LOST_APPLIED, Forgetful))
    assert [v for _, v in seen].count("b") == 2


async def slow_first_put(world: World, take_ready: Any) -> list[str]:
    """Flush 0 is stored last; the others overtake it in the object store."""

    class Slow(MemoryObjects):
        puts = 0

        async def put_if_absent(self, name: str, data: Any) -> None:
            Slow.puts += 1
            await asyncio.sleep(10 if Slow.puts == 1 else 0.01)
            await super().put_if_absent(name, data)

    one = world.broker(objects=Slow(world.bucket, world.clock), policy=FlushPolicy(inflight=4))
    if take_ready is not None:
        one.appender._take_ready = lambda: take_ready(one.appender)  # type: ignore[method-assign]
    one.start()
    tasks = []
    for n in range(4):
        tasks.append(asyncio.ensure_future(one.append(key(), batch([str(n)]))))
        await asyncio.sleep(0.001)
    await asyncio.gather(*tasks)
    seen = [v for _, v in await values(one.reader, key())]
    await one.stop()
    return seen


def test_r03_flushes_are_sequenced_in_cut_order() -> None:
    assert in_world(lambda world: slow_first_put(world, None)) == ["0", "1", "2", "3"]


def test_r03_planted_sequencing_as_they_finish_reorders() -> None:
    def as_they_finish(appender: Appender) -> list[Flush]:
        done = [flush for flush in appender._queue if flush.stored is not None and flush.stored.done()]
        for flush in done:
            appender._queue.remove(flush)
        return done

    assert in_world(lambda world: slow_first_put(world, as_they_finish)) != ["0", "1", "2", "3"]


def test_r03_a_failed_flush_fails_later_runs_of_its_producers_only() -> None:
    async def body(world: World) -> None:
        objects = FaultyObjects(
            MemoryObjects(world.bucket, world.clock), random.Random(1), ObjectFaults(put_delay=Delay(p50_ms=50, p99_ms=50))
        )
        one = world.broker(objects=objects, policy=FlushPolicy(inflight=4, put_tries=1)).start()
        objects.force("put", ObjectFault.S_503)
        first = asyncio.ensure_future(one.append(key(), batch(["0"], pid=7, epoch=0, sequence=0)))
        await asyncio.sleep(0.01)
        same = asyncio.ensure_future(one.append(key(), batch(["1"], pid=7, epoch=0, sequence=1)))
        other = asyncio.ensure_future(one.append(key(), batch(["x"], pid=8, epoch=0, sequence=0)))
        elsewhere = asyncio.ensure_future(one.append(key(1), batch(["y"], pid=7, epoch=0, sequence=0)))
        assert (await first).kind is FaultKind.RETRY
        assert (await same).kind is FaultKind.RETRY
        assert await other == Appended(0, 0, -1)
        assert await elsewhere == Appended(0, 0, -1)
        # the client sends both again, the later one first: it must not get in, though the producer has no state here yet
        late = await one.append(key(), batch(["1"], pid=7, epoch=0, sequence=1))
        assert isinstance(late, AppendFault) and late.kind is FaultKind.OUT_OF_ORDER_SEQUENCE
        assert await one.append(key(), batch(["0"], pid=7, epoch=0, sequence=0)) == Appended(1, 0, -1)
        assert await one.append(key(), batch(["1"], pid=7, epoch=0, sequence=1)) == Appended(2, 0, -1)
        await one.stop()

    in_world(body)


def test_r03_nothing_overtakes_an_undecided_flush() -> None:
    """While the outcome of a transaction is unknown and metadata is away, nothing is answered; then everything, in order."""

    async def body(world: World) -> None:
        store = FaultyMetadata(MemoryMetadata(world.metadata, world.clock), random.Random(1))
        one = world.broker(store=store, policy=FlushPolicy(commit_deadline_ms=1000)).start()
        await one.append(key(), batch(["a"]))
        store.force(CommitFault.LOST_APPLIED)

        first = asyncio.ensure_future(one.append(key(), batch(["b"])))
        await asyncio.sleep(0)
        store.plan = MetadataFaults(unavailable=1.0)
        second = asyncio.ensure_future(one.append(key(), batch(["c"])))
        await asyncio.sleep(60)
        assert not first.done() and not second.done()
        store.plan = MetadataFaults()
        assert await first == Appended(1, 0, -1)
        assert await second == Appended(2, 0, -1)
        await one.stop()

    in_world(body)


def test_r03_surely_unapplied_commits_are_given_up_at_the_deadline() -> None:
    async def body(world: World) -> None:

        store = FaultyMetadata(MemoryMetadata(world.metadata, world.clock), random.Random(1), MetadataFaults(unavailable=1.0))
        one = world.broker(store=store, policy=FlushPolicy(commit_deadline_ms=1000)).start()
        answer = await one.append(key(), batch(["a"]))
        assert isinstance(answer, AppendFault) and answer.kind is FaultKind.RETRY
        store.plan = MetadataFaults()
        assert await one.append(key(), batch(["a"])) == Appended(0, 0, -1)
        await one.stop()

    in_world(body)


def test_r04_metadata_grows_with_flushes_not_with_partitions() -> None:
    async def body(world: World) -> None:
        one = world.broker().start()
        for _ in range(3):
            await one.appender.append([run_of(key(p), batch(["x"])) for p in range(1000)])
        rows = world.metadata.read("", "\U0010ffff", 0).entries
        assert len(rows) == 3 + SHARDS
        commits = [len(entry.value) for entry in rows if entry.key.startswith("log/commit/")]
        assert max(commits) <= 24 * 1000, "about 24 bytes a run"
        assert one.appender.counts.commits == 3
        await one.stop()

    in_world(body)


async def killed_sealer(world: World, sealer: type[Sealer] | None) -> list[tuple[int, str]]:
    """A sealer dies after its PUT; more is appended; another one seals."""
    one = world.broker().start()
    topic = await one.topic("t")
    where = key(0, topic.topic_id)
    await one.append(where, batch(["a", "b"]))
    await asyncio.sleep(HOUR)
    care = one.caretaker()
    first = (sealer or Sealer)(care.sealer._deps, care.sealer._policy)

    async def dies(*_: Any) -> bool:
        raise RetryLater("killed")

    first._finish = dies  # type: ignore[method-assign]
    with pytest.raises(RetryLater):
        await first.pass_once()
    await one.append(where, batch(["c", "d"]))
    await asyncio.sleep(HOUR)
    second = (sealer or Sealer)(care.sealer._deps, care.sealer._policy)
    for _ in range(2):
        await second.pass_once()
    assert not second.troubles, second.troubles
    assert one.index.state.find(where).sealed_to == 4  # type: ignore[union-attr]
    seen = await values((await world.fresh()).reader, where)
    await one.stop()
    return seen


def test_r05_retry_of_a_seal_writes_the_same_bytes() -> None:
    assert in_world(lambda world: killed_sealer(world, None)) == list(enumerate("abcd"))


def test_r05_planted_seal_without_plan_is_stuck() -> None:
    class Planless(Sealer):
        async def _write_plans(self, wanted: Sequence[Any]) -> int:
            for log, plan in wanted:
                self._deps.index.state.plans[log.key] = KnownPlan(plan, 0)  # type: ignore[arg-type]
            return len(wanted)

        async def pass_once(self, **options: Any) -> Any:
            self._deps.index.state.plans.clear()
            return await super().pass_once(**options)

    with pytest.raises(AssertionError, match="bytes are there"):
        in_world(lambda world: killed_sealer(world, Planless))


def test_r05_two_sealers_at_once() -> None:
    async def body(world: World) -> None:
        one, two = world.broker(seed=1).start(), world.broker(seed=2)
        topic = await one.topic("t", 5)
        for n in range(3):
            await one.appender.append([run_of(key(p, topic.topic_id), batch([str(n)])) for p in range(5)])
        await asyncio.sleep(HOUR)
        cares = [one.caretaker(), two.caretaker()]
        for _ in range(2):
            await asyncio.gather(*(care.pass_once() for care in cares))
        assert not cares[0].sealer.troubles and not cares[1].sealer.troubles
        for p in range(5):
            assert one.index.state.find(key(p, topic.topic_id)).sealed_to == 3  # type: ignore[union-attr]
            assert [v for _, v in await values(two.reader, key(p, topic.topic_id))] == ["0", "1", "2"]
        await one.stop()

    in_world(body)


def test_r08_an_old_view_is_no_answer() -> None:
    async def body(world: World) -> None:
        one, two = world.broker(seed=1).start(), world.broker(seed=2)
        await one.append(key(), batch(["a"]))
        await two.index.refresh()
        await one.append(key(), batch(["b", "c"]))
        assert two.index.end(key()) == 1, "lags"
        assert (await two.reader.fetch(key(), 3, bytes_max=100)).data == b""
        assert two.index.end(key()) == 3
        await one.append(key(), batch(["d"]))
        assert (await two.reader.bounds(key())).end == 4
        await one.stop()

    in_world(body)


def test_r08_planted_stale_view_answers_out_of_range() -> None:
    async def body(world: World) -> None:
        one, two = world.broker(seed=1).start(), world.broker(seed=2)
        await one.append(key(), batch(["a", "b", "c"]))

        async def believe(want: Want) -> tuple[Ref, ...]:
            refs = two.reader._resolve(want)
            if refs is None:
                raise OffsetOutOfRange(want.key, want.offset, two.index.bounds(want.key))
            return refs

        two.reader._locate = believe  # type: ignore[method-assign]
        with pytest.raises(OffsetOutOfRange):
            await two.reader.fetch(key(), 2, bytes_max=100)
        await one.stop()

    in_world(body)


def test_r08_a_hole_is_loud_and_never_skipped() -> None:
    async def body(world: World) -> None:
        one = world.broker().start()
        for n in range(3):
            await one.append(key(), batch([str(n)]))
        await one.append(key(1), batch(["other"]))
        world.metadata._drop(world.commit_keys()[1])  # damage
        fresh = world.broker()
        with pytest.raises(Corrupt, match="missing"):
            await fresh.index.refresh()
        await one.stop()

    in_world(body)


def test_r08_a_hole_under_a_checkpoint_closes_one_partition_only() -> None:
    async def body(world: World) -> None:
        one = world.broker().start()
        topic = await one.topic("t", 2)
        here, other = key(0, topic.topic_id), key(1, topic.topic_id)
        for n in range(3):
            await one.append(here, batch([str(n)]))
        await one.append(other, batch(["other"]))
        care = one.caretaker()
        await care.collector._checkpoint_all(CollectReport())
        world.metadata._drop(world.commit_keys()[1])
        fresh = await world.fresh()
        assert len(fresh.index.troubles()) == 1
        assert await values(fresh.reader, other) == [(0, "other")]
        assert (await fresh.reader.fetch(here, 0, bytes_max=1000)).end == 1
        with pytest.raises(Corrupt):
            await fresh.reader.fetch(here, 1, bytes_max=1000)
        await one.stop()

    in_world(body)


def test_r08_sequence_faults_are_checked_against_a_fresh_view() -> None:
    async def body(world: World) -> None:
        one, two = world.broker(seed=1).start(), world.broker(seed=2).start()
        await two.append(key(), batch(["0"], pid=5, epoch=0, sequence=0))
        await one.append(key(), batch(["1"], pid=5, epoch=0, sequence=1))
        assert await two.append(key(), batch(["2"], pid=5, epoch=0, sequence=2)) == Appended(2, 0, -1)
        await one.stop()
        await two.stop()

    in_world(body)


def test_r10_transactions_are_cut_by_operations_and_bytes() -> None:
    async def body(world: World) -> None:
        largest = [0, 0]
        one = world.broker()
        commit = one.store.commit

        async def watching(checks: Any, writes: Any, range_deletes: Any = ()) -> Any:
            largest[0] = max(largest[0], len(checks), len(writes))
            largest[1] = max(largest[1], sum(len(w.value or b"") for w in writes))
            return await commit(checks, writes, range_deletes)

        one.store.commit = watching
        one.start()
        rng = random.Random(1)
        topics = [rng.randbytes(16) for _ in range(3000)]
        runs = [
            run_of(key(rng.randrange(1 << 20), t), batch(["x"], pid=rng.getrandbits(40), epoch=0, sequence=0, at_ms=rng.getrandbits(40)))
            for t in topics
        ]  # type: ignore[arg-type]
        answers = await one.appender.append(runs)
        assert answers == tuple(Appended(0, 0, -1) for _ in runs)
        assert largest[0] <= OPERATIONS_MAX and largest[1] <= BYTES_MAX
        fresh = await world.fresh()
        assert all(fresh.index.end(run.key) == 1 for run in runs)
        await one.stop()

    in_world(body)


def test_r10_a_duplicate_inside_a_run_splits_it() -> None:
    async def body(world: World) -> None:
        one = world.broker().start()
        await one.append(key(), batch(["0"], pid=5, epoch=0, sequence=0))
        three = [
            one.appender.append([run_of(key(), batch(["x"]))]),
            one.appender.append([run_of(key(), batch(["0"], pid=5, epoch=0, sequence=0))]),
            one.appender.append([run_of(key(), batch(["1"], pid=5, epoch=0, sequence=1))]),
        ]
        answers = await asyncio.gather(*three)
        assert [a[0].base_offset for a in answers] == [1, 0, 2]  # type: ignore[union-attr]
        assert await values(one.reader, key()) == [(0, "0"), (1, "x"), (2, "1")]
        assert await values((await world.fresh()).reader, key()) == [(0, "0"), (1, "x"), (2, "1")]
        await one.stop()

    in_world(body)


def test_r10_f85_producer_state_survives_broker_and_checkpoint() -> None:
    async def body(world: World) -> None:
        one = world.broker(seed=1).start()
        topic = await one.topic("t")
        where = key(0, topic.topic_id)
        last = 2**31 - 1
        for n, first in enumerate((last - 1, 0, 1)):
            count = ["a", "b"] if n == 0 else ["c"]
            await one.append(where, batch(count, pid=9, epoch=3, sequence=first))
        await asyncio.sleep(HOUR)
        care = one.caretaker(grace_ms=1000)
        await care.pass_once()
        await asyncio.sleep(2)
        await care.pass_once()
        assert world.commit_keys() == []
        await asyncio.sleep(HOUR)  # idle
        two = world.broker(seed=2).start()
        retry = await two.append(where, batch(["c"], pid=9, epoch=3, sequence=0))
        assert retry == Appended(2, 0, -1), "answered with the offset it has"
        assert await two.append(where, batch(["d"], pid=9, epoch=3, sequence=2)) == Appended(4, 0, -1)
        gap = await two.append(where, batch(["z"], pid=9, epoch=3, sequence=9))
        assert isinstance(gap, AppendFault) and gap.kind is FaultKind.OUT_OF_ORDER_SEQUENCE
        old = await two.append(where, batch(["z"], pid=9, epoch=2, sequence=3))
        assert isinstance(old, AppendFault) and old.kind is FaultKind.INVALID_PRODUCER_EPOCH
        assert isinstance(await two.append(where, batch(["z"], pid=9, epoch=4, sequence=3)), AppendFault)
        assert await two.append(where, batch(["e"], pid=9, epoch=4, sequence=0)) == Appended(5, 0, -1)
        for n in range(1, 7):
            await two.append(where, batch(["f"], pid=9, epoch=4, sequence=n))
        forgotten = await two.append(where, batch(["e"], pid=9, epoch=4, sequence=0))
        assert isinstance(forgotten, AppendFault) and forgotten.kind is FaultKind.DUPLICATE_SEQUENCE
        await one.stop()
        await two.stop()

    in_world(body)


def test_r11_two_brokers_on_one_partition_stay_fast() -> None:
    async def once(world: World, brokers: int) -> float:
        started = [
            world.broker(
                seed=n,
                store=FaultyMetadata(MemoryMetadata(world.metadata, world.clock), random.Random(n), _slow_metadata()),
                objects=FaultyObjects(
                    MemoryObjects(world.bucket, world.clock), random.Random(n), ObjectFaults(put_delay=Delay(p50_ms=40, p99_ms=120))
                ),
                policy=FlushPolicy(interval_ms=40, inflight=4),
            ).start()
            for n in range(brokers)
        ]
        times: list[float] = []

        async def produce(broker: Broker, client: int) -> None:
            loop = asyncio.get_running_loop()
            for _ in range(500):
                began = loop.time()
                await broker.append(key(), batch(["x"]))
                times.append(loop.time() - began)

        await asyncio.gather(*(produce(broker, c) for broker in started for c in range(2)))
        for broker in started:
            await broker.stop()
        return sorted(times)[int(len(times) * 0.99)]

    alone = in_world(lambda world: once(world, 1))
    contended = in_world(lambda world: once(world, 2))
    assert contended <= 2 * alone, (alone, contended)


def _slow_metadata() -> Any:

    return MetadataFaults(commit_delay=Delay(p50_ms=2, p99_ms=8), range_delay=Delay(p50_ms=2, p99_ms=8))


def test_r11_contended_shards_go_alone_after_two_losses() -> None:
    async def body(world: World) -> None:
        one, two = world.broker(seed=1), world.broker(seed=2).start()
        for p in range(4):
            await two.append(key(p), batch(["seed"]))
        commit = one.store.commit
        touched: list[set[str]] = []

        async def losing(checks: Any, writes: Any, range_deletes: Any = ()) -> Any:
            heads = {w.key for w in writes if w.key.startswith("log/head/")}
            touched.append(heads)
            if len(touched) <= 3:
                await two.append(key(0), batch(["first"]))
            return await commit(checks, writes, range_deletes)

        one.store.commit = losing
        one.start()
        await one.appender.append([run_of(key(p), batch([str(p)])) for p in range(4)])
        assert len(touched[0]) == 4 and {1, 3} <= {len(heads) for heads in touched[2:]}
        assert one.appender.counts.conflicts >= 2
        await one.stop()
        await two.stop()

    in_world(body)


def test_r12_one_sealing_pass_reads_each_bundle_once() -> None:
    async def body(world: World) -> None:
        one = world.broker().start()
        topics = [await one.topic(f"t{n}", 5) for n in range(4)]
        for _ in range(6):
            await one.appender.append([run_of(key(p, t.topic_id), batch(["x" * 50])) for t in topics for p in range(5)])
        await asyncio.sleep(HOUR)
        two = world.broker(seed=2)
        gets: list[str] = []
        get = two.objects.get

        async def counting(name: str, *, start: int = 0, end: int | None = None) -> bytes:
            gets.append(name)
            return await get(name, start=start, end=end)

        two.objects.get = counting
        report = await two.caretaker().sealer.pass_once()
        assert report.segments == 20
        assert sorted(gets) == world.objects("bundles/")
        await one.stop()

    in_world(body)


def test_r13_slow_storage_makes_larger_flushes_not_more() -> None:
    async def body(world: World) -> None:
        objects = FaultyObjects(
            MemoryObjects(world.bucket, world.clock), random.Random(1), ObjectFaults(put_delay=Delay(p50_ms=60, p99_ms=60))
        )
        one = world.broker(objects=objects, policy=FlushPolicy(interval_ms=40, inflight=4)).start()

        async def produce(client: int) -> None:
            for _ in range(10):
                await one.append(key(client), batch(["x"]))

        began = asyncio.get_running_loop().time()
        await asyncio.gather(*(produce(c) for c in range(50)))
        took = asyncio.get_running_loop().time() - began
        puts = len(world.objects("bundles/"))
        assert puts <= took / 0.04 + 2, (puts, took)
        await one.stop()

    in_world(body)


def test_r13_a_full_flush_is_cut_before_its_interval() -> None:
    async def body(world: World) -> None:
        one = world.broker(policy=FlushPolicy(interval_ms=60_000, bytes_max=500)).start()
        await one.append(key(), batch(["first"]))
        loop = asyncio.get_running_loop()
        began = loop.time()
        await one.append(key(), batch(["x" * 600]))
        assert loop.time() - began < 1
        waiting = asyncio.ensure_future(one.append(key(), batch(["small"])))
        await asyncio.sleep(30)
        assert not waiting.done()
        assert await waiting == Appended(2, 0, -1)
        await one.stop()

    in_world(body)


def test_r13_slots_are_held_until_sequenced() -> None:
    async def body(world: World) -> None:
        one = world.broker(policy=FlushPolicy(inflight=2)).start()
        stall = Stall(one)
        tasks = []
        for n in range(10):
            tasks.append(asyncio.ensure_future(one.append(key(), batch([str(n)]))))
            await asyncio.sleep(0.01)
        assert len(world.objects("bundles/")) == 2
        stall.go.set()
        await asyncio.gather(*tasks)
        assert len(world.objects("bundles/")) == 3
        await one.stop()

    in_world(body)


def test_buffer_bound_holds_back() -> None:
    async def body(world: World) -> None:
        one = world.broker(policy=FlushPolicy(buffer_bytes_max=1000)).start()
        stall = Stall(one)
        tasks = [asyncio.ensure_future(one.append(key(), batch(["x" * 300]))) for _ in range(10)]
        await asyncio.sleep(1)
        assert one.appender._gate.held_bytes <= 1000
        stall.go.set()
        assert [a.base_offset for a in await asyncio.gather(*tasks)] == list(range(10))
        assert one.appender._gate.held_bytes == 0
        await one.stop()

    in_world(body)


def test_r20_lost_hints_cost_a_second_and_nothing_else() -> None:
    async def body(world: World) -> None:

        one = world.broker().start()
        deaf = FaultyMetadata(
            MemoryMetadata(world.metadata, world.clock), random.Random(1), MetadataFaults(hint_dropped=0.5, hint_doubled=0.3)
        )
        two = world.broker(store=deaf)
        follower = asyncio.ensure_future(two.index.follow())
        for n in range(20):
            await one.append(key(), batch([str(n)]))
            assert await two.index.wait_change({key(): n}, timeout_ms=60_000)
        assert await values(two.reader, key()) == [(n, str(n)) for n in range(20)]
        follower.cancel()
        await one.stop()

    in_world(body)


def test_r20_refresh_is_not_shared_with_a_read_already_under_way() -> None:
    async def body(world: World) -> None:

        one = world.broker().start()
        slow = FaultyMetadata(
            MemoryMetadata(world.metadata, world.clock), random.Random(1), MetadataFaults(range_delay=Delay(p50_ms=100, p99_ms=100))
        )
        two = world.broker(store=slow)
        early = asyncio.ensure_future(two.index.refresh())
        await asyncio.sleep(0.08)  # the read has been answered and is on its way back
        await one.append(key(), batch(["a"]))
        await two.index.refresh()
        assert early.done() and two.index.end(key()) == 1
        await one.stop()

    in_world(body)


def test_r31_bundle_bytes_are_patched_batch_by_batch() -> None:
    async def body(world: World) -> None:
        one = world.broker().start()
        await one.append(key(), batch(["a"]), batch(["b", "c"]))
        await one.append(key(), batch(["d"]), batch(["e", "f"]), batch(["g"]))
        piece = await one.reader.fetch(key(), 0, bytes_max=1 << 20)
        batches = split_batches(piece.data, batch_bytes_max=1 << 20)
        assert [b.base_offset for b in batches] == [0, 1, 3, 4, 6]
        for offset in range(7):
            inner = await one.reader.fetch(key(), offset, bytes_max=1)
            (found,) = split_batches(inner.data, batch_bytes_max=1 << 20)
            assert found.base_offset <= offset <= found.last_offset, "F84"
        await one.stop()

    in_world(body)


def test_r31_damaged_bundle_names_the_object() -> None:
    async def body(world: World) -> None:
        one = world.broker().start()
        await one.append(key(), batch(["a" * 50]))
        (name,) = world.objects("bundles/")
        data, at = world.bucket.objects[name]
        world.bucket.objects[name] = (data[:80] + bytes([data[80] ^ 1]) + data[81:], at)
        with pytest.raises(Corrupt, match="bundles/"):
            await (await world.fresh()).reader.fetch(key(), 0, bytes_max=100)
        await one.stop()

    in_world(body)


def test_r32_one_future_per_request() -> None:
    async def body(world: World) -> None:
        one = world.broker().start()
        loop = asyncio.get_running_loop()
        before = getattr(loop, "steps", 0)
        await one.appender.append([run_of(key(p), batch(["x"])) for p in range(1000)])
        assert loop.steps - before < 100, "no task, future or callback per run"  # type: ignore[attr-defined]
        await one.stop()

    in_world(body)


@pytest.mark.parametrize("fault", [ObjectFault.S_503, ObjectFault.S_CUT_N, ObjectFault.S_CUT_A, ObjectFault.S_LATE, ObjectFault.S_412])
def test_r25_put_trouble_is_retried_by_us(fault: ObjectFault) -> None:
    async def body(world: World) -> None:
        objects = FaultyObjects(MemoryObjects(world.bucket, world.clock), random.Random(1))
        one = world.broker(objects=objects).start()
        objects.force("put", fault)
        assert await one.append(key(), batch(["a"])) == Appended(0, 0, -1)
        await objects.late_puts()
        assert await values((await world.fresh()).reader, key()) == [(0, "a")]
        await one.stop()

    in_world(body)


def test_r25_a_hung_put_is_cut_off() -> None:
    async def body(world: World) -> None:
        class Hangs(MemoryObjects):
            hang = True

            async def put_if_absent(self, name: str, data: Any) -> None:
                if Hangs.hang:
                    Hangs.hang = False
                    await asyncio.sleep(1e6)
                await super().put_if_absent(name, data)

        one = world.broker(objects=Hangs(world.bucket, world.clock), policy=FlushPolicy(put_deadline_ms=500)).start()
        loop = asyncio.get_running_loop()
        assert await one.append(key(), batch(["a"])) == Appended(0, 0, -1)
        assert loop.time() < 2
        await one.stop()

    in_world(body)


def test_an_armed_fault_ends_run_and_tells_callers() -> None:
    async def body(world: World) -> None:
        class Killed(Exception):
            pass

        def hook(point: str) -> None:
            if point == "B3":
                raise Killed

        one = world.broker().start()
        one.faults.arm(hook)
        with pytest.raises(RetryLater):
            await one.append(key(), batch(["a"]))
        assert one.task is not None
        with pytest.raises(ExceptionGroup):
            await one.task
        again = world.broker().start()
        assert await again.append(key(0, OTHER), batch(["b"])) == Appended(0, 0, -1)
        await again.stop()

    in_world(body)


def test_close_answers_what_was_taken() -> None:
    async def body(world: World) -> None:
        one = world.broker(policy=FlushPolicy(interval_ms=60_000)).start()
        await one.append(key(), batch(["a"]))
        waiting = asyncio.ensure_future(one.append(key(), batch(["b"])))
        await until(lambda: bool(one.appender._buffer))
        await one.stop()
        assert await waiting == Appended(1, 0, -1)
        late = (await one.appender.append([AppendRun(key(), batch(["c"]), split_batches(batch(["c"]), batch_bytes_max=1 << 20))]))[0]
        assert isinstance(late, AppendFault) and late.kind is FaultKind.RETRY

    in_world(body)
