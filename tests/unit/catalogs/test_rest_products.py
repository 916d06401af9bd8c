"""Products behind the REST protocol by their documented and measured rules: Nessie, Polaris, read-only catalogs, throttles."""

from __future__ import annotations

import asyncio
import pathlib
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

import pytest
from pyiceberg.catalog.rest import RestCatalog as ForeignCatalog
from pyiceberg.table import StaticTable
from tests.standins.flattened import Flattened
from tests.standins.rest_catalog import DoubleRules, RestCatalogDouble
from tests.unit.catalogs.restrig import PROPERTIES, RULES, deps, opened, rigged, with_double
from tests.unit.catalogs.rig import IDENT, SCHEMA, make, rows, source

from frazil.catalogs import Catalog, CreateTable
from frazil.catalogs.care import Care, CareSettings
from frazil.catalogs.commit import Committed, Lost
from frazil.catalogs.history import Keep
from frazil.catalogs.port import JsonObject, LoadedTable
from frazil.kit.errors import Refused, RetryLater

Work = Callable[[RestCatalogDouble], Coroutine[Any, Any, None]]


def assert_exactly_once(table: LoadedTable, end: int) -> None:
    """Offsets of partition 0 are those below ``end``, each once, by PyIceberg's reader."""
    found = StaticTable.from_metadata(table.metadata_location).scan(row_filter="_partition = 0").to_arrow()
    assert sorted(found["_offset"].to_pylist()) == list(range(end))


async def foreign_append(double: RestCatalogDouble) -> None:
    """PyIceberg's own client appends: its snapshot carries none of our words."""

    def append() -> None:
        given = {"uri": double.uri, "oauth2-server-uri": f"{double.uri}/v1/oauth/tokens", **PROPERTIES}
        table = ForeignCatalog("theirs", **given).load_table(IDENT)
        table.append(rows(0, 5, partition=7))

    await asyncio.to_thread(append)


def test_progress_holds_where_only_the_newest_snapshot_is_shown(tmp_path: pathlib.Path) -> None:
    """Nessie: after a foreign commit no snapshot of ours is left to be seen, and without the property the log would be landed twice."""

    async def work(double: RestCatalogDouble) -> None:
        async with rigged(double) as rig:
            await rig.land(10)
            await rig.land(20)
            await foreign_append(double)
            table = await rig.table()
            assert len(table.metadata["snapshots"]) == 1 and not table.metadata["snapshots"][0].get("parent-snapshot-id")
            assert (await rig.progress())[source()] == 20
            await rig.land(40)
            assert_exactly_once(await rig.table(), 40)

    with_double(tmp_path, work, replace(RULES, nessie=True))


class Interrupted(Flattened):
    """Between the next commit and the next look at the table somebody else commits to it."""

    def __init__(self, inner: Catalog, double: RestCatalogDouble) -> None:
        super().__init__(inner, "", ".")
        self._double = double
        self.armed = False
        self._committed = False

    async def commit(self, ident: str, base: LoadedTable, requirements: Sequence[JsonObject], updates: Sequence[JsonObject]) -> LoadedTable:
        made = await super().commit(ident, base, requirements, updates)
        self._committed = self.armed
        return made

    async def load(self, ident: str) -> LoadedTable:
        if self._committed:
            self.armed = self._committed = False
            await foreign_append(self._double)
        return await super().load(ident)


@pytest.mark.parametrize("word", ["C-cut/a", "C-409/a", "C-5xx/a"])
def test_a_lost_answer_under_a_foreign_commit_there_lands_nothing_twice(tmp_path: pathlib.Path, word: str) -> None:
    """Our commit was applied, the answer was an error, and somebody's commit hides it before we look: no file of ours may be called an
    orphan, and the rows are there once.
    """

    async def work(double: RestCatalogDouble) -> None:
        async with opened(double) as catalog:
            await catalog.create(IDENT, CreateTable(schema=SCHEMA))
            between = Interrupted(catalog, double)
            rig = make(replace(deps(), objects=catalog.objects or deps().objects), between, script=("ok", word))
            await rig.land(10)
            base = await rig.table()
            between.armed = True
            outcome = await rig.land_once(20, base=base)
            assert isinstance(outcome, Lost) and not outcome.orphans and not between.armed
            assert (await rig.progress())[source()] == 20
            await rig.land(30)
            assert_exactly_once(await rig.table(), 30)

    with_double(tmp_path, work, replace(RULES, nessie=True))


def test_a_deleted_property_is_refused_where_nothing_can_make_it_up(tmp_path: pathlib.Path) -> None:
    async def work(double: RestCatalogDouble) -> None:
        async with rigged(double) as rig:
            await rig.land(10)
            await foreign_append(double)
            base = await rig.table()
            removal = {"action": "remove-properties", "removals": ["frazil.progress"]}
            await rig.inner.commit(IDENT, base, [], [removal])
            with pytest.raises(Refused, match="cannot be established"):
                await rig.land(20)

    with_double(tmp_path, work, replace(RULES, nessie=True))


