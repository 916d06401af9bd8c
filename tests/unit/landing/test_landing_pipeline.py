"""From produce to table: what lands, in which columns, in how many snapshots; judged by an independent reader."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace

from tests.simulation.loop import run_virtual
from tests.unit.landing.world import FAST, World, auto

from frazil.metadata.landings import LandingSpec, put_landing


def js(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def play(story: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        await story(World())

    run_virtual(main())


def test_json_records_land_in_an_inferred_table_with_metadata_columns() -> None:
    async def story(world: World) -> None:
        await world.topics.create("orders.v1", 2)
        await world.produce("orders.v1", [js(id=1, price=1.5), js(id=2, note="x")])
        await world.produce("orders.v1", [js(id=3)], partition=1)
        await world.land()
        rows = sorted(await world.rows("default.orders__v1"), key=lambda row: row["id"])
        assert [(row["id"], row["price"], row["note"], row["_kafka_partition"], row["_offset"]) for row in rows] == [
            (1, 1.5, None, 0, 0),
            (2, None, "x", 0, 1),
            (3, None, None, 1, 0),
        ]
        assert {row["_topic"] for row in rows} == {"orders.v1"}
        assert {row["_key"] for row in rows} == {b"k"}
        assert rows[0]["_timestamp"].timestamp() * 1000 >= 1_700_000_000_000
        columns = world.oracle.columns(await world.location("default.orders__v1"))
        assert list(columns) == ["id", "price", "note", "_topic", "_kafka_partition", "_offset", "_timestamp", "_key", "_headers"]
        status = await world.status("default.orders__v1")
        assert (status.state, status.behind_records, status.rows_landed, status.freshness_ms) == ("idle", 0, 3, 0)

    play(story)


def test_no_column_gets_a_name_that_iceberg_keeps_for_itself() -> None:
    """Spark refuses to read a table with such a column: "Table column names conflict with names reserved for Iceberg metadata columns"."""

    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        await world.produce("t", [js(_file="f", _partition=1, _POS=2, _row_id=3, _deleted=True, _partition_=4)])
        await world.land()
        columns = world.oracle.columns(await world.location("default.t"))
        assert list(columns)[:6] == ["_file_", "_partition_", "_POS_", "_row_id_", "_deleted_", "_partition__"]
        assert not {name.lower() for name in columns} & {"_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id"}

    play(story)


def test_f46_a_topic_without_schema_lands_raw_with_equal_bytes() -> None:
    async def story(world: World) -> None:
        await world.topics.create("blobs", 1)
        values = [bytes(range(256)), b"", None]
        await world.produce("blobs", values)
        await world.land(settings=auto("raw"))
        rows = sorted(await world.rows("default.blobs"), key=lambda row: row["_offset"])
        assert [row["value"] for row in rows] == values

    play(story)


def test_f48_nothing_new_means_no_snapshot() -> None:
    async def story(world: World) -> None:
        await world.topics.create("quiet", 4)
        await world.produce("quiet", [js(a=1)])
        await world.land(seconds=120.0)
        assert len(await world.snapshots("default.quiet")) == 1

    play(story)


def test_json_evolution_mid_stream_adds_columns_and_keeps_old_rows() -> None:
    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        await world.produce("t", [js(id=1)])
        await world.land()
        await world.produce("t", [js(id=2, at={"lat": 1.5}), js(id=3, tags=["a"])])
        await world.land()
        await world.produce("t", [js(id=4, at={"lat": 2.5, "lon": 3.5})])
        await world.land()
        rows = sorted(await world.rows("default.t"), key=lambda row: row["id"])
        assert [row["tags"] for row in rows] == [None, None, ["a"], None]
        assert rows[3]["at"] == {"lat": 2.5, "lon": 3.5}
        assert rows[0]["at"] is None

    play(story)


def test_declared_columns_make_the_table_at_once_and_reject_what_does_not_fit() -> None:
    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        await put_landing(
            world.store, LandingSpec(table="shop.orders", topics=("t",), columns=("id long", "price decimal(10,2)"), metadata_columns=False)
        )
        await world.land(seconds=3.0)
        assert world.oracle.columns(await world.location("shop.orders")) == {"id": "long", "price": "decimal(10, 2)"}
        await world.produce("t", [js(id=1, price=1.25), js(id="no", price=1), js(id=3, extra=1)])
        await world.land()
        rows = await world.rows("shop.orders")
        assert sorted(row["id"] for row in rows) == [1, 3]
        dead = await world.rows("shop.orders_dead")
        assert [(row["offset"], row["code"]) for row in dead] == [(1, "wrong-type")]

    play(story)


def test_f09_partitions_added_to_a_running_topic_land_from_their_first_record() -> None:
    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        await world.produce("t", [js(a=1)])
        landing = world.landing()
        task = asyncio.get_running_loop().create_task(landing.run())
        await asyncio.sleep(3)
        await world.topics.set_partitions("t", 6)
        for partition in range(6):
            await world.produce("t", [js(a=partition)] * 10, partition=partition)
        await asyncio.sleep(4)
        landing.stop()
        await task
        assert await world.offsets("default.t", partition=0) == list(range(11))
        for partition in range(1, 6):
            assert await world.offsets("default.t", partition=partition) == list(range(10))

    play(story)


def test_f03_a_re_created_topic_starts_at_its_own_log_start_and_old_rows_remain() -> None:
    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        for _ in range(10):
            await world.produce("t", [js(a=1)] * 100)
        await world.land()
        await world.topics.delete("t")
        await world.topics.create("t", 1)
        await world.produce("t", [js(a=2)] * 5)
        await world.land()
        rows = await world.rows("default.t")
        assert len(rows) == 1005
        assert sorted(row["_offset"] for row in rows if row["a"] == 2) == [0, 1, 2, 3, 4]

    play(story)


def test_f03_a_rebuilt_cluster_has_another_source_and_is_not_filtered_by_the_old_progress() -> None:
    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        await world.produce("t", [js(a=1)] * 3)
        await world.land()
        await world.land(incarnation=2)
        assert len(await world.rows("default.t")) == 6

    play(story)


def test_several_topics_land_in_one_table() -> None:
    async def story(world: World) -> None:
        for name in ("a", "b"):
            await world.topics.create(name, 1)
            await world.produce(name, [js(v=name)] * 3)
        await put_landing(world.store, LandingSpec(table="x.both", topics=("a", "b")))
        await world.land()
        assert sorted(row["v"] for row in await world.rows("x.both")) == ["a"] * 3 + ["b"] * 3
        assert await world.catalog().list("default") == ()

    play(story)


def test_a_backlog_is_landed_in_bounded_slices_without_waiting_for_the_interval() -> None:
    async def story(world: World) -> None:
        await world.topics.create("t", 3)
        for number in range(30):
            await world.produce("t", [js(v="x" * 1000, n=number)] * 20, partition=number % 3)
        small = replace(FAST, slice_bytes_max=200_000, commit_interval_ms=60_000)
        await world.land(seconds=5.0, settings=small)
        for partition in range(3):
            assert await world.offsets("default.t", partition=partition) == list(range(200))
        assert len(await world.snapshots("default.t")) >= 3

    play(story)


def test_a_table_named_by_nobody_is_not_made_when_auto_is_off() -> None:
    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        await world.produce("t", [js(a=1)])
        await world.land(settings=replace(FAST, auto=None))
        assert await world.catalog().list("default") == ()

    play(story)


def test_commit_bytes_commit_before_the_interval() -> None:
    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        await put_landing(world.store, LandingSpec(table="x.t", topics=("t",), commit_interval_ms=600_000, commit_bytes=5_000))
        landing = world.landing()
        tasks = [asyncio.get_running_loop().create_task(landing.run())]
        await asyncio.sleep(2)
        for _ in range(10):
            await world.produce("t", [js(v="x" * 1000)])
            await asyncio.sleep(0.5)
        await asyncio.sleep(3)
        assert len(await world.rows("x.t")) >= 5
        landing.stop()
        await tasks[0]

    play(story)


def test_declared_columns_of_another_type_than_the_table_has_stop_the_landing_with_the_column_named() -> None:
    """The topic had landed by itself: ``price`` is a double. Declared as decimal it would land as double, and nobody would say so."""

    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        await world.produce("t", [js(id=1, price=1.5)])
        await world.land()
        spec = LandingSpec(table="default.t", topics=("t",), value="json", columns=("id int", "price decimal(9,2)"))
        await put_landing(world.store, spec)
        await world.produce("t", [js(id=2, price=2.5)])
        await world.land()
        status = await world.status("default.t")
        assert status.state == "failed", status
        assert "column price" in status.reason and "decimal" in status.reason
        assert len(await world.rows("default.t")) == 1
        # What Iceberg can promote is no other type: id is a long in the table.
        await put_landing(world.store, replace(spec, columns=("id int", "price float")))
        await world.land()
        assert len(await world.rows("default.t")) == 2

    play(story)
