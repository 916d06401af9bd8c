"""F44, F45, F47, F72–F74: names, partitions, and what many of them cost."""

from __future__ import annotations

import datetime
import re
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.table import StaticTable
from pyiceberg.transforms import BucketTransform
from tests.failures.registry import Case, Naive, Planted, failure, must
from tests.failures.stories import js, play
from tests.simulation.loop import run_virtual
from tests.unit.catalogs.rig import Rig, rig, source
from tests.unit.catalogs.test_layout import ROWS, by, creation, made
from tests.unit.catalogs.test_specs import foreign
from tests.unit.landing.world import World

from frazil.catalogs import Landed
from frazil.catalogs import parquet as our_parquet
from frazil.catalogs import write as catalog_write
from frazil.catalogs.commit import Committed, Committer
from frazil.catalogs.layout import Layout
from frazil.catalogs.progress import Move
from frazil.catalogs.schema import leaves
from frazil.catalogs.transforms import keys_of, parse_transform
from frazil.metadata.landings import list_statuses

# --- F44 --------------------------------------------------------------------------------------------------------------


def cleaned(topics: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Everything a catalog might not take becomes an underscore, in lower case."""
    tables: dict[str, list[str]] = {}
    for topic in topics:
        tables.setdefault(re.sub(r"[^a-z0-9]", "_", topic.lower()), []).append(topic)
    return tables, []


def mapped(topics: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    found: list[tuple[dict[str, list[str]], list[str]]] = []

    async def story(world: World) -> None:
        for topic in topics:
            await world.topics.create(topic, 1)
            await world.produce(topic, [js(topic=topic)])
        await world.land()
        tables = {}
        for table in await world.catalog().list("default"):
            tables[table] = sorted({row["topic"] for row in await world.rows(table)})
        loud = [one.topic for one in await list_statuses(world.store) if one.state == "failed"]
        found.append((tables, loud))

    play(story)
    return found[0]


@failure(
    "F44",
    title="Names that a catalog or a file format does not take",
    others="clean names, so that two topics end in one table, and put raw names into Avro schemas and paths",
    promise="the mapping keeps apart what Kafka keeps apart; a name that would still collide is refused, loudly, and the others land",
    prevented=("frazil.landing.discover:auto_table", "frazil.landing.discover:discover", "frazil.catalogs.avronames:avro_name"),
    wrong=Naive("whatever is not a letter or digit becomes an underscore", cleaned, mapped),
)
def test_f44_no_two_topics_in_one_table(case: Case) -> None:
    topics = ["orders.v1", "orders-v1", "orders_v1", "Orders", "orders__v1"]
    tables, loud = case.way(topics)
    must(all(len(inside) == 1 for inside in tables.values()), "EO", tables)
    must(sorted([one for inside in tables.values() for one in inside] + loud) == sorted(topics), "LOUD", (tables, loud))


# --- F45 --------------------------------------------------------------------------------------------------------------


def spec_of_today(patch: pytest.MonkeyPatch) -> None:
    original = Committer.commit

    async def commit(self: Committer, landed: Landed) -> Any:
        table = await self.catalog.load(landed.base.ident)
        spec_id = int(table.metadata["default-spec-id"])
        files = [replace(file, spec_id=spec_id, partition=file.partition if file.spec_id == spec_id else (0,)) for file in landed.files]
        return await original(self, replace(landed, base=table, files=files))

    patch.setattr(Committer, "commit", commit)


@failure(
    "F45",
    title="The partition layout changes under a running writer",
    others="let writer and committer use different specs, or leave partition values out of the manifests",
    promise="a file is committed under the spec it was written with, with the values computed from its rows",
    prevented=("frazil.catalogs.write:FileWriter", "frazil.catalogs.manifests:ManifestCodec", "frazil.catalogs.files:DataFile"),
    wrong=Planted("files are committed under the table's spec of that moment", spec_of_today),
)
def test_f45_a_file_keeps_its_layout(case: Case) -> None:
    async def run() -> None:
        it = await rig(case.path)
        base, _ = await made(it, ROWS, Layout(partition=by("day(ts)")))
        late = await it.writer.write(base, ROWS)
        with foreign(it) as theirs, theirs.catalog.load_table("lake.laid").update_spec() as update:
            update.add_field("id", BucketTransform(4), "id_bucket").remove_field("ts_day")
        outcome = await it.committer.commit(Landed(base=base, files=late, moves={source(): Move(None, 12)}))
        assert isinstance(outcome, Committed)
        static = StaticTable.from_metadata(outcome.table.metadata_location)
        for row in ROWS.to_pylist():
            found = static.scan(row_filter=EqualTo("id", row["id"])).to_arrow().num_rows
            must(found == 2, "READ", f"{found} rows with id {row['id']}, two were written")

    run_virtual(run())


# --- F47 --------------------------------------------------------------------------------------------------------------

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
OLD = (datetime.datetime(1969, 12, 31, 23, 59, 59, tzinfo=datetime.UTC), datetime.datetime(1965, 6, 15, 12, tzinfo=datetime.UTC))
EXPECTED = {"year": [-1, -5], "month": [-1, -55], "day": [-1, -1661], "hour": [-1, -39852]}


def toward_zero(unit: str) -> list[int]:
    """Division rounds toward zero, in the host's zone (Asia/Kolkata here)."""
    seconds = [(time - EPOCH).total_seconds() + 19_800 for time in OLD]
    return [int(one / {"year": 31_557_600, "month": 2_629_800, "day": 86_400, "hour": 3_600}[unit]) for one in seconds]


def floored(unit: str) -> list[int]:
    column = pa.array(OLD, pa.timestamp("us", tz="UTC"))
    return list(keys_of(parse_transform(unit), "timestamptz", column).array.to_pylist())


@failure(
    "F47",
    title="Days before 1970, and the writer's zone, in partition values",
    others="round toward zero and use local time, so that filters miss rows",
    promise="partition values are rounded down, in UTC, as the specification has them",
    prevented=("frazil.catalogs.transforms:keys_of",),
    wrong=Naive("integer division in local time", toward_zero, floored),
)
def test_f47_times_before_1970(case: Case) -> None:
    for unit, wanted in EXPECTED.items():
        must(case.way(unit) == wanted, "READ", f"{unit}: {case.way(unit)}, not {wanted}")


# --- F72 --------------------------------------------------------------------------------------------------------------


async def commit_each(it: Rig, table: Any, files: Any) -> None:
    """A commit for every partition that has something."""
    for file in files:
        await it.committer.commit(Landed(base=await it.inner.load("lake.laid"), files=(file,)))


async def commit_once(it: Rig, table: Any, files: Any) -> None:
    await it.committer.commit(Landed(base=table, files=files))


@failure(
    "F72",
    title="20,000 partitions",
    others="spend files, requests and commits in proportion to the partitions that are touched",
    promise="one commit for all partitions of a slice: two requests per file and ten more; the status says when a coarser layout is due",
    prevented=("frazil.catalogs.write:FileWriter", "frazil.landing.commit:commit_slice", "frazil.landing.layout:advice"),
    wrong=Naive("a commit per partition", commit_each, commit_once),
)
def test_f72_requests_of_a_commit(case: Case) -> None:
    async def run() -> None:
        it = await rig(case.path)
        table = await it.inner.create("lake.laid", creation(pa.schema([("id", pa.int64())]), Layout(partition=by("id"))))
        requests = 0
        objects = it.deps.objects
        put, get = objects.put_if_absent, objects.get

        async def counted_put(key: str, data: Any) -> None:
            nonlocal requests
            requests += 1
            await put(key, data)

        async def counted_get(key: str, **span: Any) -> bytes:
            nonlocal requests
            requests += 1
            return await get(key, **span)

        objects.put_if_absent, objects.get = counted_put, counted_get  # type: ignore[method-assign,assignment]
        files = await it.writer.write(table, pa.table({"id": pa.array(range(40), pa.int64())}))
        await case.way(it, table, files)
        must(requests <= 2 * len(files) + 10, "BOUND", f"{requests} requests for {len(files)} files")

    run_virtual(run())


# --- F73 --------------------------------------------------------------------------------------------------------------


class CountedWriter(pq.ParquetWriter):  # type: ignore[misc]  # the library has no types
    """A Parquet writer that is counted while it is open."""

    open_now = most = 0

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        CountedWriter.open_now += 1
        CountedWriter.most = max(CountedWriter.most, CountedWriter.open_now)

    def close(self) -> None:
        if self.is_open:
            CountedWriter.open_now -= 1
        super().close()


async def writer_each(it: Rig, table: Any, rows: pa.Table) -> int:
    """An open writer for every partition that was met, closed at the end."""
    writers = {}
    for at in range(rows.num_rows):
        key = rows["id"][at].as_py()
        if key not in writers:
            writers[key] = CountedWriter(pa.BufferOutputStream(), rows.schema)
        writers[key].write_table(rows.slice(at, 1))
    for writer in writers.values():
        writer.close()
    return rows.num_rows


async def sorted_first(it: Rig, table: Any, rows: pa.Table) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(our_parquet.pq, "ParquetWriter", CountedWriter)
        return sum(file.record_count for file in await it.writer.write(table, rows))


@failure(
    "F73",
    title="A writer per partition during a backlog",
    others="keep a writer with column buffers for every partition; run out of memory, or evict without closing and lose rows",
    promise="rows are grouped first and files written one after the other in a few lanes, however many partitions there are",
    prevented=("frazil.catalogs.write:FileWriter", "frazil.catalogs.write:LANES"),
    wrong=Naive("a writer stays open for each partition", writer_each, sorted_first),
)
def test_f73_open_writers_are_few(case: Case) -> None:
    async def run() -> None:
        it = await rig(case.path)
        schema = pa.schema([("id", pa.int64()), ("text", pa.string())])
        table = await it.inner.create("lake.laid", creation(schema, Layout(partition=by("id"))))
        rows = pa.table({"id": [at % 150 for at in range(600)], "text": ["x"] * 600}, schema=schema)
        CountedWriter.open_now = CountedWriter.most = 0
        must(await case.way(it, table, rows) == 600, "EO", "all rows are written")
        must(CountedWriter.most <= catalog_write.LANES, "BOUND", f"{CountedWriter.most} writers were open at once")
        must(CountedWriter.open_now == 0, "BOUND", "all are closed")

    run_virtual(run())


# --- F74 --------------------------------------------------------------------------------------------------------------


def every_column(patch: pytest.MonkeyPatch) -> None:
    def lengths(schema: Any, properties: Any, **_: Any) -> dict[int, int]:
        return {leaf.field_id: 16 for leaf in leaves(schema["fields"])}

    patch.setattr(catalog_write, "metrics_lengths", lengths)


@failure(
    "F74",
    title="The control message or the commit request grows too big",
    others="put all files with statistics of all columns into one message",
    promise="nothing but the table's own files lists files; statistics are limited by columns and files, or by the table's own properties",
    prevented=("frazil.catalogs.writeoptions:metrics_lengths", "frazil.catalogs.manifests:ManifestCodec"),
    wrong=Planted("every column of every file has statistics", every_column),
)
def test_f74_a_commit_of_many_files_stays_small(case: Case) -> None:
    async def run() -> None:
        it = await rig(case.path)
        columns: dict[str, Any] = {f"c{at}": pa.repeat(f"text of the column {at}", 30) for at in range(300)}
        rows = pa.table({**columns, "p": pa.array(range(30), pa.int32())})
        _, files = await made(it, rows, Layout(partition=by("p")))
        most = max(len(file.lower_bounds) for file in files)
        must(most <= 101, "BOUND", f"bounds of {most} columns in each of {len(files)} files")

    run_virtual(run())
