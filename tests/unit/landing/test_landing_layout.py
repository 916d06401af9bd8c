"""The options partition, sort and file_bytes: applied when the table is made and when they change, never against what others did since."""

from __future__ import annotations

import asyncio
import datetime
import json
from dataclasses import replace
from typing import Any

import pytest
from tests.simulation.loop import run_virtual
from tests.unit.landing.world import World, auto_off

from frazil.kit.errors import Refused
from frazil.landing.layout import FILES_ADVISED_MAX, advice, parse_layout, parse_partition, parse_sort, partition_text, sort_text
from frazil.landing.options import check_options
from frazil.metadata.landings import LandingSpec, put_landing

TABLE = "lake.laid"


def spec(*columns: str, **options: str) -> LandingSpec:
    return LandingSpec(table=TABLE, topics=("t",), columns=columns, options=options)


def values(start: int, end: int, **more: Any) -> list[bytes]:
    return [json.dumps({"id": at, "region": f"r{at % 3}", **more}).encode() for at in range(start, end)]


async def alter(world: World, wanted: LandingSpec) -> None:
    """As ``frazil table alter`` does."""
    await put_landing(world.store, wanted)


async def facts(world: World) -> dict[str, Any]:
    """Specs, partitions of live files and the default spec, by the independent reader."""
    location = await world.location(TABLE)
    metadata = world.oracle.metadata(location)
    files = world.oracle.live_files(location)
    return {
        "specs": [[(field["name"], field["transform"]) for field in item["fields"]] for item in metadata["partition-specs"]],
        "default": metadata["default-spec-id"],
        "partitions": [tuple(file["partition"].values()) for file in files],
        "orders": [file["sort_order_id"] for file in files],
        "properties": metadata["properties"],
    }


def test_a_new_table_has_the_layout_of_its_options() -> None:
    async def main() -> None:
        world = World()
        await world.topics.create("t", 1)
        await put_landing(world.store, spec(partition="day(_timestamp), REGION", sort="id desc", file_bytes="1000000"))
        offsets = await world.produce("t", values(0, 30))
        await world.land(settings=auto_off())
        found = await facts(world)
        day = world.clock.now_ms() // 86_400_000
        assert found["specs"] == [[("_timestamp_day", "day"), ("region", "identity")]]
        assert [(str(when), region) for when, region in found["partitions"]] == [
            (str(found["partitions"][0][0]), region) for region in ("r0", "r1", "r2")
        ]
        assert (found["partitions"][0][0] - datetime.date(1970, 1, 1)).days == day
        assert found["orders"] == [1, 1, 1]
        assert found["properties"]["write.target-file-size-bytes"] == "1000000"
        assert await world.offsets(TABLE) == offsets
        ids = [row["id"] for row in await world.rows(TABLE) if row["region"] == "r1"]
        assert ids == sorted(ids, reverse=True)

    run_virtual(main())


def test_an_altered_layout_is_for_new_files_and_what_another_engine_did_since_stays() -> None:
    async def main() -> None:
        world = World()
        await world.topics.create("t", 1)
        await put_landing(world.store, spec(partition="region"))
        await world.produce("t", values(0, 30))
        await world.land(settings=auto_off())
        await alter(world, spec(partition="bucket(2, id)"))
        await world.produce("t", values(30, 60))
        await world.land(settings=auto_off())
        found = await facts(world)
        assert (found["default"], len(found["specs"]), len(found["partitions"])) == (1, 2, 5)
        # Somebody else goes back to no partitions: the option is as it was, so it is not applied again.
        table = await world.catalog().load(TABLE)
        updates = [{"action": "add-spec", "spec": {"spec-id": 2, "fields": []}}, {"action": "set-default-spec", "spec-id": 2}]
        await world.catalog().commit(TABLE, table, [], updates)
        offsets = await world.produce("t", values(60, 90))
        await world.land(settings=auto_off())
        found = await facts(world)
        assert (found["default"], len(found["partitions"])) == (2, 6)
        await alter(world, spec(partition="region"))
        offsets = await world.produce("t", values(90, 120))
        await world.land(settings=auto_off())
        found = await facts(world)
        assert (found["default"], len(found["specs"]), len(found["partitions"])) == (0, 3, 9)
        assert await world.offsets(TABLE) == list(range(offsets[-1] + 1))

    run_virtual(main())


def test_a_new_table_without_the_column_is_refused_by_name() -> None:
    async def main() -> None:
        world = World()
        await world.topics.create("t", 1)
        await put_landing(world.store, spec(partition="country"))
        await world.produce("t", values(0, 3))
        await world.land(settings=auto_off())
        status = await world.status(TABLE)
        assert status.state == "failed" and "country" in status.reason and "id, region" in status.reason
        await alter(world, spec(partition="region"))
        await world.land(settings=auto_off())
        assert len(await world.rows(TABLE)) == 3

    run_virtual(main())


