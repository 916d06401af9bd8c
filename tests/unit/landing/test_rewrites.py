"""Rewrites beside landing: small files merge, deletes fold, nothing comes back, nothing is lost, and landing never waits for them."""

from __future__ import annotations

import asyncio
import json
import random
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from tests.simulation.loop import run_virtual
from tests.unit.landing.oracle import MergingOracle
from tests.unit.landing.test_landing_upsert import rewriting, rows, send, spec
from tests.unit.landing.world import Killed, World, auto, auto_off

from frazil.catalogs.commit import Committed, Committer, Landed
from frazil.catalogs.port import Catalog, CreateTable, LoadedTable
from frazil.catalogs.rewrite import Rewriter, RewriteReport
from frazil.catalogs.rewriteplan import RewriteSettings
from frazil.catalogs.rowdelta import KEYS_SUMMARY, RowDelta
from frazil.catalogs.write import FileWriter
from frazil.kit.errors import Refused
from frazil.kit.faultpoints import FaultPoints
from frazil.kit.tasks import spawn
from frazil.landing.options import check_options
from frazil.landing.upsert import parse_upsert
from frazil.metadata.landings import LandingSpec, put_landing

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])
NAME = "lake.plain"
EAGER = RewriteSettings(dead_share=0.0, dead_rows_min=0, equality_rows_max=0, cheap_files=2)


class Table:
    """One table without landing: rows are committed as landing would, and somebody rewrites beside."""

    def __init__(self, world: World, settings: RewriteSettings = EAGER) -> None:
        self.world = world
        self.deps = world._catalog_deps(FaultPoints(), world.objects)
        self.catalog: Catalog = world.catalog()
        self.committer = Committer(self.catalog, self.deps)
        self.delta = RowDelta(self.committer, FileWriter(self.deps))
        self.rewriter = Rewriter(self.committer, self.delta, settings)

    async def load(self) -> LoadedTable:
        return await self.catalog.load(NAME)

    async def commit(self, rows: list[dict[str, int]], delete: list[int] = (), *, by: str = "equality") -> None:  # type: ignore[assignment]
        table = await self.load()
        files = await self.delta.writer.write(table, pa.Table.from_pylist(rows, schema=SCHEMA)) if rows else ()
        extra: tuple[Any, ...] = ()
        if delete:
            keys = pa.table({"id": pa.array(delete, pa.int64())})
            found = await (
                self.delta.equality(table, keys, None)
                if by == "equality"
                else self.delta.positions(table, await self.delta.look(table, keys, None))
            )
            extra = found.files
        summary = {KEYS_SUMMARY: json.dumps(["id"])}
        outcome = await self.committer.commit(Landed(base=table, files=(*files, *extra), summary=summary, rebase=False))
        assert isinstance(outcome, Committed), outcome

    async def ids(self) -> list[int]:
        oracle = MergingOracle(self.world.bucket.objects)
        return sorted(row["id"] for row in oracle.merged((await self.load()).metadata_location))

    async def files(self) -> tuple[int, int]:
        live = await self.delta.files.of(await self.load())
        return len(live.data), len(live.deletes)


def test_f48_a_file_a_tick_ends_as_at_most_two_files() -> None:
    """One record a second, a commit each ten: 360 files an hour and partition, were they not merged."""

    async def main() -> None:
        world = World()
        await world.topics.create("ticks", 1)
        settings = replace(auto("json"), care_interval_ms=60_000)
        landing = world.landing(settings)
        task = spawn("landing", landing.run())
        for number in range(180):
            await world.produce("ticks", [json.dumps({"n": number}).encode()])
            await asyncio.sleep(4)
        await asyncio.sleep(130)
        landing.stop()
        await task
        location = await world.location("default.ticks")
        oracle = MergingOracle(world.bucket.objects)
        assert sorted(row["n"] for row in oracle.merged(location)) == list(range(180))
        assert len(oracle.live_files(location)) <= 2
        operations = {s["summary"]["operation"] for s in await world.snapshots("default.ticks")}
        assert operations == {"append", "replace"}

    run_virtual(main())


