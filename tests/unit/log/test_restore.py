"""R22: an older copy of metadata is made to fit its bucket; no offset is given out twice, what is lost is a named range."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Mapping

from tests.unit.log.world import Broker, World, batch, in_world, key

from frazil.kit.names import PartitionKey
from frazil.kit.tasks import InlineOffload
from frazil.log.coverage import cover
from frazil.log.partitions import Segment
from frazil.log.pins import set_pin
from frazil.log.read import LogReader
from frazil.log.refs import OffsetAt
from frazil.log.restore import BLIND_STEP, RestorePlan, Restorer
from frazil.log.upkeep import UpkeepDeps
from frazil.records import scan, split_batches
from frazil.segments import build_bundle


def restorer(world: World, broker: Broker) -> Restorer:
    deps = UpkeepDeps(
        store=broker.store,
        objects=broker.objects,
        index=broker.index,
        topics=broker.topics,
        clock=world.clock,
        chance=broker.chance,
        offload=InlineOffload(),
        cache=broker.cache,
    )
    return Restorer(deps)


async def values(reader: LogReader, where: PartitionKey, *, start: int = 0) -> list[tuple[int, str]]:
    """Everything from ``start`` on; a consumer goes on at the next offset that exists, which may be above the one it asked for."""
    found: list[tuple[int, str]] = []
    offset = start
    while (piece := await reader.fetch(where, offset, bytes_max=1 << 20)).data:
        assert piece.end > offset
        columns, faults = scan(piece.data, uncompressed_bytes_max=1 << 20)
        assert not faults
        found += [(at, (value or b"").decode()) for at, value in zip(columns.offsets, columns.values, strict=True) if at >= offset]
        offset = piece.end
    return found


async def restore(world: World, *shown: Mapping[PartitionKey, int]) -> RestorePlan:
    broker = world.broker()
    plan = await restorer(world, broker).plan(shown)
    await restorer(world, broker).apply(plan)
    return plan


async def appended(broker: Broker, where: PartitionKey, *texts: str) -> list[int]:
    return [(await broker.append(where, batch([text]))).base_offset for text in texts]


def test_r22_sealed_after_the_copy_is_adopted_and_offsets_go_on_above() -> None:
    async def body(world: World) -> None:
        one = world.broker().start()
        where = key(0, (await one.topic("orders")).topic_id)
        await appended(one, where, "a", "b")
        old = copy.deepcopy(world.metadata)
        await appended(one, where, "c", "d", "e")
        await asyncio.sleep(700)
        care = one.caretaker(grace_ms=0)
        await care.pass_once()
        await asyncio.sleep(1)
        await care.pass_once()
        assert world.objects("bundles/") == []
        await one.stop()

        world.metadata = old
        plan = await restore(world)
        (done,) = plan.partitions
        assert (done.head, done.new_head, done.adopted, done.lost) == (2, 5, 1, ())
        two = (await world.fresh(seed=2)).start()
        assert not two.index.troubles()
        assert await appended(two, where, "f") == [5]
        expected = [(n, text) for n, text in enumerate("abcdef")]
        assert await values(two.reader, where) == expected
        fresh = await world.fresh(seed=3)
        assert not fresh.index.troubles()
        assert await values(fresh.reader, where) == expected
        await asyncio.sleep(700)
        await two.caretaker().pass_once()
        assert await values((await world.fresh(seed=4)).reader, where) == expected, "the new tail is sealed behind the adopted segment"
        await two.stop()

    in_world(body)


def test_r22_bundles_without_a_commit_raise_the_head_and_leave_a_lost_range_that_readers_pass() -> None:
    async def body(world: World) -> None:
        one = world.broker().start()
        where = key(0, (await one.topic("orders")).topic_id)
        await appended(one, where, "a", "b")
        old = copy.deepcopy(world.metadata)
        acknowledged = await appended(one, where, "c", "d", "e")
        await one.stop()

        world.metadata = old
        plan = await restore(world)
        (done,) = plan.partitions
        assert (done.head, done.new_head, done.sealed, done.lost) == (2, 5, 1, ((2, 5),))
        assert plan.found.open_bundles == 3
        two = (await world.fresh(seed=2)).start()
        assert await values(two.reader, where) == [(0, "a"), (1, "b")]
        tail = await two.reader.fetch(where, 3, bytes_max=100)
        assert (tail.data, tail.end) == (b"", 3), "lost up to the end: nothing yet, and no error"
        (base,) = await appended(two, where, "f")
        assert base == 5
        assert base not in acknowledged
        for broker in (two, await world.fresh(seed=3)):
            assert not broker.index.troubles()
            assert await values(broker.reader, where) == [(0, "a"), (1, "b"), (5, "f")]
            assert (await broker.reader.fetch(where, 3, bytes_max=100)).base == 5, "as after compaction: the next that exists"
            assert await broker.reader.find_time(where, 0) == OffsetAt(offset=0, timestamp_ms=1000)
            assert await broker.reader.max_time(where) == OffsetAt(offset=0, timestamp_ms=1000)
            assert broker.index.past_lost(where, 3) == 5
        care = two.caretaker()
        await asyncio.sleep(700)
        await care.pass_once()
        await care.retainer.delete_records(where, -1)
        await care.pass_once()
        assert (await world.fresh(seed=4)).index.bounds(where).start == 6, "a lost range is retained and removed like a segment"
        await two.stop()

    in_world(body)


def test_r22_a_table_a_pin_or_a_mark_above_the_head_raises_it() -> None:
    async def body(world: World) -> None:
        one = world.broker().start()
        topic = await one.topic("orders", 3)
        places = [key(p, topic.topic_id) for p in range(3)]
        for where in places:
            await appended(one, where, "a")
        await set_pin(one.store, "lake.orders", {places[1]: 40}, now_ms=1)
        await one.stop()
        plan = await restore(world, {places[0]: 30}, {places[0]: 20, places[2]: 1})
        assert [(done.key, done.new_head) for done in plan.partitions] == [(places[0], 30), (places[1], 40)]
        two = (await world.fresh(seed=2)).start()
        assert [(await appended(two, where, "x"))[0] for where in places] == [30, 40, 1]
        await two.stop()

    in_world(body)


def test_r22_part_of_a_bundle_committed_before_the_copy_still_counts_the_rest() -> None:
    async def body(world: World) -> None:
        one = world.broker().start()
        topic = await one.topic("orders", 2)
        left, right = key(0, topic.topic_id), key(1, topic.topic_id)
        await appended(one, left, "a")
        await one.stop()
        # The copy has the bundle's run of partition 0 only; partition 1 is committed after it, by another transaction.
        found = (await restorer(world, world.broker()).plan([])).found
        assert found.open_bundles == 0
        (bundle,) = world.objects("bundles/")
        frame = batch(["b"])
        built = build_bundle([(where, [frame], split_batches(frame, batch_bytes_max=1 << 20)) for where in (left, right)])
        world.bucket.objects[bundle] = (b"".join(bytes(chunk) for chunk in built.chunks), world.bucket.objects[bundle][1])
        plan = await restorer(world, world.broker()).plan([])
        assert [(done.key, done.new_head) for done in plan.partitions] == [(right, 1)]

    in_world(body)


def test_r22_an_unreadable_bundle_raises_every_head_beyond_doubt() -> None:
    async def body(world: World) -> None:
        one = world.broker().start()
        where = key(0, (await one.topic("orders")).topic_id)
        await appended(one, where, "a")
        old = copy.deepcopy(world.metadata)
        await appended(one, where, "b")
        await one.stop()
        world.metadata = old
        name = world.objects("bundles/")[-1]
        world.bucket.objects[name] = (b"rubbish", world.bucket.objects[name][1])
        plan = await restore(world)
        assert plan.partitions[0].new_head == 1 + BLIND_STEP
        assert plan.found.damaged
        two = (await world.fresh(seed=2)).start()
        assert await appended(two, where, "x") == [1 + BLIND_STEP]
        assert await values((await world.fresh(seed=3)).reader, where) == [(0, "a"), (1 + BLIND_STEP, "x")]
        await two.stop()

    in_world(body)


def test_r22_restore_may_die_at_any_write_and_be_run_again() -> None:
    async def body(world: World) -> None:
        one = world.broker().start()
        topic = await one.topic("orders", 3)
        places = [key(p, topic.topic_id) for p in range(3)]
        for where in places:
            await appended(one, where, "a", "b")
        old = copy.deepcopy(world.metadata)
        last = [(await appended(one, where, "c", "d"))[-1] for where in places]
        await one.stop()
        bucket = world.bucket
        for survived in range(40):
            world.metadata, world.bucket = copy.deepcopy(old), copy.deepcopy(bucket)
            broker = world.broker(seed=survived + 10)
            dying = _Dying(broker.store, survived)
            broker.store = dying
            finished = await _restored(world, broker)
            again = await restore(world)
            assert again is not None
            two = (await world.fresh(seed=survived + 100)).start()
            for where, end in zip(places, last, strict=True):
                (base,) = await appended(two, where, "x")
                assert base > end
                got = await values((await world.fresh(seed=survived + 200)).reader, where)
                assert got == [(0, "a"), (1, "b"), (base, "x")]
            await two.stop()
            if finished:
                return
        raise AssertionError("the restore never finished")

    in_world(body)


async def _restored(world: World, broker: Broker) -> bool:
    try:
        work = restorer(world, broker)
        await work.apply(await work.plan([]))
    except _Died:
        return False
    return True


class _Died(Exception):
    pass


class _Dying:
    """A store that stops working after so many commits."""

    def __init__(self, inner: object, commits: int) -> None:
        self._inner = inner
        self._left = commits

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    async def commit(self, *arguments: object) -> object:
        self._left -= 1
        if self._left < 0:
            raise _Died
        return await self._inner.commit(*arguments)  # type: ignore[attr-defined]


def test_r22_a_topic_metadata_does_not_have_is_left_alone_and_its_name_gets_a_new_incarnation() -> None:
    async def body(world: World) -> None:
        one = world.broker().start()
        await one.topic("first")
        old = copy.deepcopy(world.metadata)
        where = key(0, (await one.topic("second")).topic_id)
        await appended(one, where, "a")
        await asyncio.sleep(700)
        await one.caretaker().pass_once()
        await one.stop()
        world.metadata = old
        plan = await restore(world)
        assert plan.unknown == ["second"]
        two = world.broker(seed=2)
        assert (await two.topic("second")).incarnation == 2
        assert [name for name in world.objects("default/second/") if name.endswith(".kfs")], "its segments are still there"

    in_world(body)


def test_r22_nothing_to_do_changes_no_partition() -> None:
    async def body(world: World) -> None:
        one = world.broker().start()
        where = key(0, (await one.topic("orders")).topic_id)
        await appended(one, where, "a")
        await asyncio.sleep(700)
        await one.caretaker().pass_once()
        await appended(one, where, "b")
        await one.stop()
        assert (await restore(world)).partitions == []
        assert await values((await world.fresh()).reader, where) == [(0, "a"), (1, "b")]

    in_world(body)


def test_r22_segments_removed_since_the_copy_raise_the_log_start() -> None:
    async def body(world: World) -> None:
        one = world.broker().start()
        where = key(0, (await one.topic("orders")).topic_id)
        for text in ("a", "b"):
            await appended(one, where, text)
            await asyncio.sleep(700)
            await one.caretaker().pass_once()
        await one.stop()
        for name in world.objects("default/orders/0/segment-00000000000000000000."):
            del world.bucket.objects[name]
            world.bucket.keys.remove(name)
        (done,) = (await restore(world)).partitions
        assert (done.new_start, done.new_head, done.lost) == (1, 2, ())
        fresh = await world.fresh()
        assert await values(fresh.reader, where, start=1) == [(1, "b")]
        assert fresh.index.bounds(where).start == 1

    in_world(body)


def segment(base: int, end: int) -> Segment:
    return Segment(base, end, f"s{base}", 1, 1, 1, 0, 0, 0, 0)


def test_cover_names_what_nothing_holds() -> None:
    pieces = cover(0, 100, [segment(60, 80), segment(20, 40), segment(30, 50)], [], segment_bytes=1)
    assert [(piece.base, piece.end, piece.lost) for piece in pieces] == [
        (0, 20, True),
        (20, 40, False),
        (40, 60, True),
        (60, 80, False),
        (80, 100, True),
    ]
