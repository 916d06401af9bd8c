"""R16 over real HTTP: whatever a catalog answers to a commit, each record is in the table once. DuckDB and PyIceberg judge."""

from __future__ import annotations

import asyncio
import pathlib

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog as ForeignCatalog
from tests.standins.rest_catalog import RestCatalogDouble
from tests.unit.catalogs.restrig import PROPERTIES, opened, rigged, with_double
from tests.unit.catalogs.rig import IDENT, SCHEMA, Rig, assert_exactly_once, offsets, source

from frazil.catalogs import CreateTable
from frazil.catalogs.commit import Committed, Lost
from frazil.catalogs.kinds.rest import normal
from frazil.catalogs.progress import read_progress
from frazil.kit.errors import Conflict, Missing, OutcomeUnknown, Refused, RetryLater


def foreign_offsets(double: RestCatalogDouble) -> list[int]:
    """By PyIceberg's own REST client from the same server."""
    uri = {"uri": double.uri, "oauth2-server-uri": f"{double.uri}/v1/oauth/tokens", **PROPERTIES}
    table = ForeignCatalog("foreign", **uri).load_table(IDENT)
    return sorted(table.scan(selected_fields=("_offset",)).to_arrow()["_offset"].to_pylist())


async def both_judges(rig: Rig, double: RestCatalogDouble, end: int) -> None:
    assert_exactly_once(await rig.table(), end)
    assert await asyncio.to_thread(foreign_offsets, double) == list(range(end))
    assert (await rig.progress())[source()] == end


@pytest.mark.parametrize(
    "words",
    [
        ("ok",),
        ("409",),
        ("409/a",),
        ("429(0)",),
        ("503(0)",),
        ("500/n",),
        ("500/a",),
        ("502/n", "500/n"),
        ("504/a",),
        ("cut/n",),
        ("cut/a",),
        ("garbage/a",),
        ("401",),
        ("404",),
        ("late(0.2)",),
        ("late(0.4)", "cut/n", "500/n"),
        ("cut/n", "409", "500/a"),
    ],
    ids=" ".join,
)
def test_r16_any_answer_lands_each_record_once(tmp_path: pathlib.Path, words: tuple[str, ...]) -> None:
    async def work(double: RestCatalogDouble) -> None:
        async with rigged(double) as rig:
            await rig.land(10)
            double.script(*words)
            await rig.land(20)
            await asyncio.to_thread(double.settle)
            await both_judges(rig, double, 20)
            await rig.land(30)
            await both_judges(rig, double, 30)
            assert not double.faults, "a word was not met"

    with_double(tmp_path, work)


def test_r16_a_request_that_is_late_by_more_than_a_retry_is_applied_at_most_once(tmp_path: pathlib.Path) -> None:
    """The late copy arrives after the repeated request has won: its head assertion fails."""

    async def work(double: RestCatalogDouble) -> None:
        async with rigged(double) as rig:
            double.script("late(0.5)", "ok")
            await rig.land(10)
            await rig.land(20)
            await asyncio.to_thread(double.settle)
            assert [seen.status for seen in double.seen if seen.method == "LATE"] == [409]
            await both_judges(rig, double, 20)

    with_double(tmp_path, work)


def test_r16_a_catalog_that_hangs_is_an_unknown_outcome(tmp_path: pathlib.Path) -> None:
    async def work(double: RestCatalogDouble) -> None:
        async with rigged(double, properties={**PROPERTIES, "timeout-ms": "300"}) as rig:
            await rig.land(10)
            double.script("hang(1)")
            await rig.land(20)
            await both_judges(rig, double, 20)
            base = await rig.table()
            double.script("hang(1)")
            with pytest.raises(OutcomeUnknown, match="no answer within 300 ms"):
                await rig.inner.commit(IDENT, base, [], [{"action": "set-properties", "updates": {"a": "b"}}])

    with_double(tmp_path, work)


def test_of_two_processes_with_one_idea_one_lands(tmp_path: pathlib.Path) -> None:
    async def work(double: RestCatalogDouble) -> None:
        async with rigged(double, seed=3) as one, rigged(double, seed=4) as two:
            await one.land(10)
            base = await one.table()
            double.script("500/a")
            outcomes = await asyncio.gather(one.land_once(20, base=base), two.land_once(20, base=base))
            assert {type(outcome) for outcome in outcomes} == {Committed, Lost}
            await both_judges(one, double, 20)

    with_double(tmp_path, work)


