"""A real REST catalog over a real object store: SeaweedFS. Who signs in how, who reads what, what faults and ended keys do there."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog as ForeignCatalog
from tests.servers import ACCESS_KEY, BUCKET, READER_KEY, READER_SECRET, REGION, SECRET_KEY, SeaweedFs
from tests.standins.rest_catalog import DoubleRules, RestCatalogDouble
from tests.unit.catalogs.restrig import PROPERTIES, RULES, deps
from tests.unit.catalogs.rig import SCHEMA, Rig, make, rows, source

from frazil.catalogs import Catalog, CreateTable, Landed, open_catalog
from frazil.catalogs.care import Care, CareSettings
from frazil.catalogs.commit import Committed
from frazil.catalogs.history import Keep
from frazil.catalogs.port import LoadedTable
from frazil.catalogs.progress import Move, SourcePartition, named_object, read_progress
from frazil.catalogs.scan import Span, live_files, read_rows
from frazil.kit.errors import Conflict, OutcomeUnknown, Refused
from frazil.kit.tasks import ThreadOffload
from frazil.query import TableSource
from frazil.query.platforms.duckdb import DuckdbPlatform

pytestmark = pytest.mark.server

OAUTH = {"credential": f"{ACCESS_KEY}:{SECRET_KEY}", "warehouse": "s3://lake"}
SIGNED = {
    "rest.sigv4-enabled": "true",
    "rest.signing-name": "s3tables",
    "rest.signing-region": REGION,
    "client.access-key-id": ACCESS_KEY,
    "client.secret-access-key": SECRET_KEY,
    "warehouse": "s3://lake",
}


def static(server: SeaweedFs) -> dict[str, str]:
    """Keys of our own to the tables' files."""
    return {
        "s3.endpoint": server.s3,
        "s3.region": REGION,
        "s3.access-key-id": ACCESS_KEY,
        "s3.secret-access-key": SECRET_KEY,
        "vended-credentials": "false",
    }


def ways(server: SeaweedFs) -> Mapping[str, Mapping[str, str]]:
    return {"oauth2 vended": OAUTH, "oauth2 static": {**OAUTH, **static(server)}, "sigv4 vended": SIGNED}


SEEDS = itertools.count(10, 10)
"""Two processes of one seed would give their files the same names in the same millisecond."""


@asynccontextmanager
async def lake(uri: str, properties: Mapping[str, str], table: str, *, script: Sequence[str] = ()) -> AsyncIterator[Rig]:
    offload = ThreadOffload("test")
    mine = replace(deps(), offload=offload)
    catalog = open_catalog(f"rest+{uri}", mine, properties)
    try:
        ident = f"it.{table}"
        if ident not in await catalog.list("it"):
            await catalog.create(ident, CreateTable(schema=SCHEMA))
        rig = make(replace(mine, objects=catalog.objects or mine.objects), catalog, seed=next(SEEDS), script=script)
        yield Named(**{name: getattr(rig, name) for name in ("deps", "inner", "catalog", "writer", "committer")}, ident=ident)
    finally:
        await catalog.close()
        offload.close()


class Named(Rig):
    """A rig of a table of its own."""

    def __init__(self, *, ident: str, **parts: Any) -> None:
        super().__init__(**parts)
        self.ident = ident

    async def table(self) -> LoadedTable:
        return await self.inner.load(self.ident)


async def by_duckdb(catalog: Catalog, table: LoadedTable, partition: int = 0) -> list[int]:
    """Through the platform that `frazil sql` uses: an S3 secret from what the catalog said."""
    found = TableSource(
        name=table.ident, metadata_location=table.metadata_location, location=table.location, storage=await catalog.reading(table)
    )
    question = f"SELECT _offset, text FROM {table.ident} WHERE _partition = {partition} ORDER BY 1"
    answer = await asyncio.to_thread(DuckdbPlatform().run, question, [found])
    assert [text for _, text in answer.rows] == [f"v{offset}" for offset, _ in answer.rows]
    return [int(str(offset)) for offset, _ in answer.rows]


def foreign(server: SeaweedFs) -> ForeignCatalog:
    """PyIceberg's own client of the same catalog."""
    return ForeignCatalog(
        "foreign", uri=server.catalog, **{"oauth2-server-uri": server.token_url, **OAUTH, **static(server), "vended-credentials": ""}
    )


def by_pyiceberg(server: SeaweedFs, ident: str, partition: int = 0) -> list[int]:
    table = foreign(server).load_table(ident).scan(row_filter=f"_partition = {partition}").to_arrow()
    return sorted(table["_offset"].to_pylist())


