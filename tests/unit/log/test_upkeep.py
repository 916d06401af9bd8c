"""Sealing, dropping, collecting, retention, removal: the log stays readable and small."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.unit.log.world import World, batch, in_world, key, run_of, values

from frazil.kit.errors import Refused, RetryLater
from frazil.log.append import Appended, FlushPolicy
from frazil.log.pins import drop_pin, read_pins, set_pin
from frazil.log.refs import Bounds, OffsetOutOfRange
from frazil.objects.keys import Data
from frazil.objects.stores.memory import MemoryObjects
from frazil.segments import read_segment

HOUR = 3_600_000


def test_seal_then_read_then_collect_everything() -> None:
    async def body(world: World) -> None:
        one = world.broker().start()
        topic = await one.topic("orders", 3)
        where = [key(p, topic.topic_id) for p in range(3)]
        for n in range(10):
            await one.appender.append([run_of(w, batch([f"{n}", f"{n}x"])) for w in where])
        two = world.broker()
        await two.index.refresh()  # a reader with an old view
        care = one.caretaker()
        assert (await care.sealer.pass_once()).sealed == 0, "too young"
        await asyncio.sleep(700)
        report = await care.sealer.pass_once()
        assert (report.sealed, report.segments) == (3, 3)
        assert [k for k in world.objects("default/") if k.endswith(".kfs")] == [
            f"default/orders/{p}/segment-00000000000000000000.kfs" for p in range(3)
        ]
        view = read_segment(world.bucket.objects[f"default/orders/1/segment-{0:020d}.kfs"][0], where="", batch_bytes_max=1 << 20)
        assert (view.base_offset, view.last_offset, len(view.batches)) == (0, 19, 10)
        await one.append(where[0], batch(["late"]))
        collected = await care.collector.pass_once()
        assert collected.dropped_bundles == 10
        assert len(world.commit_keys()) == 1
        expected = [(n, f"{n // 2}" + ("x" if n % 2 else "")) for n in range(20)]
        assert await values(two.reader, where[1]) == expected, "bundles are still there for the old view"
        await asyncio.sleep(700)
        await care.collector.pass_once()
        assert len(world.objects("bundles/")) == 1
        three = world.broker()
        three.cache.forget("")
        fresh = world.broker()
        for broker in (two, fresh, one):
            await broker.index.refresh()
            assert await values(broker.reader, where[1]) == expected
            assert await values(broker.reader, where[0]) == [*expected, (20, "late")]
        assert not one.index.troubles() and not fresh.index.troubles()
        await one.stop()

    in_world(body)


def test_reader_with_deleted_bundle_resolves_again() -> None:
    async def body(world: World) -> None:
        one = world.broker().start()
        topic = await one.topic("t")
        where = key(0, topic.topic_id)
        await one.append(where, batch(["a", "b"]))
        two = world.broker()
        await two.index.refresh()
        care = one.caretaker(grace_ms=1000)
        await asyncio.sleep(700)
        await care.pass_once()
        await asyncio.sleep(2)
        await care.pass_once()
        assert world.objects("bundles/") == []
        assert not two.index.state.find(where).segments, "still the old view"  # type: ignore[union-attr]
        assert await values(two.reader, where) == [(0, "a"), (1, "b")]
        await one.stop()

    in_world(body)


def test_size_seals_before_age_and_cuts() -> None:
    async def body(world: World) -> None:
        one = world.broker().start()
        topic = await one.topic("t")
        where = key(0, topic.topic_id)
        for n in range(10):
            await one.append(where, batch([f"{n}" * 100]))
        care = one.caretaker(segment_bytes=400)
        report = await care.sealer.pass_once()
        assert report.segments > 1
        log = one.index.state.find(where)
        assert (log is not None and log.sealed_to < log.end) or report.segments == 5
        assert [v[0] for _, v in await values(one.reader, where)] == [str(n) for n in range(10)]
        await one.stop()

    in_world(body)


def test_object_count_is_constant_while_time_goes_on() -> None:
    async def body(world: World) -> None:
        one = world.broker().start()
        topic = await one.topic("t", 4, retention_ms=str(HOUR))
        where = [key(p, topic.topic_id) for p in range(4)]
        care = one.caretaker()
        counts = []
        for hour in range(8):
            for _ in range(12):
                now = world.clock.now_ms()
                await one.appender.append([run_of(w, batch(["x" * 100], at_ms=now)) for w in where[: 1 + hour % 4]])
                await asyncio.sleep(300)
                await care.pass_once()
            counts.append((len(world.objects()), len(world.rows("log/"))))
        assert counts[-1][0] <= max(c for c, _ in counts[1:5]) and counts[-1][1] <= max(c for _, c in counts[1:5])
        assert one.index.bounds(where[0]).start > 0
        assert not one.index.troubles()
        await one.index.refresh()
        fresh = world.broker()
        await fresh.index.refresh()
        for w in where:
            start = fresh.index.bounds(w).start
            assert start == one.index.bounds(w).start
            assert await values(fresh.reader, w, start=start) == await values(one.reader, w, start=start)
        assert fresh.index.state.spent == one.index.state.spent
        await one.stop()

    in_world(body)


def test_r12_idle_partition_does_not_keep_bundles() -> None:
    async def body(world: World) -> None:
        one = world.broker().start()
        topic = await one.topic("t", 2)
        await one.append(key(1, topic.topic_id), batch(["only once"]))
        care = one.caretaker(grace_ms=1000)
        for n in range(5):
            await one.append(key(0, topic.topic_id), batch([str(n)]))
            await asyncio.sleep(700)
            await care.pass_once()
        await asyncio.sleep(700)
        await care.pass_once()
        await asyncio.sleep(2)
        await care.pass_once()
        assert world.objects("bundles/") == [] and world.commit_keys() == []
        await one.stop()

    in_world(body)


def test_retention_by_time_takes_unsealed_runs_too() -> None:
    async def body(world: World) -> None:
        one = world.broker().start()
        topic = await one.topic("t", 1, retention_ms="60000")
        where = key(0, topic.topic_id)
        await one.append(where, batch(["old"], at_ms=world.clock.now_ms()))
        await asyncio.sleep(120)
        await one.append(where, batch(["new"], at_ms=world.clock.now_ms()))
        care = one.caretaker()
        report = await care.retainer.pass_once()
        assert report.raised == 1
        assert one.index.bounds(where) == Bounds(start=1, end=2)
        with pytest.raises(OffsetOutOfRange) as caught:
            await one.reader.fetch(where, 0, bytes_max=100)
        assert caught.value.bounds.start == 1
        assert await values(one.reader, where, start=1) == [(1, "new")]
        answer = await one.append(where, batch(["more"]))
        assert answer == Appended(2, 1, -1)
        await one.stop()

    in_world(body)


def test_retention_by_bytes_keeps_at_least_that_much() -> None:
    async def body(world: World) -> None:
        one = world.broker().start()
        size = len(batch(["x" * 50]))
        topic = await one.topic("t", 1, retention_ms="-1", retention_bytes=str(3 * size))
        where = key(0, topic.topic_id)
        for _ in range(10):
            await one.append(where, batch(["x" * 50]))
        care = one.caretaker()
        await care.retainer.pass_once()
        assert one.index.bounds(where) == Bounds(start=7, end=10)
        await one.stop()

    in_world(body)


def test_r18_pins_hold_retention_until_they_are_too_old() -> None:
    async def body(world: World) -> None:
        one = world.broker().start()
        topic = await one.topic("t", 1, retention_ms="60000")
        where = key(0, topic.topic_id)
        for n in range(4):
            await one.append(where, batch([str(n)], at_ms=world.clock.now_ms()))
        await set_pin(one.store, "ns.table", {where: 2}, now_ms=world.clock.now_ms())
        assert (await read_pins(one.store))["ns.table"].offsets == {where: 2}
        await asyncio.sleep(3600)
        care = one.caretaker(pin_max_ms=HOUR * 24)
        report = await care.retainer.pass_once()
        assert report.held_by_pins == 1 and one.index.bounds(where).start == 2
        await asyncio.sleep(25 * 3600)
        report = await care.retainer.pass_once()
        assert one.index.bounds(where).start == 4 and report.losses == 1
        (entry,) = world.metadata.read("log/loss/", "log/loss0", 0).entries
        assert entry.key.startswith("log/loss/ns.table/")
        assert json.loads(entry.value)["start"] == 2 and json.loads(entry.value)["end"] == 4
        await drop_pin(one.store, "ns.table")
        assert await read_pins(one.store) == {}
        await one.stop()

    in_world(body)


def test_delete_records() -> None:
    async def body(world: World) -> None:
        one = world.broker().start()
        topic = await one.topic("t")
        where = key(0, topic.topic_id)
        await one.append(where, batch(["a", "b", "c"]))
        care = one.caretaker()
        assert await care.retainer.delete_records(where, 1) == 1
        assert await values(one.reader, where, start=1) == [(1, "b"), (2, "c")]
        with pytest.raises(OffsetOutOfRange):
            await care.retainer.delete_records(where, 4)
        await asyncio.sleep(700)
        await care.pass_once()
        assert await values(one.reader, where, start=1) == [(1, "b"), (2, "c")]
        assert await care.retainer.delete_records(where, -1) == 3
        assert await one.append(where, batch(["d"])) == Appended(3, 3, -1)
        fresh = world.broker()
        await fresh.index.refresh()
        assert await values(fresh.reader, where, start=3) == [(3, "d")]
        await one.stop()

    in_world(body)


def test_delete_records_waits_for_a_seal_under_way() -> None:
    async def body(world: World) -> None:
        one = world.broker().start()
        topic = await one.topic("t")
        where = key(0, topic.topic_id)
        await one.append(where, batch(["a", "b", "c"]))
        care = one.caretaker()
        await asyncio.sleep(700)

        async def dies(*_: object) -> bool:
            raise RetryLater("killed")

        care.sealer._finish = dies  # type: ignore[method-assign]
        with pytest.raises(RetryLater):
            await care.sealer.pass_once()
        with pytest.raises(RetryLater, match="sealed"):
            await care.retainer.delete_records(where, 2)
        again = one.caretaker()
        await again.sealer.pass_once()
        assert await again.retainer.delete_records(where, 2) == 2
        await one.stop()

    in_world(body)


def test_deleted_topic_leaves_nothing() -> None:
    async def body(world: World) -> None:
        one = world.broker().start()
        keep = await one.topic("keep", 2)
        before = [(k, len(world.objects())) for k in world.rows("log/")]
        topic = await one.topic("gone", 6)
        where = [key(p, topic.topic_id) for p in range(6)]
        care = one.caretaker()
        for _ in range(3):
            await one.appender.append([run_of(w, batch(["x"])) for w in where])
            await one.append(key(0, keep.topic_id), batch(["k"]))
            await asyncio.sleep(700)
            await care.sealer.pass_once()
            await one.appender.append([run_of(w, batch(["unsealed"])) for w in where])
        two = world.broker()
        await two.index.refresh()
        await one.topics.delete("gone")
        again = await one.topic("gone", 1)
        assert again.incarnation == 2
        await one.append(key(0, again.topic_id), batch(["new life"]))
        for _ in range(6):
            await asyncio.sleep(700)
            await care.pass_once()
        hexed = topic.topic_id.hex()
        assert not [row for row in world.rows("") if hexed in row]
        assert not world.objects("default/gone/")
        assert world.objects("bundles/") == [] and world.commit_keys() == []
        await two.index.refresh()
        fresh = world.broker()
        await fresh.index.refresh()
        for broker in (one, two, fresh):
            assert not broker.index.knows(topic.topic_id)
            assert not broker.index.troubles()
            assert await values(broker.reader, key(0, again.topic_id)) == [(0, "new life")]
            assert [v for _, v in await values(broker.reader, key(0, keep.topic_id))] == ["k"] * 3
        assert before == []
        await one.stop()

    in_world(body)


def test_r21_f84_time_look_up_before_and_after_sealing() -> None:
    async def body(world: World) -> None:
        one = world.broker(policy=FlushPolicy()).start()
        topic = await one.topic("t")
        where = key(0, topic.topic_id)
        for at in (1000, 3000, 2000, 5000):
            await one.append(where, batch(["a", "b", "c"], at_ms=at))

        async def check() -> None:
            for reader in (one.reader, world.broker().reader):
                found = [await reader.find_time(where, t) for t in (0, 1001, 1003, 3001, 3003, 5002, 5003)]
                assert [None if f is None else (f.offset, f.timestamp_ms) for f in found] == [
                    (0, 1000), (1, 1001), (3, 3000), (4, 3001), (9, 5000), (11, 5002), None,
                ]  # fmt: skip
                newest = await reader.max_time(where)
                assert newest is not None and (newest.offset, newest.timestamp_ms) == (11, 5002)
                assert await reader.max_time(key(5, topic.topic_id)) is None

        await check()
        await asyncio.sleep(700)
        await one.caretaker().pass_once()
        await check()
        await one.stop()

    in_world(body)


def test_idle_producers_are_forgotten() -> None:
    async def body(world: World) -> None:
        one = world.broker().start()
        for pid in range(50):
            await one.append(key(), batch(["x"], pid=pid, epoch=0, sequence=0))
        await asyncio.sleep(25 * 3600)
        await one.append(key(), batch(["x"], pid=7, epoch=0, sequence=1))
        log = one.index.state.find(key())
        assert log is not None and list(log.producers) == [7]
        await one.stop()

    in_world(body)


def test_compacted_topics_keep_everything() -> None:
    async def body(world: World) -> None:
        one = world.broker().start()
        topic = await one.topic("t", 1, retention_ms="1000", cleanup_policy="compact")
        await one.append(key(0, topic.topic_id), batch(["x"]))
        await one.caretaker().retainer.pass_once()
        assert one.index.bounds(key(0, topic.topic_id)).start == 0
        await one.topics.set_configs("t", {"cleanup.policy": "compact, delete"})
        await one.caretaker().retainer.pass_once()
        assert one.index.bounds(key(0, topic.topic_id)).start == 1
        await one.stop()

    in_world(body)


def test_a_pass_seals_what_is_due_in_one_go_and_leaves_the_tail() -> None:
    """Steady traffic and a pass every ten seconds: one segment per partition and age, not one per pass."""

    async def body(world: World) -> None:
        one = world.broker().start()
        topic = await one.topic("t", 2)
        care = one.caretaker()
        for _ in range(200):
            await one.appender.append([run_of(key(p, topic.topic_id), batch(["x"])) for p in range(2)])
            await asyncio.sleep(10)
            await care.pass_once()
        log = one.index.state.find(key(1, topic.topic_id))
        assert log is not None and len(log.segments) == 3
        assert 3 <= len(log.run_bases) <= 61
        await one.stop()

    in_world(body)


def test_a_store_that_refuses_a_segment_does_not_end_the_broker() -> None:
    """A directory that became read-only once took appending and reading down with the sealing."""

    class ReadOnly(MemoryObjects):
        refuses = True

        async def put_if_absent(self, key: str, data: Data) -> None:
            if self.refuses and not key.startswith("bundles/"):
                raise Refused(f"{key}: Read-only file system; check the directory and its permissions")
            await super().put_if_absent(key, data)

    async def body(world: World) -> None:
        objects = ReadOnly(world.bucket, world.clock)
        one = world.broker(objects=objects).start()
        where = key(0, (await one.topic("orders")).topic_id)
        await one.append(where, batch(["a"]))
        care = one.caretaker(seal_age_ms=100, interval_ms=1_000)
        task = asyncio.get_running_loop().create_task(care.run())
        await asyncio.sleep(5)
        assert not task.done()
        assert "Read-only file system" in care.troubles()[0]
        assert isinstance(await one.append(where, batch(["b"])), Appended)
        assert await values(one.reader, where) == [(0, "a"), (1, "b")]
        objects.refuses = False
        await asyncio.sleep(5)
        assert care.troubles() == ()
        assert [k for k in world.objects("default/") if k.endswith(".kfs")]
        task.cancel()
        await one.stop()

    in_world(body)
