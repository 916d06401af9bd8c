"""Glue and Hive by their strict doubles: versions and expected parameters decide, limits are kept, locks of the dead go."""

from __future__ import annotations

import asyncio
import pathlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from tests.standins import glue as glue_double
from tests.standins.glue import GlueDouble
from tests.standins.hive import HiveDouble
from tests.unit.catalogs.restrig import deps
from tests.unit.catalogs.rig import IDENT, SCHEMA, Rig, assert_exactly_once, make

from frazil.catalogs import Catalog, CreateTable, open_catalog
from frazil.catalogs.commit import Committed
from frazil.catalogs.metastores import hivelocks
from frazil.catalogs.metastores.columns import Limits, hive_type, shown_columns
from frazil.catalogs.metastores.properties import glue_properties, hive_properties
from frazil.kit.clock import SystemClock
from frazil.kit.errors import Refused, RetryLater
from frazil.kit.tasks import ThreadOffload

Double = GlueDouble | HiveDouble
KEYS = {"glue.region": glue_double.REGION, "glue.access-key-id": glue_double.KEY, "glue.secret-access-key": glue_double.SECRET}
BOTH = pytest.mark.parametrize("kind", [GlueDouble, HiveDouble])


@dataclass
class World:
    """A metastore double and clients of it."""

    double: Double
    path: pathlib.Path
    offload: ThreadOffload

    def open(self, seed: int = 3, **properties: str) -> Catalog:
        url, more = (f"glue+{self.double.uri}", KEYS) if isinstance(self.double, GlueDouble) else (self.double.uri, {})
        mine = replace(deps(seed), offload=self.offload)
        return open_catalog(url, mine, {"warehouse": f"file://{self.path}/warehouse", **more, **properties})

    def rig(self, catalog: Catalog, seed: int = 3) -> Rig:
        return make(replace(deps(seed), offload=self.offload, objects=catalog.objects or deps().objects), catalog, seed=seed)


def in_world(path: pathlib.Path, double: Double, work: Callable[[World], Awaitable[Any]]) -> None:
    async def run() -> None:
        offload = ThreadOffload("metastores")
        try:
            with double:
                await work(World(double=double, path=path, offload=offload))
        finally:
            offload.close()

    asyncio.run(run())


@BOTH
def test_lost_answers_and_late_commits_land_each_record_once(tmp_path: pathlib.Path, kind: type[Double]) -> None:
    """R16 where an entry of a metastore is the pointer."""
    words = {
        GlueDouble: ("cut/a", "cut/n", "500/a", "500/n", "throttled", "conflict", "conflict/a", "late(0.15)", "late(0.4)"),
        HiveDouble: ("cut/a", "cut/n", "fail/a", "fail/n", "modified", "modified/a", "late(0.15)", "late(0.4)"),
    }[kind]

    async def work(world: World) -> None:
        catalog = world.open()
        await catalog.create(IDENT, CreateTable(schema=SCHEMA))
        rig = world.rig(catalog)
        await rig.land(10)
        for number, word in enumerate(words):
            world.double.script(word)
            await rig.land(20 + 10 * number)
        world.double.settle()
        await rig.land(200)
        assert_exactly_once(await rig.table(), 200)
        assert not world.double.faults
        await catalog.close()

    in_world(tmp_path, kind(), work)


@BOTH
def test_of_two_writers_on_one_head_one_wins(tmp_path: pathlib.Path, kind: type[Double]) -> None:
    async def work(world: World) -> None:
        one, two = world.open(3), world.open(4)
        await one.create(IDENT, CreateTable(schema=SCHEMA))
        first, second = world.rig(one, 3), world.rig(two, 4)
        for end in (10, 20, 30):
            base = await first.table()
            outcomes = await asyncio.gather(first.land_once(end, base=base), second.land_once(end, base=base))
            assert sorted(isinstance(outcome, Committed) for outcome in outcomes) == [False, True]
        assert_exactly_once(await first.table(), 30)
        await one.close()
        await two.close()

    in_world(tmp_path, kind(), work)


@BOTH
@pytest.mark.parametrize("word", ["cut/a", "cut/n"])
def test_a_create_whose_answer_is_lost(tmp_path: pathlib.Path, kind: type[Double], word: str) -> None:
    async def work(world: World) -> None:
        catalog = world.open()
        world.double.script(word)
        try:
            await catalog.create(IDENT, CreateTable(schema=SCHEMA))
        except RetryLater:
            assert word == "cut/n"
            await catalog.create(IDENT, CreateTable(schema=SCHEMA))
        assert await catalog.list("lake") == (IDENT,)
        await catalog.close()

    in_world(tmp_path, kind(), work)


