"""The verbs over landed tables, on stores in a directory."""

from __future__ import annotations

import asyncio
import pathlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import cast

import pyarrow as pa
import pytest

from frazil.admin.port import NewTable, TableRow
from frazil.assembly.doctor import _sentence
from frazil.assembly.settings import FrazilSettings, LandingSettings
from frazil.assembly.stores import Stores, open_stores
from frazil.assembly.tables import TableVerbs
from frazil.catalogs.port import Catalog, CreateTable, LoadedTable
from frazil.kit.errors import Missing, Refused, RetryLater
from frazil.metadata.landings import LandingSpec, get_landing, put_landing
from frazil.metadata.routes import RouteTable, claim_table, list_route_tables


@dataclass
class Catalogue:
    """Knows one dead-letter table, and may be away."""

    away: bool = False

    async def load(self, ident: str) -> LoadedTable:
        if self.away:
            raise RetryLater("away")
        if ident != "a.b_dead":
            raise Missing(ident)
        snapshots = [
            {"snapshot-id": number, "timestamp-ms": 1, "summary": {"operation": "append", "total-records": str(number)}}
            for number in (5, 9, 7)
        ]
        return LoadedTable(ident=ident, metadata_location="m", metadata={"current-snapshot-id": 9, "snapshots": snapshots})


def on_stores(directory: pathlib.Path, work: Callable[[Stores], Awaitable[None]]) -> None:
    async def run() -> None:
        async with open_stores(FrazilSettings(data_dir=str(directory))) as stores:
            await work(stores)

    asyncio.run(run())


def wish(**options: str) -> NewTable:
    return NewTable(table="a.b", topics=("t",), value="json", columns=(), metadata_columns=True, commit_interval_ms=None, options=options)


def test_status_counts_the_dead_letters_that_are_there_now(tmp_path: pathlib.Path) -> None:
    async def work(stores: Stores) -> None:
        await put_landing(stores.metadata, LandingSpec(table="a.b", topics=("t",)))
        await put_landing(stores.metadata, LandingSpec(table="a.c", topics=("u",)))
        for away, counts in ((False, [9, 0]), (True, [None, None])):
            verbs = TableVerbs(replace(stores, catalog=cast(Catalog, Catalogue(away=away))), LandingSettings())
            assert [row.dead_letters for row in await verbs.status()] == counts

    on_stores(tmp_path, work)


def test_a_landing_is_made_with_options_and_altered(tmp_path: pathlib.Path) -> None:
    async def work(stores: Stores) -> None:
        verbs = TableVerbs(stores, LandingSettings())
        await verbs.create(wish(recreated="fill"))
        await verbs.alter("a.b", {"paused": "true"}, commit_interval_ms=2_000)
        made = LandingSpec(table="a.b", topics=("t",), commit_interval_ms=2_000, commit_bytes=LandingSettings().commit_bytes)
        assert await get_landing(stores.metadata, "a.b") == replace(made, options={"recreated": "fill", "paused": "true"})
        await verbs.alter("a.b", {"paused": None, "recreated": None}, commit_interval_ms=None)
        assert await get_landing(stores.metadata, "a.b") == made

    on_stores(tmp_path, work)


def test_an_unknown_option_is_refused_and_changes_nothing(tmp_path: pathlib.Path) -> None:
    async def work(stores: Stores) -> None:
        verbs = TableVerbs(stores, LandingSettings())
        with pytest.raises(Refused, match=r"unknown option 'pausd'; did you mean 'paused'\? known: catalog, "):
            await verbs.create(wish(pausd="true"))
        assert await get_landing(stores.metadata, "a.b") is None
        with pytest.raises(Missing, match=r"no landing into table a\.b"):
            await verbs.alter("a.b", {"paused": "true"}, commit_interval_ms=None)
        await verbs.create(wish())
        with pytest.raises(Refused, match="unknown option"):
            await verbs.alter("a.b", {"pausd": "true"}, commit_interval_ms=None)
        spec = await get_landing(stores.metadata, "a.b")
        assert spec is not None
        assert spec.options == {}

    on_stores(tmp_path, work)


@pytest.mark.parametrize(
    ("stage", "reason", "letters", "text"),
    [
        ("", "", 0, "idle, lag 3 records"),
        ("", "no topic t", None, "idle, lag 3 records; no topic t"),
        ("commit", "catalog is away", 2, "idle, lag 3 records, 2 dead letters in a.b_dead; commit: catalog is away"),
    ],
)
def test_the_doctor_says_it_in_a_sentence(stage: str, reason: str, letters: int | None, text: str) -> None:
    row = TableRow(table="a.b", topics="t", state="idle", freshness_ms=0, lag_records=3, stage=stage, reason=reason, dead_letters=letters)
    assert _sentence(row) == text


def test_a_new_landing_takes_the_interval_of_the_settings(tmp_path: pathlib.Path) -> None:
    async def work(stores: Stores) -> None:
        await TableVerbs(stores, LandingSettings(commit_interval_ms=7_000)).create(wish())
        spec = await get_landing(stores.metadata, "a.b")
        assert spec is not None
        assert spec.commit_interval_ms == 7_000

    on_stores(tmp_path, work)


def test_dropping_what_lands_by_itself_is_refused_unless_automatic_landing_is_off(tmp_path: pathlib.Path) -> None:
    async def work(stores: Stores) -> None:
        verbs = TableVerbs(stores, LandingSettings(namespace="a"))
        await put_landing(stores.metadata, LandingSpec(table="a.t", topics=("t",)))
        with pytest.raises(Refused, match="lands by itself"):
            await verbs.drop("a.t", purge=False)
        await TableVerbs(stores, LandingSettings(auto=False, namespace="a")).drop("a.t", purge=False)
        assert await get_landing(stores.metadata, "a.t") is None

    on_stores(tmp_path, work)


def test_a_route_shows_its_tables_and_goes_with_all_that_it_made(tmp_path: pathlib.Path) -> None:
    async def work(stores: Stores) -> None:
        verbs = TableVerbs(stores, LandingSettings())
        await verbs.create(wish(**{"route": "field:kind", "route.table": "a.of_{}"}))
        own = {"frazil.route": "a.b"}
        made: dict[str, dict[str, str]] = {"a.b_dead": own, "a.of_x": own, "a.mine": {}}
        schema = pa.schema([pa.field("n", pa.int64())])
        for ident, marks in made.items():
            await stores.catalog.create(ident, CreateTable(schema=schema, properties=marks))
        for table, value in (("a.of_x", "x"), ("a.mine", None), ("a.of_y", "y")):
            await claim_table(stores.metadata, RouteTable(route="a.b", table=table, value=value))
        (row,) = [row for row in await verbs.status() if row.table == "a.b"]
        assert row.feeds == ("a.mine", "a.of_x", "a.of_y")
        detail = await verbs.describe("a.b")
        assert [(fed.table, fed.value, fed.rows) for fed in detail.feeds] == [
            ("a.mine", None, 0),
            ("a.of_x", "x", 0),
            ("a.of_y", "y", None),
        ]
        await verbs.drop("a.b", purge=True)
        left = [await _is_there(stores.catalog, ident) for ident in made]
        assert left == [False, False, True]
        assert await list_route_tables(stores.metadata) == ()

    on_stores(tmp_path, work)


async def _is_there(catalog: Catalog, ident: str) -> bool:
    try:
        await catalog.load(ident)
    except Missing:
        return False
    return True