@pytest.mark.parametrize("way", ["oauth2 vended", "oauth2 static", "sigv4 vended"])
def test_lost_answers_and_late_commits_land_each_record_once(seaweedfs: SeaweedFs, way: str) -> None:
    """R16 on a real catalog: the faults are between us and it, the state is its own."""
    script = ("ok", "C-cut/a", "C-5xx/n", "C-409/a", "C-late(0.3)", "C-cut/n", "C-409", "C-429", "C-late(1)")

    async def work() -> None:
        async with lake(seaweedfs.catalog, ways(seaweedfs)[way], way.replace(" ", "_"), script=script) as rig:
            for end in range(10, 90, 10):
                await rig.land(end)
            await rig.catalog.settle()
            await rig.land(90)
            table = await rig.table()
            assert await by_duckdb(rig.inner, table) == list(range(90))
            assert await asyncio.to_thread(by_pyiceberg, seaweedfs, table.ident) == list(range(90))
            assert (await rig.progress())[source()] == 90
            assert set(script) == set(rig.catalog.met) - {name for name in rig.catalog.met if name.startswith("late request")}

    asyncio.run(work())


def test_two_writers_on_one_head_and_a_foreign_one(seaweedfs: SeaweedFs) -> None:
    """The catalog's own compare-and-swap: of rivals one wins; PyIceberg's appends and ours take turns."""

    async def work() -> None:
        async with lake(seaweedfs.catalog, OAUTH, "rivals") as one, lake(seaweedfs.catalog, OAUTH, "rivals") as two:
            await one.land(10)
            base = await one.table()
            outcomes = await asyncio.gather(one.land_once(20, base=base), two.land_once(20, base=base))
            assert sorted(isinstance(outcome, Committed) for outcome in outcomes) == [False, True]

            def append() -> None:
                foreign(seaweedfs).load_table("it.rivals").append(rows(0, 5, partition=7))

            await asyncio.gather(asyncio.to_thread(append), one.land(30))
            await two.land(40)
            table = await one.table()
            assert await by_duckdb(one.inner, table) == list(range(40))
            assert await by_duckdb(one.inner, table, 7) == list(range(5))
            assert await asyncio.to_thread(by_pyiceberg, seaweedfs, "it.rivals", 7) == list(range(5))

    asyncio.run(work())


def test_r16_the_very_first_commit_and_one_that_is_late_after_a_rollback(seaweedfs: SeaweedFs) -> None:
    """What R16 leans on: "no snapshot yet" is asserted too, and a sequence number is given once, even over a rollback."""

    async def work() -> None:
        async with lake(seaweedfs.catalog, OAUTH, "first") as one, lake(seaweedfs.catalog, OAUTH, "first") as two:
            base = await one.table()
            outcomes = await asyncio.gather(*(rig.land_once(10, base=base) for rig in (one, two)))
            assert sorted(isinstance(outcome, Committed) for outcome in outcomes) == [False, True]
            base = await one.table()
            first = base.metadata["current-snapshot-id"]
            requests: list[tuple[Any, Any]] = []
            through = one.inner.commit

            async def keep(ident: str, on: LoadedTable, requirements: Any, updates: Any) -> LoadedTable:
                requests.append((requirements, updates))
                raise OutcomeUnknown("cut")

            one.committer.catalog = Kept(one.inner, keep)
            waiting = asyncio.ensure_future(one.land_once(20, base=base))
            while not requests:
                await asyncio.sleep(0.01)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            await two.land(20)
            back = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": first}
            await through("it.first", await one.table(), [], [back])
            with pytest.raises((Conflict, Refused)):
                await through("it.first", base, *requests[0])
            assert await by_duckdb(two.inner, await two.table()) == list(range(10))

    asyncio.run(work())


class Kept(Catalog):
    """Another commit, the rest as it is."""

    def __init__(self, inner: Catalog, commit: Any) -> None:
        self.load, self.create, self.list, self.drop = inner.load, inner.create, inner.list, inner.drop  # type: ignore[method-assign]
        self.commit = commit  # type: ignore[method-assign]


def test_a_table_of_pyiceberg_is_read_and_landed_in(seaweedfs: SeaweedFs) -> None:
    def make_table() -> None:
        catalog = foreign(seaweedfs)
        catalog.create_namespace_if_not_exists("it")
        catalog.create_table("it.theirs", schema=SCHEMA).append(rows(100, 150, partition=3))

    async def work() -> None:
        await asyncio.to_thread(make_table)
        async with lake(seaweedfs.catalog, OAUTH, "theirs") as rig:
            table = await rig.table()
            assert await read_progress(rig.deps.objects, table) == {}
            assert [file.record_count for file in await live_files(rig.deps.objects, table)] == [50]
            found = await read_rows(rig.deps.objects, table, ["_offset"], Span(column="_offset", low=120, high=130))
            assert {120, 129} <= set(found["_offset"].to_pylist())
            await rig.land(10)
            table = await rig.table()
            assert await by_duckdb(rig.inner, table) == list(range(10))
            assert "frazil.owns-location" not in table.metadata["properties"], "what others made, others sweep"

    asyncio.run(work())