def test_nothing_is_expired_or_deleted_under_gc_enabled_false(tmp_path: pathlib.Path) -> None:
    """Other branches of Nessie name the files too."""

    async def work(double: RestCatalogDouble) -> None:
        async with rigged(double) as rig:
            for end in range(10, 60, 10):
                await rig.land(end)
            settings = CareSettings(keep=Keep(last=1, hours=0, days=0), expire_batch=1, delete_grace_ms=0, metadata_grace_ms=0)
            care = Care(rig.committer, settings)
            before = {path for path in (tmp_path / "warehouse").rglob("*") if path.is_file()}
            for _ in range(3):
                report = await care.pass_once(IDENT)
                assert (report.expired, report.condemned, report.deleted) == (0, 0, 0)
            assert before <= set((tmp_path / "warehouse").rglob("*"))

    with_double(tmp_path, work, replace(RULES, nessie=True))


def test_f67_everything_is_inside_the_location_that_the_catalog_chose(tmp_path: pathlib.Path) -> None:
    """Polaris refuses other places."""

    async def work(double: RestCatalogDouble) -> None:
        async with rigged(double) as rig:
            await rig.land(10)
            await rig.land(20)
            assert_exactly_once(await rig.table(), 20)

    with_double(tmp_path, work, replace(RULES, inside=True))


def test_f67_a_read_only_catalog_is_refused_before_anything_is_uploaded(tmp_path: pathlib.Path) -> None:
    async def work(double: RestCatalogDouble) -> None:
        async with rigged(double) as rig:
            await rig.land(10)
        double.rules = replace(double.rules, read_only=True)
        there = sorted((tmp_path / "warehouse").rglob("*"))
        async with rigged(double, seed=5) as rig:
            assert (await rig.table()).read_only
            with pytest.raises(Refused, match="read-only for Iceberg clients"):
                await rig.land(20)
        async with opened(double, seed=6) as catalog:
            with pytest.raises(Refused, match="read-only for Iceberg clients"):
                await catalog.create("lake.other", CreateTable(schema=SCHEMA))
        assert sorted((tmp_path / "warehouse").rglob("*")) == there

    with_double(tmp_path, work)


def test_f66_no_request_before_the_time_that_the_catalog_named(tmp_path: pathlib.Path) -> None:
    async def work(double: RestCatalogDouble) -> None:
        async with rigged(double) as rig:
            table = await rig.table()
            double.script("429(1)")
            update = [{"action": "set-properties", "updates": {"one": "1"}}]
            with pytest.raises(RetryLater):
                await rig.inner.commit(IDENT, table, [], update)
            asked = len(double.seen)
            for _ in range(3):
                with pytest.raises(RetryLater, match="asked to wait") as raised:
                    await rig.table()
                assert 0 < raised.value.after_ms <= 1001
            assert len(double.seen) == asked
            await asyncio.sleep(1)
            await rig.land(10)
            assert_exactly_once(await rig.table(), 10)

    with_double(tmp_path, work)


@pytest.mark.parametrize("status", [401, 403, 419])
def test_f64_an_ended_token_is_renewed_however_it_is_said(tmp_path: pathlib.Path, status: int) -> None:
    async def work(double: RestCatalogDouble) -> None:
        async with rigged(double) as rig:
            await rig.land(10)
            issued = len(double.issued)
            double.say(status, "the access token has expired")
            await rig.land(20)
            assert len(double.issued) == issued + 1
            assert_exactly_once(await rig.table(), 20)

    with_double(tmp_path, work)


def test_f64_a_bad_secret_is_said_with_the_word_credential(tmp_path: pathlib.Path) -> None:
    async def work(double: RestCatalogDouble) -> None:
        async with opened(double, {"credential": "an-id:another-secret", "scope": "all-apis"}) as catalog:
            with pytest.raises(Refused, match="credential") as raised:
                await catalog.load(IDENT)
            assert "another-secret" not in str(raised.value)

    with_double(tmp_path, work, DoubleRules(client_id="an-id", client_secret="a-secret-text", scope="all-apis"))


def test_f66_a_conflict_that_is_sent_as_400_is_found_out_by_looking(tmp_path: pathlib.Path) -> None:
    """Polaris sent conflicts as 400 (polaris#5138): the table tells what it was."""

    async def work(double: RestCatalogDouble) -> None:
        async with rigged(double) as rig, rigged(double, seed=9) as other:
            await rig.land(10)
            base = await rig.table()
            await other.land(20, partition=1)
            double.script("400")
            outcome = await rig.land_once(20, base=base)
            assert isinstance(outcome, Committed)
            assert_exactly_once(await rig.table(), 20)

    with_double(tmp_path, work)
