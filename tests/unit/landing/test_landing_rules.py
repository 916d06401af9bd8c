"""The design rules that landing answers for, one story each: R06 progress, R15 dead letters, R18 pins, F10, F58, and who is LOUD."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from tests.simulation.loop import run_virtual
from tests.unit.landing.world import FAST, World, auto

from frazil.catalogs.port import CreateTable
from frazil.catalogs.progress import read_progress
from frazil.kit.tasks import InlineOffload, spawn
from frazil.landing import deadletter
from frazil.log.cache import BlockCache
from frazil.log.pins import read_pins
from frazil.log.retain import Retainer
from frazil.log.upkeep import UpkeepDeps, UpkeepPolicy
from frazil.metadata.landings import LandingSpec, list_statuses, put_landing
from frazil.records import build_batch
from frazil.records.building import BatchOptions, Record

TABLE = "default.t"


def js(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def play(story: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        await story(World())

    run_virtual(main())


async def progress(world: World, table: str = TABLE) -> dict[int, int]:
    found = await read_progress(world.objects, await world.catalog().load(table))
    return {key.partition: offset for key, offset in found.items()}


def control_batch() -> bytes:
    return bytes(
        build_batch(
            [Record(key=b"\0\0\0\1", value=b"\0\0\0\0\0\0")],
            options=BatchOptions(control=True, transactional=True, producer_id=7, producer_epoch=0),
        )
    )


# --- R06 -----------------------------------------------------------------------------------------------------------------


def test_r06_rows_rolled_back_in_the_table_are_filled_again_from_the_log() -> None:
    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        await world.produce("t", [js(a=1)] * 50)
        await world.land()
        first = (await world.snapshots(TABLE))[-1]["snapshot-id"]
        await world.produce("t", [js(a=2)] * 50)
        await world.land()
        assert await world.offsets(TABLE) == list(range(100))
        table = await world.catalog().load(TABLE)
        await world.catalog().commit(
            TABLE, table, [], [{"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": first}]
        )
        assert await world.offsets(TABLE) == list(range(50))
        await world.produce("t", [js(a=3)])
        await world.land()
        assert await world.offsets(TABLE) == list(range(101))

    play(story)


def test_r06_progress_without_rows_waits_for_company_and_then_moves_alone() -> None:
    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        await world.produce("t", [js(a=1)])
        landing = world.landing(replace(FAST, progress_idle_ms=20_000))
        task = spawn("landing", landing.run())
        await asyncio.sleep(3)
        await world.append("t", 0, control_batch())
        await asyncio.sleep(10)
        assert len(await world.snapshots(TABLE)) == 1
        assert await progress(world) == {0: 1}
        assert (await world.status(TABLE)).behind_records == 0
        await asyncio.sleep(20)
        assert len(await world.snapshots(TABLE)) == 2
        assert await progress(world) == {0: 2}
        await asyncio.sleep(100)
        assert len(await world.snapshots(TABLE)) == 2
        landing.stop()
        await task
        assert await world.offsets(TABLE) == [0]

    play(story)


def test_r06_progress_without_rows_travels_with_the_next_rows() -> None:
    async def story(world: World) -> None:
        await world.topics.create("t", 2)
        await world.produce("t", [js(a=1)])
        landing = world.landing()
        task = spawn("landing", landing.run())
        await asyncio.sleep(3)
        await world.append("t", 0, control_batch())
        await asyncio.sleep(5)
        await world.produce("t", [js(a=2)], partition=1)
        await asyncio.sleep(3)
        assert await progress(world) == {0: 2, 1: 1}
        assert len(await world.snapshots(TABLE)) == 2
        landing.stop()
        await task

    play(story)


def test_f25_one_busy_partition_of_eight_is_fresh_and_quiet_times_make_no_snapshot() -> None:
    async def story(world: World) -> None:
        await world.topics.create("t", 8)
        landing = world.landing()
        task = spawn("landing", landing.run())
        for number in range(4):
            await world.produce("t", [js(n=number)], partition=3)
            await asyncio.sleep(3)
            assert len(await world.rows(TABLE)) == number + 1
            await asyncio.sleep(7)
        assert len(await world.snapshots(TABLE)) == 4
        landing.stop()
        await task

    play(story)


# --- R15 -----------------------------------------------------------------------------------------------------------------


def test_f28_a_poison_record_is_a_dead_letter_with_all_its_bytes_and_progress_goes_on() -> None:
    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        values: list[bytes | None] = [js(id=n) for n in range(10)]
        values[4] = b'{"id":'
        records = [Record(key=b"k%d" % n, value=value, timestamp_ms=5_000 + n, headers=(("h", b"\xff"),)) for n, value in enumerate(values)]
        await world.append("t", 0, bytes(build_batch(records)))
        await world.land()
        assert await world.offsets(TABLE) == [0, 1, 2, 3, 5, 6, 7, 8, 9]
        (letter,) = await world.rows(TABLE + "_dead")
        assert (letter["topic"], letter["partition"], letter["offset"], letter["last_offset"]) == ("t", 0, 4, 4)
        assert (letter["key"], letter["value"], letter["headers"]) == (b"k4", b'{"id":', [{"key": "h", "value": b"\xff"}])
        assert letter["code"] == "not-json"
        assert letter["timestamp"].timestamp() == 5.004
        assert letter["target_table"] == (await world.catalog().load(TABLE)).uuid
        assert letter["topic_id"] == world.key("t").topic_id.hex()
        assert await progress(world) == {0: 10}
        assert (await world.status(TABLE)).rows_rejected == 1

    play(story)


def test_f28_a_slice_of_nothing_but_poison_moves_progress_at_once() -> None:
    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        await world.produce("t", [b"x", b"y"])
        await world.land()
        assert await progress(world) == {0: 2}
        assert [row["offset"] for row in await world.rows(TABLE + "_dead")] == [0, 1]
        await world.produce("t", [js(a=1)])
        await world.land()
        assert await world.offsets(TABLE) == [2]

    play(story)


def test_f28_a_batch_that_nobody_can_unpack_is_one_dead_letter_with_its_frame() -> None:
    async def story(world: World) -> None:
        from crc32c import crc32c

        await world.topics.create("t", 1)
        frame = bytearray(build_batch([Record(key=None, value=b"a"), Record(key=None, value=b"b")]))
        frame[21:23] = b"\x00\x04"  # says zstd, is not
        frame[17:21] = crc32c(bytes(frame[21:])).to_bytes(4, "big")
        await world.append("t", 0, bytes(frame))
        await world.produce("t", [js(a=1)])
        await world.land()
        assert await world.offsets(TABLE) == [2]
        (letter,) = await world.rows(TABLE + "_dead")
        assert (letter["offset"], letter["last_offset"], letter["code"]) == (0, 1, "batch-decompress")
        assert letter["value"][8:] == bytes(frame)[8:]

    play(story)


@pytest.mark.parametrize("point", ["P3", "P4", "P5", "P6", "P7"])
def test_r15_dead_letters_of_a_slice_that_is_worked_again_are_added_once(point: str) -> None:
    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        for passage in (1, 2, 3):
            await world.produce("t", [js(a=1), b"poison", js(a=2), b"worse"])
            await world.land_until_killed(point, passage, seconds=3.0)
        await world.land()
        assert sorted(row["offset"] for row in await world.rows(TABLE + "_dead")) == [1, 3, 5, 7, 9, 11]
        assert await world.offsets(TABLE) == [0, 2, 4, 6, 8, 10]

    play(story)


@pytest.mark.parametrize("first_takes_tombstones", [True, False])
def test_r15_a_verdict_that_changes_between_two_attempts_loses_nothing(first_takes_tombstones: bool) -> None:
    """A record that the first attempt found bad and the second good (or the other way round) is in one place at least."""

    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        spec = LandingSpec(table="x.t", topics=("t",), columns=("a int",), metadata_columns=first_takes_tombstones)
        await put_landing(world.store, spec)
        await world.produce("t", [None, js(a=1)])
        # without metadata columns a tombstone is a dead letter, whose commit comes first: then the main commit is the second
        assert await world.land_until_killed("P4", 1 if first_takes_tombstones else 2)
        assert await world.rows("x.t") == []
        await put_landing(world.store, replace(spec, metadata_columns=not first_takes_tombstones))
        await world.land()
        assert await progress(world, "x.t") == {0: 2}
        landed = [row["a"] for row in await world.rows("x.t")]
        dead = [row["offset"] for row in await world.rows("x.t_dead")]
        assert dead == [0]
        assert landed == ([1] if first_takes_tombstones else [None, 1])

    play(story)


def test_r15_progress_does_not_pass_a_letter_that_is_not_in_the_dead_letter_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """The dead-letter commit says yes and does nothing: the read-back must notice, and the main table must not move."""

    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        await world.produce("t", [js(a=1), b"poison"])

        async def nothing(*_: Any, **__: Any) -> pa.Table:
            return pa.schema([(name, deadletter.DEAD_SCHEMA.field(name).type) for name in deadletter._KEY_COLUMNS]).empty_table()

        monkeypatch.setattr(deadletter, "read_rows", nothing)
        landing = world.landing()
        task = spawn("landing", landing.run())
        await asyncio.sleep(4)
        status = await world.status(TABLE)
        assert (status.state, status.stage) == ("stalled", "deadletter")
        assert await world.rows(TABLE) == []
        landing.stop()
        await task

    play(story)


# --- R18, F10, F58 ---------------------------------------------------------------------------------------------------------


def test_r18_the_pin_follows_the_commit_and_is_there_before_the_first_one() -> None:
    async def story(world: World) -> None:
        await world.topics.create("t", 2)
        landing = world.landing(catalogs={"default": world.catalog()})
        task = spawn("landing", landing.run())
        await asyncio.sleep(2)
        assert (await read_pins(world.store))[TABLE].offsets == {world.key("t", 0): 0, world.key("t", 1): 0}
        await world.produce("t", [js(a=1)] * 3, partition=1)
        await asyncio.sleep(3)
        assert (await read_pins(world.store))[TABLE].offsets == {world.key("t", 0): 0, world.key("t", 1): 3}
        landing.stop()
        await task

    play(story)


def test_r18_the_pin_never_leads_progress_at_any_kill_point() -> None:
    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        for point in ("P3", "P4", "P5", "P6", "P7"):
            await world.produce("t", [js(a=1)] * 3)
            await world.land_until_killed(point)
            pins = (await read_pins(world.store))[TABLE].offsets
            assert pins[world.key("t")] <= (await progress(world)).get(0, 0)

    play(story)


async def remove_below(world: World, offset: int) -> None:
    deps = UpkeepDeps(
        store=world.store,
        objects=world.objects,
        index=world.index,
        topics=world.topics,
        clock=world.clock,
        chance=world.chance,
        offload=InlineOffload(),
        cache=BlockCache(1 << 20),
    )
    assert await Retainer(deps, UpkeepPolicy()).delete_records(world.key("t"), offset) == offset


def test_f10_a_log_start_beyond_progress_is_a_recorded_loss_and_landing_goes_on_there() -> None:
    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        await world.produce("t", [js(a=1)] * 2)
        await world.land()
        for _ in range(10):
            await world.produce("t", [js(a=2)] * 100)
        await remove_below(world, 502)
        landing = world.landing()
        task = spawn("landing", landing.run())
        await asyncio.sleep(4)
        assert await world.offsets(TABLE) == [0, 1, *range(502, 1002)]
        summaries = [snapshot["summary"] for snapshot in await world.snapshots(TABLE)]
        assert [summary["frazil.loss"] for summary in summaries if "frazil.loss" in summary] == ["t[0] 2-501"]
        assert "lost to retention: t[0] 2-501" in (await world.status(TABLE)).reason
        landing.stop()
        await task

    play(story)


@pytest.mark.parametrize("restart", [True, False])
def test_f10_what_goes_before_the_first_commit_is_a_recorded_loss_too(restart: bool) -> None:
    """A table that waits for its first commit has no progress to compare with; its pin says from where it waits."""

    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        landing = world.landing(replace(FAST, progress_idle_ms=1_000))
        task = spawn("landing", landing.run())
        await asyncio.sleep(3)
        assert (await read_pins(world.store))[TABLE].offsets == {world.key("t"): 0}
        if restart:
            landing.stop()
            await task
        await put_landing(world.store, LandingSpec(table=TABLE, topics=("t",), options={"paused": "true"}))
        await asyncio.sleep(1)
        for _ in range(10):
            await world.produce("t", [js(a=2)] * 100)
        await remove_below(world, 502)
        await put_landing(world.store, LandingSpec(table=TABLE, topics=("t",)))
        if restart:
            await world.land()
        else:
            await asyncio.sleep(4)
        assert await world.offsets(TABLE) == list(range(502, 1000))
        summaries = [snapshot["summary"] for snapshot in await world.snapshots(TABLE)]
        assert [summary["frazil.loss"] for summary in summaries if "frazil.loss" in summary] == ["t[0] 0-501"]
        assert "lost to retention: t[0] 0-501" in (await world.status(TABLE)).reason
        assert (await read_pins(world.store))[TABLE].offsets == {world.key("t"): 1000}
        landing.stop()
        await task

    play(story)


def test_f58_a_table_dropped_under_landing_is_loud_and_filled_again_only_on_request() -> None:
    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        await put_landing(world.store, LandingSpec(table="x.t", topics=("t",)))
        await world.produce("t", [js(a=1)] * 3)
        await world.land()
        await world.catalog().drop("x.t")
        await world.produce("t", [js(a=2)] * 2)
        await world.land()
        status = await world.status("x.t")
        assert (status.state, status.stage, status.topic) == ("failed", "discover", "t")
        assert "recreated=fill" in status.reason
        assert await world.catalog().list("x") == ()
        await put_landing(world.store, LandingSpec(table="x.t", topics=("t",), options={"recreated": "fill"}))
        await world.land()
        assert await world.offsets("x.t") == [0, 1, 2, 3, 4]
        assert (await world.status("x.t")).state == "idle"

    play(story)


# --- foreign tables, options, names ----------------------------------------------------------------------------------------


def test_a_table_somebody_made_keeps_its_columns_and_gets_missing_ones_when_inferring() -> None:
    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        schema = pa.schema([pa.field("id", pa.int64()), pa.field("old", pa.string())])
        await world.catalog().create(TABLE, CreateTable(schema=schema))
        await world.produce("t", [js(id=1, fresh=True)])
        await world.land()
        (row,) = await world.rows(TABLE)
        assert (row["id"], row["old"], row["fresh"], row["_offset"]) == (1, None, True, 0)
        assert list(row)[:2] == ["id", "old"]

    play(story)


def test_a_table_somebody_made_is_not_changed_when_columns_are_declared() -> None:
    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        await world.catalog().create("x.t", CreateTable(schema=pa.schema([pa.field("id", pa.int64())])))
        spec = LandingSpec(table="x.t", topics=("t",), columns=("id long", "more string"), metadata_columns=False)
        await put_landing(world.store, spec)
        await world.produce("t", [js(id=1)])
        await world.land()
        status = await world.status("x.t")
        assert (status.state, status.stage) == ("failed", "convert")
        assert "no column more" in status.reason
        await put_landing(world.store, replace(spec, columns=("id long",)))
        await world.land()
        assert await world.rows("x.t") == [{"id": 1}]

    play(story)


def test_a_value_field_named_like_a_metadata_column_gets_another_name() -> None:
    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        await world.produce("t", [js(_offset="mine")])
        await world.land()
        (row,) = await world.rows(TABLE)
        assert (row["_offset"], row["_offset_"]) == (0, "mine")

    play(story)


def test_f44_topics_that_would_share_a_table_are_refused_loudly_and_others_land() -> None:
    async def story(world: World) -> None:
        for name in ("orders.v1", "orders-v1", "orders_v1", "Orders", "orders__v1"):
            await world.topics.create(name, 1)
            await world.produce(name, [js(a=name)])
        await world.land()
        assert set(await world.catalog().list("default")) == {
            "default.orders__v1",
            "default.orders-v1",
            "default.orders_v1",
            "default.Orders",
        }
        (loud,) = [status for status in await list_statuses(world.store) if status.state == "failed"]
        assert (loud.table, loud.topic) == ("default.orders__v1 (orders__v1)", "orders__v1")
        assert "give it a table of its own" in loud.reason

    play(story)


def test_a_spec_that_cannot_work_is_loud_and_harmless() -> None:
    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        await world.topics.create("u", 1)
        await put_landing(world.store, LandingSpec(table="x.t", topics=("t",), columns=("id lonk",)))
        await put_landing(world.store, LandingSpec(table="x.o", topics=("t",), options={"colour": "blue"}))
        await world.produce("u", [js(a=1)])
        await world.land()
        assert (await world.status("x.t")).state == "failed"
        assert "lonk" in (await world.status("x.t")).reason
        assert "colour" in (await world.status("x.o")).reason
        assert len(await world.rows("default.u")) == 1

    play(story)


def test_a_paused_table_does_nothing_and_says_so_and_a_changed_spec_is_taken_up() -> None:
    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        await world.produce("t", [js(a=1)])
        await put_landing(world.store, LandingSpec(table="x.t", topics=("t",), options={"paused": "true"}))
        landing = world.landing()
        task = spawn("landing", landing.run())
        await asyncio.sleep(4)
        assert (await world.status("x.t")).state == "paused"
        assert await world.catalog().list("x") == ()
        await put_landing(world.store, LandingSpec(table="x.t", topics=("t",)))
        await asyncio.sleep(4)
        assert len(await world.rows("x.t")) == 1
        landing.stop()
        await task

    play(story)


def test_a_topic_that_does_not_exist_yet_is_named_and_lands_once_it_does() -> None:
    async def story(world: World) -> None:
        await put_landing(world.store, LandingSpec(table="x.t", topics=("later",)))
        landing = world.landing()
        task = spawn("landing", landing.run())
        await asyncio.sleep(2)
        status = await world.status("x.t")
        assert (status.state, status.reason) == ("idle", "no topic later")
        await world.topics.create("later", 1)
        await world.produce("later", [js(a=1)])
        await asyncio.sleep(4)
        assert len(await world.rows("x.t")) == 1
        landing.stop()
        await task

    play(story)


def test_a_deleted_topic_ends_its_automatic_landing_its_pin_and_its_status_and_keeps_the_table() -> None:
    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        await world.produce("t", [js(a=1)])
        landing = world.landing()
        task = spawn("landing", landing.run())
        await asyncio.sleep(3)
        assert set(await read_pins(world.store)) == {TABLE}
        await world.topics.delete("t")
        await asyncio.sleep(3)
        assert await read_pins(world.store) == {}
        assert await list_statuses(world.store) == ()
        assert len(await world.rows(TABLE)) == 1
        landing.stop()
        await task

    play(story)


def test_a_clean_stop_lands_what_waits() -> None:
    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        await world.produce("t", [js(a=1)])
        landing = world.landing(replace(FAST, commit_interval_ms=60_000))
        task = spawn("landing", landing.run())
        await asyncio.sleep(5)
        await world.produce("t", [js(a=2)])
        landing.stop()
        await task
        assert len(await world.rows(TABLE)) == 2
        assert (await world.status(TABLE)).state == "idle"

    play(story)


def test_freshness_is_the_age_of_the_oldest_record_not_landed() -> None:
    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        landing = world.landing(replace(auto("json"), commit_interval_ms=30_000))
        task = spawn("landing", landing.run())
        await asyncio.sleep(1)
        await world.produce("t", [js(a=1)])
        await asyncio.sleep(12)
        status = await world.status(TABLE)
        assert status.behind_records == 1
        assert 5_000 <= status.freshness_ms <= 13_000
        landing.stop()
        await task

    play(story)