def test_care_and_large_progress(seaweedfs: SeaweedFs) -> None:
    """Side objects are taken by a bucket that is strict about names; expired snapshots' files go, the rest stays readable."""

    async def work() -> None:
        async with lake(seaweedfs.catalog, OAUTH, "cared") as rig:
            await rig.land(10)
            base = await rig.table()
            many = {SourcePartition("c/1", source().topic_id, at): Move(None, 10**9 + at) for at in range(400)}
            wide = await rig.committer.commit(Landed(base=base, moves=many))
            assert isinstance(wide, Committed)
            head = next(item for item in wide.table.metadata["snapshots"] if item["snapshot-id"] == wide.snapshot_id)
            assert (named_object(head["summary"]) or "").endswith(".stats")
            for end in range(20, 90, 10):
                await rig.land(end)
            settings = CareSettings(
                keep=Keep(last=3, hours=0, days=0),
                manifests_max=4,
                delete_grace_ms=0,
                metadata_grace_ms=0,
                data_sweep_interval_ms=0,
                expire_batch=1,
            )
            care = Care(rig.committer, settings)
            reports = [await care.pass_once("it.cared") for _ in range(3)]
            assert sum(report.expired for report in reports) >= 5
            assert sum(report.deleted for report in reports) >= 5
            await rig.land(100)
            table = await rig.table()
            assert await by_duckdb(rig.inner, table) == list(range(100))
            progress = await rig.progress()
            assert len(progress) == 401 and progress[source()] == 100

    asyncio.run(work())


@pytest.mark.parametrize("shape", ["config", "storage-credentials", "endpoint"])
def test_keys_that_end_or_are_withdrawn_during_a_run(seaweedfs: SeaweedFs, tmp_path: Path, shape: str) -> None:
    """The double vends: good keys with a life of two seconds, then keys that may not write, then good ones again."""
    vended: list[str] = []
    bad = {3}

    def vend(_: str, location: str) -> Mapping[str, Any]:
        number = len(vended)
        key, secret = (READER_KEY, READER_SECRET) if number in bad else (ACCESS_KEY, SECRET_KEY)
        vended.append(key)
        given = {
            "s3.access-key-id": key,
            "s3.secret-access-key": secret,
            "s3.session-token-expires-at-ms": str(int(time.time() * 1000) + 2_000),
        }
        where = {"s3.endpoint": seaweedfs.s3, "s3.region": REGION}
        if shape == "config":
            return {"config": {**where, **given}}
        return {"config": where, "storage-credentials": [{"prefix": f"{location}/", "config": given}]}

    rules = DoubleRules(
        client_id=RULES.client_id,
        client_secret=RULES.client_secret,
        token_seconds=3.0,
        delegation=shape != "endpoint",
        credentials_endpoint=shape == "endpoint",
        root=f"s3://{BUCKET}/{seaweedfs.new_prefix()}",
        io={name: text for name, text in static(seaweedfs).items() if name.startswith("s3.")},
    )

    async def work(uri: str) -> None:
        async with lake(uri, PROPERTIES, "vended", script=("ok", "C-cut/a", "C-late(0.2)")) as rig:
            for end in range(10, 130, 10):
                await rig.land(end)
                await asyncio.sleep(0.3)
            table = await rig.table()
            assert await by_duckdb(rig.inner, table) == list(range(120))
            await asyncio.sleep(2.2)  # no load before the next read: access is renewed by itself
            assert await rig.deps.objects.get(table.metadata_location)
            assert (await rig.progress())[source()] == 120

    with RestCatalogDouble(tmp_path, rules, vend=vend) as double:
        asyncio.run(work(double.uri))
        assert READER_KEY in vended and len(vended) > 5
        assert len(double.issued) >= 2, "the catalog's token ended too"
        if shape == "endpoint":
            assert double.count("GET", "/credentials") >= 1


def test_names_a_catalog_does_not_take_are_refused_with_its_words(seaweedfs: SeaweedFs) -> None:
    async def work() -> None:
        async with lake(seaweedfs.catalog, OAUTH, "plain") as rig:
            with pytest.raises(Refused, match="table name must start with a letter or digit"):
                await rig.inner.create("it.Upper", CreateTable(schema=pa.schema([("a", pa.int32())])))

    asyncio.run(work())