@pytest.mark.parametrize("by", ["equality", "positions"])
def test_f51_a_delete_that_comes_while_a_rewrite_is_written_is_not_lost(by: str) -> None:
    async def main() -> None:
        it = Table(World())
        await it.catalog.create(NAME, CreateTable(schema=SCHEMA))
        await it.commit([{"id": 1, "v": 1}, {"id": 2, "v": 1}])
        await it.commit([{"id": 3, "v": 1}])
        write = it.rewriter._write

        async def slow(*given: Any) -> Any:
            made = await write(*given)
            it.rewriter._write = write  # type: ignore[method-assign]
            await it.commit([{"id": 4, "v": 1}], delete=[2], by=by)
            return made

        it.rewriter._write = slow  # type: ignore[method-assign]
        report = await it.rewriter.pass_once(NAME)
        assert report.merged == 2
        assert await it.ids() == [1, 3, 4]
        await it.rewriter.pass_once(NAME)
        assert await it.ids() == [1, 3, 4]
        await it.rewriter.pass_once(NAME)
        assert await it.files() == (1, 0)

    run_virtual(main())


def test_f51_deletes_by_place_in_a_table_without_key_make_a_rewrite_give_up() -> None:
    async def main() -> None:
        it = Table(World())
        await it.catalog.create(NAME, CreateTable(schema=SCHEMA))
        await it.commit([{"id": 1, "v": 1}])
        await it.commit([{"id": 2, "v": 1}])
        write = it.rewriter._write

        async def slow(*given: Any) -> Any:
            made = await write(*given)
            await it.commit([], delete=[2], by="positions")
            return made

        it.rewriter._write = slow  # type: ignore[method-assign]
        import frazil.catalogs.rewrite as module

        known, module._key_of = module._key_of, lambda _table: None  # type: ignore[assignment]
        try:
            report = await it.rewriter.pass_once(NAME)
        finally:
            module._key_of = known
        assert report == RewriteReport(given_up=1)
        assert await it.ids() == [1]

    run_virtual(main())


def test_f50_a_rewrite_that_takes_longer_than_many_commits_goes_in_and_no_commit_fails() -> None:
    async def main() -> None:
        it = Table(World())
        await it.catalog.create(NAME, CreateTable(schema=SCHEMA))
        for number in range(6):
            await it.commit([{"id": number, "v": 0}])
        write = it.rewriter._write

        async def slow(*given: Any) -> Any:
            made = await write(*given)
            it.rewriter._write = write  # type: ignore[method-assign]
            for number in range(6, 30):
                await it.commit([{"id": number, "v": 0}], delete=[number - 6], by="equality" if number % 2 else "positions")
            return made

        it.rewriter._write = slow  # type: ignore[method-assign]
        report = await it.rewriter.pass_once(NAME)
        assert report.merged >= 6 and not report.given_up
        assert await it.ids() == list(range(24, 30))

    run_virtual(main())


def test_f53_rows_that_a_rewrite_moved_stay_once_after_the_next_appends() -> None:
    async def main() -> None:
        it = Table(World())
        await it.catalog.create(NAME, CreateTable(schema=SCHEMA))
        made = 0
        for _ in range(4):
            for _ in range(5):
                await it.commit([{"id": made, "v": 0}])
                made += 1
            await it.rewriter.pass_once(NAME)
            await it.commit([{"id": made, "v": 0}])
            made += 1
            assert await it.ids() == list(range(made))

    run_virtual(main())