@BOTH
@pytest.mark.parametrize("ident", ["lake.Orders", "lake.a-b", "deep.lake.t", "Lake.t"])
def test_names_that_a_metastore_would_change_are_refused(tmp_path: pathlib.Path, kind: type[Double], ident: str) -> None:
    async def work(world: World) -> None:
        catalog = world.open()
        with pytest.raises(Refused, match="lower-case"):
            await catalog.create(ident, CreateTable(schema=SCHEMA))
        await catalog.close()

    in_world(tmp_path, kind(), work)


# --- Glue ----------------------------------------------------------------------------------------------------------------


def test_f60_versions_of_a_glue_table_are_not_archived(tmp_path: pathlib.Path) -> None:
    """A double that refuses the fifth archived version; without SkipArchive the sixth commit fails."""

    async def work(world: World) -> None:
        catalog = world.open()
        await catalog.create(IDENT, CreateTable(schema=SCHEMA))
        rig = world.rig(catalog)
        for end in range(10, 90, 10):
            await rig.land(end)
        assert isinstance(world.double, GlueDouble)
        assert not world.double.archived and not world.double.unversioned
        await catalog.close()

    in_world(tmp_path, GlueDouble(versions_max=5), work)


def test_what_others_wrote_into_a_glue_entry_stays(tmp_path: pathlib.Path) -> None:
    async def work(world: World) -> None:
        catalog = world.open()
        await catalog.create(IDENT, CreateTable(schema=SCHEMA))
        double = world.double
        assert isinstance(double, GlueDouble)
        entry = double.entry("lake", "events")
        entry["Description"], entry["Owner"] = "orders of the shop", "team a"
        entry["Parameters"]["classification"] = "theirs"
        await world.rig(catalog).land(10)
        entry = double.entry("lake", "events")
        assert (entry["Description"], entry["Owner"], entry["Parameters"]["classification"]) == ("orders of the shop", "team a", "theirs")
        assert entry["Parameters"]["previous_metadata_location"] and entry["Parameters"]["table_type"] == "ICEBERG"
        assert [column["Name"] for column in entry["StorageDescriptor"]["Columns"]] == ["_partition", "_offset", "text"]
        assert "frazil.progress" not in entry["Parameters"]  # grows with partitions
        await catalog.close()

    in_world(tmp_path, GlueDouble(), work)


def test_an_entry_that_is_no_iceberg_table_is_refused(tmp_path: pathlib.Path) -> None:
    async def work(world: World) -> None:
        catalog = world.open()
        await catalog.create(IDENT, CreateTable(schema=SCHEMA))
        assert isinstance(world.double, GlueDouble)
        world.double.entry("lake", "events")["Parameters"] = {"classification": "csv"}
        with pytest.raises(Refused, match="no Iceberg table"):
            await catalog.load(IDENT)
        assert await catalog.list("lake") == ()
        await catalog.close()

    in_world(tmp_path, GlueDouble(), work)


@pytest.mark.parametrize("word", ["denied", "expired"])
def test_f64_refused_keys_are_said_and_work_again_later(tmp_path: pathlib.Path, word: str) -> None:
    async def work(world: World) -> None:
        catalog = world.open()
        await catalog.create(IDENT, CreateTable(schema=SCHEMA))
        rig = world.rig(catalog)
        await rig.land(10)
        world.double.script(word)
        with pytest.raises(Refused) as raised:
            await rig.land(20)
        assert glue_double.SECRET not in str(raised.value) and ("AccessDenied" in str(raised.value) or "ExpiredToken" in str(raised.value))
        await rig.land(30)
        assert_exactly_once(await rig.table(), 30)
        await catalog.close()

    in_world(tmp_path, GlueDouble(), work)


# --- Hive ----------------------------------------------------------------------------------------------------------------


def test_a_metastore_that_compares_nothing_is_refused_before_a_commit(tmp_path: pathlib.Path) -> None:
    """Without HIVE-26882 two writers could overwrite each other; the naive way would not notice."""

    async def work(world: World) -> None:
        catalog = world.open()
        await catalog.create(IDENT, CreateTable(schema=SCHEMA))
        assert isinstance(world.double, HiveDouble)
        before = world.double.tables["lake", "events"].parameters["metadata_location"]
        with pytest.raises(Refused, match="HIVE-26882"):
            await world.rig(catalog).land(10)
        assert world.double.tables["lake", "events"].parameters["metadata_location"] == before
        await catalog.close()

    in_world(tmp_path, HiveDouble(compares=False), work)


def test_a_commit_holds_hives_lock_and_gives_it_back(tmp_path: pathlib.Path) -> None:
    async def work(world: World) -> None:
        catalog = world.open()
        await catalog.create(IDENT, CreateTable(schema=SCHEMA))
        await world.rig(catalog).land(10)
        assert isinstance(world.double, HiveDouble)
        assert not world.double.unlocked_alters and not world.double.locks and world.double.seen.count("lock") >= 1
        without = world.open(5, **{"hive.lock-enabled": "false"})
        await world.rig(without, 5).land(20)
        assert world.double.unlocked_alters
        await catalog.close()
        await without.close()

    in_world(tmp_path, HiveDouble(), work)