def test_a_layout_for_a_column_that_is_to_come_waits_for_it_and_landing_goes_on() -> None:
    """Refusing would keep the very records away that bring the column."""

    async def main() -> None:
        world = World()
        await world.topics.create("t", 1)
        await put_landing(world.store, spec())
        await world.produce("t", values(0, 3))
        await world.land(settings=auto_off())
        await alter(world, spec(partition="country"))
        await world.produce("t", values(3, 6))
        await world.land(settings=auto_off())
        status = await world.status(TABLE)
        assert status.state == "idle" and "waits for the column country" in status.reason
        await world.produce("t", values(6, 9, country="se"))
        await world.land(settings=auto_off())
        await world.produce("t", values(9, 12, country="no"))
        await world.land(settings=auto_off())
        found = await facts(world)
        assert (found["default"], found["partitions"][0]) == (1, ("no",))
        assert len(await world.rows(TABLE)) == 12
        assert "country" not in (await world.status(TABLE)).reason

    run_virtual(main())


def test_landing_lays_out_a_table_while_it_is_killed_everywhere() -> None:
    async def main() -> None:
        for point in ("P1", "P2", "P3", "P4", "P5", "P6", "P7"):
            world = World()
            await world.topics.create("t", 1)
            await put_landing(world.store, spec())
            offsets = await world.produce("t", values(0, 10))
            await world.land(settings=auto_off())
            await alter(world, spec(partition="region, bucket(2, id)"))
            offsets += await world.produce("t", values(10, 40))
            await world.land_until_killed(point, seconds=10, settings=auto_off())
            await world.land(settings=auto_off())
            assert await world.offsets(TABLE) == offsets, point
            assert len((await facts(world))["specs"]) == 2, point

    run_virtual(main())


def test_f72_a_slice_of_many_files_is_landed_and_the_status_advises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frazil.landing.layout.FILES_ADVISED_MAX", 50)

    async def main() -> None:
        world = World()
        await world.topics.create("t", 1)
        await put_landing(world.store, spec("id long", partition="id"))
        await world.produce("t", [b'{"id":%d}' % at for at in range(51)])
        await world.land(30, settings=replace(auto_off(), commit_interval_ms=20_000))
        await asyncio.sleep(1)
        status = await world.status(TABLE)
        assert "51 files of 1 rows on average, with 112 requests" in status.reason
        assert status.state == "idle"
        assert len(await world.rows(TABLE)) == 51

    run_virtual(main())


@pytest.mark.parametrize(
    ("options", "columns", "why"),
    [
        ({"partition": "day(ts"}, (), "not a list of fields"),
        ({"partition": "days(x) y"}, (), "what is 'y'"),
        ({"partition": "bucket(x)"}, (), "write bucket"),
        ({"partition": "week(ts)"}, (), "not known"),
        ({"partition": "bucket(4, a), bucket(5000, b)"}, (), "20000 partitions.*40010 requests"),
        ({"partition": "a, a"}, (), "twice"),
        ({"partition": "nope"}, ("id long",), "nope is no column"),
        ({"partition": "day(id)"}, ("id long",), "day does not take column id of type long"),
        ({"partition": "f"}, ("f double",), "readers do not agree"),
        ({"partition": "u"}, ("u uuid",), "readers do not agree"),
        ({"partition": "truncate(10, d)"}, ("d decimal(9,2)",), "without their sign"),
        ({"sort": "id downwards"}, (), "what is 'downwards'"),
        ({"sort": "nope"}, ("id long",), "nope is no column"),
        ({"file_bytes": "12"}, (), "65536 or more"),
    ],
)
def test_layouts_that_cannot_be_are_refused_before_they_are_stored(options: dict[str, str], columns: tuple[str, ...], why: str) -> None:
    with pytest.raises(Refused, match=why):
        check_options(spec(*columns, **options))


def test_layouts_are_read_as_iceberg_sql_writes_them_and_have_one_spelling() -> None:
    texts = {
        "days(ts), Bucket( 16 ,id),truncate(name, 4),region as area": "day(ts), bucket(16, id), truncate(4, name), region as area",
        '`a#b`, "日本", `1st`, "x`y"': '`a#b`, 日本, `1st`, "x`y"',
        "NONE": "none",
        "`none`": "`none`",
        "void(a.b)": "void(a.b)",
    }
    for text, spelling in texts.items():
        assert partition_text(parse_partition(text)) == spelling
        assert parse_partition(spelling) == parse_partition(text)
    orders = {
        "ts desc, id": "ts desc nulls last, id asc nulls first",
        "ts DESC NULLS FIRST, hour(ts) nulls last": "ts desc nulls first, hour(ts) asc nulls last",
        "none": "none",
    }
    for text, spelling in orders.items():
        assert sort_text(parse_sort(text)) == spelling
        assert parse_sort(spelling) == parse_sort(text)
    check_options(spec("id long", partition="day(_timestamp), bucket(8, id)", sort="_offset", file_bytes="65536"))
    assert parse_layout({}).properties() == {}
    assert advice(FILES_ADVISED_MAX, 5_000) == ""