def test_f93_many_small_upserts_leave_few_delete_files_and_one_row_per_key() -> None:
    async def main() -> None:
        it = Table(World(), RewriteSettings(delete_files_max=10, dead_rows_min=15, dead_share=0.05, equality_rows_max=20))
        await it.catalog.create(NAME, CreateTable(schema=SCHEMA))
        await it.commit([{"id": number, "v": 0} for number in range(300)])
        chance = random.Random(1)
        most = 0
        for turn in range(60):
            keys = chance.sample(range(300), 3)
            await it.commit([{"id": key, "v": turn} for key in keys], delete=keys, by=("equality", "positions")[turn % 2])
            most = max(most, (await it.files())[1])
            if turn % 5 == 4:
                await it.rewriter.pass_once(NAME)
            assert await it.ids() == list(range(300))
        assert most <= 16

    run_virtual(main())


@pytest.mark.parametrize("passage", [1, 2, 3, 4])
def test_f52_a_rewrite_killed_at_any_upload_leaves_nothing_in_the_way_of_the_next(passage: int) -> None:
    async def main() -> None:
        world = World()
        it = Table(world)
        await it.catalog.create(NAME, CreateTable(schema=SCHEMA))
        for number in range(5):
            await it.commit([{"id": number, "v": 0}], delete=[number - 1] if number == 3 else [])
        for _ in range(5):
            doomed = Table(world)
            left = passage
            put = world.objects.put_if_absent

            async def dying(key: str, data: Any, put: Any = put) -> None:
                nonlocal left
                left -= 1
                if left == 0:
                    raise Killed
                await put(key, data)

            world.objects.put_if_absent = dying  # type: ignore[method-assign]
            try:
                await doomed.rewriter.pass_once(NAME)
            except Killed:
                pass
            finally:
                world.objects.put_if_absent = put  # type: ignore[method-assign]
            assert await it.ids() == [0, 1, 3, 4]
        await it.rewriter.pass_once(NAME)
        assert await it.ids() == [0, 1, 3, 4]
        assert await it.files() == (1, 0)

    run_virtual(main())


@pytest.mark.parametrize("seed", range(5))
def test_events_slices_kills_and_rewrites_in_any_order_equal_a_replay(seed: int) -> None:
    """Keys in two partitions of the table, tombstones, late and duplicate events, processes that die anywhere, rewrites in between."""

    async def main() -> None:
        world = World(seed)
        chance = random.Random(seed)
        await world.topics.create("changes", 2)
        write = ("positions", "positions", "copy", "equality", "positions")[seed]
        # The last: each commit writes files again, in turn with the folds of its own process.
        settings = auto_off() if seed < 4 else replace(auto_off(), dead_share=0.02, dead_rows_min=0)
        given = spec(envelope="op:what", upsert__deletes="op,tombstone", upsert__record_key="json", upsert__write=write)
        await put_landing(world.store, given)
        expected: dict[int, int] = {}
        serial = 0
        past: list[dict[str, Any]] = []
        for _ in range(7):
            for partition in (0, 1):
                events: list[dict[str, Any] | None] = []
                keys: list[bytes] = []
                for _ in range(chance.randrange(1, 25)):
                    serial += 1
                    key = chance.randrange(12) * 2 + partition
                    event: dict[str, Any] | None = {"id": key, "region": "r", "v": serial, "what": chance.choice("cuud")}
                    again = [old for old in past if old["id"] % 2 == partition]
                    if again and chance.random() < 0.2:
                        event = chance.choice(again)  # late, or a duplicate
                    elif chance.random() < 0.1:
                        event = None
                    keys.append(json.dumps({"id": key if event is None else event["id"]}).encode())
                    events.append(event)
                    if event is None or event["what"] == "d":
                        expected.pop(key if event is None else event["id"], None)
                    else:
                        expected[event["id"]] = event["v"]
                    if event is not None:
                        past.append(event)
                await send(world, events, keys, partition=partition)
            if chance.random() < 0.6:
                await world.land_until_killed(
                    chance.choice(["P1", "P2", "P3", "P4", "P5", "P6", "P7"]), chance.randrange(1, 3), seconds=3, settings=settings
                )
            else:
                await world.land(2, settings)
            if chance.random() < 0.7 and (await world.catalog().list("lake")):
                await rewriting(world).pass_once("lake.rows")
        await world.land(3, auto_off())
        assert await rows(world) == expected
        await rewriting(world).pass_once("lake.rows")
        assert await rows(world) == expected

    run_virtual(main())