class QuickClock(SystemClock):
    """A minute goes by in a second, so that a dead lock's age is reached in a test."""

    def monotonic_ms(self) -> float:
        return super().monotonic_ms() * 200


def test_f63_a_lock_left_by_the_dead_is_taken_away_and_a_foreign_one_is_not(tmp_path: pathlib.Path) -> None:
    async def work(world: World) -> None:
        assert isinstance(world.double, HiveDouble)
        mine = replace(deps(), offload=world.offload, clock=QuickClock())
        catalog = open_catalog(world.double.uri, mine, {"warehouse": f"file://{world.path}/warehouse"})
        await catalog.create(IDENT, CreateTable(schema=SCHEMA))
        rig = world.rig(catalog)
        foreign = world.double.leave_lock("lake", "events", agent="Iceberg-1234")
        set_one = [{"action": "set-properties", "updates": {"one": "1"}}]
        with pytest.raises(RetryLater, match="somebody@elsewhere"):
            await catalog.commit(IDENT, await rig.table(), [], set_one)
        assert foreign in world.double.locks and len(world.double.locks) == 1  # ours was given back
        world.double.locks.clear()
        ours = world.double.leave_lock("lake", "events", agent=hivelocks.AGENT)
        for _ in range(5):
            try:
                await catalog.commit(IDENT, await rig.table(), [], set_one)
                break
            except RetryLater:
                continue
        assert ours not in world.double.locks and (await rig.table()).metadata["properties"]["one"] == "1"
        await catalog.close()

    in_world(tmp_path, HiveDouble(), work)


# --- pure ----------------------------------------------------------------------------------------------------------------


def test_types_in_hives_words() -> None:
    nested = {"type": "list", "element": {"type": "struct", "fields": [{"name": "a", "type": "timestamptz"}]}}
    assert hive_type(nested, zoned="timestamp with local time zone") == "array<struct<a:timestamp with local time zone>>"
    assert hive_type({"type": "map", "key": "string", "value": "decimal(9, 2)"}) == "map<string,decimal(9,2)>"
    assert [hive_type(kind) for kind in ("uuid", "fixed[16]", "time", "long", "variant")] == [
        "string",
        "binary",
        "string",
        "bigint",
        "string",
    ]


def test_f60_columns_that_do_not_fit_are_left_out() -> None:
    fields = [
        {"id": 1, "name": "a", "required": True, "type": "int", "doc": "x" * 300},
        {"id": 2, "name": "A", "required": False, "type": "int"},  # metastores do not tell cases apart
        {"id": 3, "name": "n" * 200, "required": False, "type": "int"},
        {"id": 4, "name": "wide", "required": False, "type": {"type": "struct", "fields": [{"name": "f" * 5000, "type": "int"}]}},
        *({"id": 10 + at, "name": f"c{at:04d}", "required": False, "type": "string"} for at in range(4000)),
    ]
    metadata = {"schemas": [{"schema-id": 0, "fields": fields}], "current-schema-id": 0}
    shown = shown_columns(metadata, Limits(total=10_000))
    assert shown[0].comment == "x" * 255 and shown[1].name == "c0000" and 700 < len(shown) < 1000


@pytest.mark.parametrize(
    ("url", "properties"),
    [
        ("glue:", {}),
        ("glue+ftp://host", {"glue.region": "r"}),
        ("glue+https://host/path", {"glue.region": "r"}),
        ("glue:", {"glue.region": "r", "token": "x"}),
        ("glue:", {"glue.region": "r", "timeout-ms": "soon"}),
    ],
)
def test_glue_addresses_and_properties_that_are_refused(url: str, properties: dict[str, str]) -> None:
    with pytest.raises(Refused, match=r"glue|timeout-ms"):
        glue_properties(url, properties)


@pytest.mark.parametrize(
    ("url", "properties"),
    [
        ("hive:", {}),
        ("hive://host:port", {}),
        ("hive://user@host", {}),
        ("hive://host/path", {}),
        ("hive://host", {"hive.lock-enabled": "maybe"}),
        ("hive://host", {"proxy": "http://p:1"}),
        ("hive://host", {"scope": "x"}),
    ],
)
def test_hive_addresses_and_properties_that_are_refused(url: str, properties: dict[str, str]) -> None:
    with pytest.raises(Refused, match="hive"):
        hive_properties(url, properties)


def test_addresses_without_a_host_of_their_own() -> None:
    assert glue_properties("glue:", {"glue.region": "eu-west-1"}).endpoint == "https://glue.eu-west-1.amazonaws.com"
    assert (hive_properties("hive://ms", {}).port, hive_properties("hive://ms:9999", {}).port) == (9083, 9999)