def test_a_token_that_is_refused_in_the_middle_is_renewed_once(tmp_path: pathlib.Path) -> None:
    async def work(double: RestCatalogDouble) -> None:
        async with rigged(double) as rig:
            for end in range(10, 60, 10):
                double.expire_tokens()
                await rig.land(end)
            await both_judges(rig, double, 50)
            # One sign-in at first and one per expiry, besides those of the foreign reader.
            ours = [seen for seen in double.seen if seen.path.endswith("/oauth/tokens") and "python-httpx" in seen.headers["user-agent"]]
            assert len(ours) == 6

    with_double(tmp_path, work)


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("400", Refused),
        ("403", Refused),
        ("404", Missing),
        ("409", Conflict),
        ("429(7)", RetryLater),
        ("500/n", OutcomeUnknown),
        ("502/n", OutcomeUnknown),
        ("503(7)", OutcomeUnknown),
        ("504/a", OutcomeUnknown),
        ("cut/n", OutcomeUnknown),
        ("garbage/a", OutcomeUnknown),
    ],
)
def test_answers_to_a_commit(tmp_path: pathlib.Path, word: str, kind: type[Exception]) -> None:
    """Nothing is sent twice by the client: the committer decides about that."""

    async def work(double: RestCatalogDouble) -> None:
        async with opened(double) as catalog:
            base = await catalog.create(IDENT, CreateTable(schema=SCHEMA))
            before = double.count("POST", "/tables/")
            double.script(word)
            with pytest.raises(kind) as caught:
                await catalog.commit(IDENT, base, [], [{"action": "set-properties", "updates": {"a": "b"}}])
            assert type(caught.value) is kind
            assert double.count("POST", "/tables/") == before + 1
            if "(" in word:
                assert isinstance(caught.value, RetryLater)
                assert caught.value.after_ms == 7000
            if kind in (Refused, Conflict, Missing):
                assert f"scripted {word}" in str(caught.value), "the server's own words"

    with_double(tmp_path, work)


def test_a_refused_sign_in_is_tried_once_more_and_then_said(tmp_path: pathlib.Path) -> None:
    async def work(double: RestCatalogDouble) -> None:
        async with opened(double) as catalog:
            base = await catalog.create(IDENT, CreateTable(schema=SCHEMA))
            double.script("401", "401")
            with pytest.raises(Refused, match="scripted 401"):
                await catalog.commit(IDENT, base, [], [{"action": "set-properties", "updates": {"a": "b"}}])
            assert not double.faults

    with_double(tmp_path, work)


@pytest.mark.parametrize("word", ["500/a", "cut/a", "500/n", "cut/n"])
def test_a_create_whose_answer_is_lost(tmp_path: pathlib.Path, word: str) -> None:
    """Applied: the table is recognised as ours. Not applied: said as unknown, and the next try makes it."""

    async def work(double: RestCatalogDouble) -> None:
        async with opened(double) as catalog:
            await catalog.create("lake.other", CreateTable(schema=SCHEMA))
            double.create_faults.append(word)
            if word.endswith("a"):
                made = await catalog.create(IDENT, CreateTable(schema=SCHEMA))
            else:
                with pytest.raises(OutcomeUnknown):
                    await catalog.create(IDENT, CreateTable(schema=SCHEMA))
                made = await catalog.create(IDENT, CreateTable(schema=SCHEMA))
            assert made.metadata["properties"]["frazil.owns-location"] == made.location
            with pytest.raises(Conflict):
                await catalog.create(IDENT, CreateTable(schema=SCHEMA))

    with_double(tmp_path, work)


def test_a_location_with_other_files_is_not_taken_as_our_own(tmp_path: pathlib.Path) -> None:
    """A renamed table lives on where it was; care must never judge its files."""

    async def work(double: RestCatalogDouble) -> None:
        async with rigged(double) as rig:
            await rig.land(10)
            await rig.inner.drop(IDENT)
            again = await rig.inner.create(IDENT, CreateTable(schema=SCHEMA))
            assert "frazil.owns-location" not in again.metadata["properties"]
            assert (await rig.land(10)).table.uuid == again.uuid
            assert_exactly_once(await rig.table(), 10)

    with_double(tmp_path, work)


def test_foreign_writes_and_ours_in_turn(tmp_path: pathlib.Path) -> None:
    """PyIceberg appends through its own REST client; we load that, land on top, and it reads both."""

    async def work(double: RestCatalogDouble) -> None:
        async with rigged(double) as rig:
            await rig.land(10)

            def append() -> None:
                uri = {"uri": double.uri, "oauth2-server-uri": f"{double.uri}/v1/oauth/tokens", **PROPERTIES}
                table = ForeignCatalog("foreign", **uri).load_table(IDENT)
                table.append(pa.table({"_partition": [7], "_offset": [0], "text": ["v0"]}, schema=SCHEMA))

            await asyncio.to_thread(append)
            assert (await read_progress(rig.deps.objects, await rig.table()))[source()] == 10
            await rig.land(20)
            table = await rig.table()
            assert offsets(table) == list(range(20))
            assert offsets(table, 7) == [0]
            assert await asyncio.to_thread(foreign_offsets, double) == sorted([*range(20), 0])

    with_double(tmp_path, work)


def test_what_servers_leave_out_or_write_as_null() -> None:
    given = {"format-version": 2, "current-snapshot-id": -1, "refs": None, "snapshots": None, "statistics": None, "last-sequence-number": 3}
    assert normal(given) == {
        "format-version": 2,
        "properties": {},
        "snapshots": [],
        "snapshot-log": [],
        "metadata-log": [],
        "refs": {},
        "last-sequence-number": 3,
    }
    assert normal({**given, "current-snapshot-id": 7})["current-snapshot-id"] == 7