# --- order by a column, configuration ----------------------------------------------------------------------------------


@pytest.mark.parametrize("write", ["positions", "copy"])
def test_r23_ordered_by_a_column_a_late_event_changes_nothing(write: str) -> None:
    async def main() -> None:
        world = World()
        chance = random.Random(4)
        await world.topics.create("changes", 2)
        await put_landing(world.store, spec(upsert__order="v", upsert__write=write))
        expected: dict[int, int] = {}
        for _ in range(6):
            for partition in (0, 1):
                events: list[dict[str, Any] | None] = [
                    {"id": chance.randrange(10), "region": "r", "v": chance.randrange(1000)} for _ in range(15)
                ]
                for event in events:
                    assert event is not None
                    expected[event["id"]] = max(expected.get(event["id"], -1), event["v"])
                await send(world, events, partition=partition)
            await world.land(2, auto_off())
            assert await rows(world) == expected
            await rewriting(world).pass_once("lake.rows")

    run_virtual(main())


def test_r23_a_key_in_two_partitions_stops_the_table_by_name() -> None:
    async def main() -> None:
        world = World()
        await world.topics.create("changes", 2)
        await put_landing(world.store, spec())
        for partition in (0, 1):
            await send(world, [{"id": 5, "region": "r", "v": partition}], partition=partition)
        landing = world.landing(auto_off())
        task = spawn("landing", landing.run())
        await asyncio.sleep(3)
        (status,) = landing.statuses()
        assert status.state == "failed" and "id=5" in status.reason and "partitions 0 and 1" in status.reason
        landing.stop()
        await task

    run_virtual(main())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"upsert.key": ""}, "needs upsert.key"),
        ({"upsert.key": "id,id"}, "twice"),
        ({"upsert.key": "nope"}, "not among the declared columns"),
        ({"upsert.key": "d"}, "keys are text"),
        ({"mode": "append"}, "is for mode=upsert"),
        ({"mode": "merge"}, "append or upsert"),
        ({"envelope": "canal"}, "debezium, op:FIELD or none"),
        ({"upsert.deletes": "op"}, "needs envelope"),
        ({"upsert.deletes": "tombstone"}, "needs upsert.record-key"),
        ({"upsert.deletes": "tombstone", "upsert.record-key": "avro"}, "others cannot be read"),
        ({"upsert.key": "id,s", "upsert.deletes": "tombstone", "upsert.record-key": "long"}, "use json"),
        ({"upsert.order": "s"}, "whole number"),
        ({"upsert.order": "id"}, "is a key column"),
        ({"upsert.order": "v", "upsert.write": "equality"}, "deletes without looking"),
        ({"upsert.order": "v", "envelope": "debezium"}, "leaves nothing"),
        ({"upsert.write": "merge"}, "use one of"),
    ],
)
def test_r23_what_cannot_be_is_refused_when_the_table_is_created(options: dict[str, str], says: str) -> None:
    given = LandingSpec(
        table="lake.t",
        topics=("a",),
        columns=("id long", "s string", "v long", "d double"),
        options={"mode": "upsert", "upsert.key": "id", **options},
    )
    with pytest.raises(Refused, match=says):
        check_options(given)


def test_r23_several_topics_have_no_order_of_offsets() -> None:
    given = LandingSpec(table="lake.t", topics=("a", "b"), options={"mode": "upsert", "upsert.key": "id"})
    with pytest.raises(Refused, match="several topics"):
        check_options(given)
    assert parse_upsert(replace(given, options={**given.options, "upsert.order": "v"})) is not None
