"""Files of partitioned and sorted tables: one per partition, values in manifests, names, sizes, evolution; readers find every row."""

from __future__ import annotations

import asyncio
import datetime
import io
import json
import pathlib
import random
import struct
import subprocess
import sys
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import EqualTo, GreaterThanOrEqual, IsNull
from pyiceberg.table import StaticTable
from pyiceberg.transforms import BucketTransform, DayTransform
from tests.simulation.loop import run_virtual
from tests.unit.catalogs.rig import Rig, connect, rig, source
from tests.unit.catalogs.test_specs import foreign

from frazil.catalogs import CreateTable, Landed, LoadedTable
from frazil.catalogs.avronames import avro_name
from frazil.catalogs.care import Care, CareSettings
from frazil.catalogs.commit import Committed
from frazil.catalogs.files import DataFile
from frazil.catalogs.layout import Layout, PartitionField, SortField, order_of_new_table, plan_layout, spec_of_new_table
from frazil.catalogs.metadata_json import current_schema
from frazil.catalogs.progress import Move
from frazil.catalogs.schema import new_schema
from frazil.catalogs.transforms import parse_transform
from frazil.catalogs.writeoptions import metrics_lengths
from frazil.kit.errors import Refused, RetryLater

UTC = datetime.UTC


def by(*fields: str) -> tuple[PartitionField, ...]:
    """``day(ts)`` → a field."""
    found = []
    for field in fields:
        transform, _, column = field.rstrip(")").rpartition("(")
        found.append(PartitionField(column=column, transform=parse_transform(transform or "identity")))
    return tuple(found)


def creation(schema: pa.Schema, layout: Layout, **properties: str) -> CreateTable:
    numbered = new_schema(schema)
    return CreateTable(
        schema=schema,
        properties=properties,
        partition_spec=spec_of_new_table(layout, numbered),
        sort_order=order_of_new_table(layout, numbered),
    )


async def made(it: Rig, rows: pa.Table, layout: Layout, **properties: str) -> tuple[LoadedTable, tuple[DataFile, ...]]:
    """A table with the rows in it, and its files."""
    table = await it.inner.create("lake.laid", creation(rows.schema, layout, **properties))
    files = await it.writer.write(table, rows)
    outcome = await it.committer.commit(Landed(base=table, files=files))
    assert isinstance(outcome, Committed)
    return outcome.table, files


async def change(it: Rig, table: LoadedTable, layout: Layout) -> LoadedTable:
    planned = plan_layout(table, current_schema(table.metadata), layout)
    assert planned is not None
    return await it.inner.commit(table.ident, table, planned.requirements, planned.updates)


def read_back(it: Rig, file: DataFile) -> pa.Table:
    assert it.committer.locations.key(file.path)
    return pq.read_table(file.path.removeprefix("file://"))


TIMES = [None, *(datetime.datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC) + datetime.timedelta(hours=7 * at) for at in range(11))]
ROWS = pa.table(
    {
        "id": pa.array(range(12), pa.int64()),
        "ts": pa.array(TIMES, pa.timestamp("us", tz="UTC")),
        "name": pa.array([None, "", "a", "ab", "abc", "abd", "é日😀x", "é日😀y", "zz", "a", "ab", "b"]),
        "amount": pa.array([None, *[at * 7 - 30 for at in range(11)]], pa.int32()),
    }
)


@pytest.mark.parametrize(
    "fields",
    [
        ("day(ts)",),
        ("hour(ts)", "bucket[4](id)"),
        ("month(ts)", "truncate[2](name)"),
        ("year(ts)", "name", "truncate[10](amount)"),
        ("void(ts)", "bucket[3](name)"),
    ],
)
def test_read_every_filter_finds_its_rows_in_duckdb_and_pyiceberg(tmp_path: pathlib.Path, fields: tuple[str, ...]) -> None:
    async def run() -> None:
        it = await rig(tmp_path)
        table, files = await made(it, ROWS, Layout(partition=by(*fields)))
        assert len({file.partition for file in files}) == len(files) > 1
        assert all("=" not in file.path and file.path.startswith(f"{table.location}/data/") for file in files)
        static = StaticTable.from_metadata(table.metadata_location)
        assert static.scan().to_arrow().sort_by("id").to_pylist() == ROWS.to_pylist()
        with connect() as connection:
            scan = f"iceberg_scan('{table.metadata_location}')"
            assert connection.execute(f"SELECT count(*) FROM {scan}").fetchone() == (12,)
            for row in ROWS.to_pylist():
                for name, value in row.items():
                    wanted = sorted(each["id"] for each in ROWS.to_pylist() if each[name] == value)
                    test = IsNull(name) if value is None else EqualTo(name, value.isoformat() if name == "ts" else value)
                    assert sorted(static.scan(row_filter=test).to_arrow().column("id").to_pylist()) == wanted, (name, value)
                    sql = f'"{name}" IS NOT DISTINCT FROM ?'
                    found = connection.execute(f"SELECT id FROM {scan} WHERE {sql} ORDER BY 1", [value]).fetchall()
                    assert [each for (each,) in found] == wanted, (name, value)
        later = sorted(row["id"] for row in ROWS.to_pylist() if row["ts"] and row["ts"] >= TIMES[5])
        found = static.scan(row_filter=GreaterThanOrEqual("ts", TIMES[5].isoformat())).to_arrow()
        assert sorted(found.column("id").to_pylist()) == later

    run_virtual(run())


def test_rows_are_sorted_within_files_and_the_files_say_so(tmp_path: pathlib.Path) -> None:
    async def run() -> None:
        it = await rig(tmp_path)
        sort = (SortField(column="name", descending=True, nulls_first=True), SortField(column="id", descending=True))
        _, files = await made(it, ROWS, Layout(partition=by("day(ts)"), sort=sort))
        assert [file.sort_order_id for file in files] == [1] * len(files)
        for file in files:
            rows = read_back(it, file).select(["name", "id"]).to_pylist()
            key = [(row["name"] is not None, [-byte for byte in (row["name"] or "").encode()] + [1], -row["id"]) for row in rows]
            assert key == sorted(key)

    run_virtual(run())


def test_f45_files_stay_in_the_layout_they_were_written_in(tmp_path: pathlib.Path) -> None:
    """Between the upload and the commit another client adds bucket(4, id) and takes day(ts) away."""

    async def run() -> None:
        it = await rig(tmp_path)
        base, _ = await made(it, ROWS, Layout(partition=by("day(ts)")))
        late = await it.writer.write(base, ROWS)
        with foreign(it) as _:
            theirs = _.catalog.load_table("lake.laid")
            with theirs.update_spec() as update:
                update.add_field("id", BucketTransform(4), "id_bucket").remove_field("ts_day")
        outcome = await it.committer.commit(Landed(base=base, files=late, moves={source(): Move(None, 12)}))
        assert isinstance(outcome, Committed)
        fresh = await it.writer.write(outcome.table, ROWS)
        outcome = await it.committer.commit(Landed(base=outcome.table, files=fresh))
        assert isinstance(outcome, Committed)
        table = outcome.table
        assert {file.spec_id for file in late} == {0}
        assert {file.spec_id for file in fresh} == {1}
        day = DayTransform().transform(StaticTable.from_metadata(table.metadata_location).schema().find_type("ts"))
        bucket = BucketTransform(4).transform(StaticTable.from_metadata(table.metadata_location).schema().find_type("id"))
        for file in (*late, *fresh):
            rows = read_back(it, file).to_pylist()
            apply = (lambda row: day(row["ts"])) if file.spec_id == 0 else (lambda row: bucket(row["id"]))
            assert {apply(row) for row in rows} == {file.partition[0]}
        static = StaticTable.from_metadata(table.metadata_location)
        assert static.scan().to_arrow().num_rows == 36
        for row in ROWS.to_pylist():
            assert static.scan(row_filter=EqualTo("id", row["id"])).to_arrow().num_rows == 3
            if row["ts"]:
                assert static.scan(row_filter=EqualTo("ts", row["ts"].isoformat())).to_arrow().num_rows == 3
        care = Care(it.committer, CareSettings(manifests_max=1))
        await care.merge_manifests("lake.laid")
        merged = await it.inner.load("lake.laid")
        lines = await it.committer.lists.lines(merged.metadata["snapshots"][-1])
        assert sorted(line.partition_spec_id for line in lines) == [0, 1]
        assert StaticTable.from_metadata(merged.metadata_location).scan().to_arrow().num_rows == 36

    run_virtual(run())


NAMES = ("a#b", "1st", "日本", "a_x23b", "x y", "é", "_ok")


def test_f44_names_of_any_kind_make_manifests_that_a_strict_reader_takes(tmp_path: pathlib.Path) -> None:
    async def run() -> None:
        it = await rig(tmp_path)
        rows = pa.table({name: pa.array([f"{name}/{at}", "%2F=#?", None]) for at, name in enumerate(NAMES)})
        table, files = await made(it, rows, Layout(partition=by(*NAMES)))
        assert len(files) == 3
        names = []
        for line in await it.committer.lists.lines(table.metadata["snapshots"][-1]):
            data = await it.deps.objects.get(it.committer.locations.key_of(line.manifest_path))
            reader = fastavro.reader(io.BytesIO(data))
            schema = json.loads(reader.metadata["avro.schema"])
            fastavro.parse_schema(schema)  # names by the letter of the specification
            entry = next(field for field in schema["fields"] if field["name"] == "data_file")
            partition = next(field for field in entry["type"]["fields"] if field["name"] == "partition")
            names = [(field["name"], field.get("iceberg-field-name")) for field in partition["type"]["fields"]]
            values = {tuple(record["data_file"]["partition"].values()) for record in reader}
            assert values == {file.partition for file in files}
        assert names == [
            ("a_x23b", "a#b"),
            ("_1st", "1st"),
            ("_x65E5_x672C", "日本"),
            ("a_x23b_1003", "a_x23b"),
            ("x_x20y", "x y"),
            ("_xE9", "é"),
            ("_ok", None),
        ]
        static = StaticTable.from_metadata(table.metadata_location)
        assert static.scan().to_arrow().num_rows == 3
        with connect() as connection:
            for name in NAMES:
                sql = f"SELECT count(*) FROM iceberg_scan('{table.metadata_location}') WHERE \"{name}\" = '%2F=#?'"
                assert connection.execute(sql).fetchone() == (1,)

    run_virtual(run())


def test_avro_names() -> None:
    assert [avro_name(name) for name in ("a", "_", "9", "a.b", "😀")] == ["a", "_", "_9", "a_x2Eb", "_x1F600"]


def test_two_partition_fields_of_one_named_avro_type_are_two_types(tmp_path: pathlib.Path) -> None:
    """Avro's decimal, fixed and uuid are named types: the library defines them again, which a strict reader refuses."""

    async def run() -> None:
        it = await rig(tmp_path)
        kinds = {"a": pa.decimal128(9, 2), "b": pa.decimal128(9, 2), "c": pa.binary(3), "d": pa.binary(3)}
        values = {"a": ["1.10", "2.20"], "b": ["3.30", None], "c": [b"abc", b"xyz"], "d": [b"abc", None]}
        rows = pa.table(
            {
                name: pa.array(values[name]).cast(kind) if kind == kinds["a"] else pa.array(values[name], kind)
                for name, kind in kinds.items()
            }
        )
        table, files = await made(it, rows, Layout(partition=by(*kinds)))
        (line,) = await it.committer.lists.lines(table.metadata["snapshots"][-1])
        data = await it.deps.objects.get(it.committer.locations.key_of(line.manifest_path))
        found = [tuple(entry["data_file"]["partition"].values()) for entry in fastavro.reader(io.BytesIO(data))]
        assert found == [file.partition for file in files]
        assert [(each.contains_null, each.lower_bound, each.upper_bound) for each in line.partitions or ()] == [
            (False, b"\x6e", b"\x00\xdc"),
            (True, b"\x01\x4a", b"\x01\x4a"),
            (False, b"abc", b"xyz"),
            (True, b"abc", b"abc"),
        ]
        assert StaticTable.from_metadata(table.metadata_location).scan().to_arrow().num_rows == 2

    run_virtual(run())


def test_nan_and_zeros_of_a_table_somebody_partitioned_by_floats(tmp_path: pathlib.Path) -> None:
    """All NaNs are one partition, −0.0 and 0.0 two; manifest lists count NaN apart and put −0.0 below 0.0."""

    async def run() -> None:
        it = await rig(tmp_path)
        (odd,) = struct.unpack("<d", b"\1\0\0\0\0\0\xf8\xff")
        rows = pa.table({"f": pa.array([0.0, float("nan"), -0.0, odd, None])})
        table, files = await made(it, rows, Layout(partition=by("f")))
        assert [file.record_count for file in files] == [1, 2, 1, 1]
        (line,) = await it.committer.lists.lines(table.metadata["snapshots"][-1])
        (summary,) = line.partitions or ()
        assert (summary.contains_null, summary.contains_nan) == (True, True)
        assert (summary.lower_bound, summary.upper_bound) == (struct.pack("<d", -0.0), struct.pack("<d", 0.0))

    run_virtual(run())


# --- evolution of layouts ----------------------------------------------------------------------------------------------


def test_layouts_are_added_and_an_equal_one_is_used_again(tmp_path: pathlib.Path) -> None:
    async def run() -> None:
        it = await rig(tmp_path)
        table = await it.inner.create("lake.laid", creation(ROWS.schema, Layout(partition=by("day(ts)"))))
        table = await change(it, table, Layout(partition=by("bucket[4](id)", "day(ts)"), sort=(SortField(column="id"),)))
        assert (table.metadata["default-spec-id"], table.metadata["last-partition-id"], table.metadata["default-sort-order-id"]) == (
            1,
            1001,
            1,
        )
        assert [(field["field-id"], field["name"]) for field in table.metadata["partition-specs"][1]["fields"]] == [
            (1001, "id_bucket_4"),
            (1000, "ts_day"),
        ]
        schema = current_schema(table.metadata)
        assert plan_layout(table, schema, Layout(partition=by("bucket[4](id)", "day(ts)"), sort=(SortField(column="id"),))) is None
        assert plan_layout(table, schema, Layout()) is None
        table = await change(it, table, Layout(partition=by("day(ts)"), sort=()))
        assert (table.metadata["default-spec-id"], table.metadata["default-sort-order-id"]) == (0, 0)
        table = await change(it, table, Layout(partition=()))
        assert [spec["spec-id"] for spec in table.metadata["partition-specs"]] == [0, 1, 2]
        assert (await it.writer.write(table, ROWS))[0].spec_id == 2
        assert {file.spec_id for file in await it.writer.write(table, ROWS, spec_id=1)} == {1}

    run_virtual(run())


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (("day(nope)",), "no column nope"),
        (("day(name)",), "day does not take column name of type string"),
        (("l",), "no column l"),
        (("truncate[2](ts)",), "truncate does not take"),
    ],
)
def test_layouts_that_cannot_be_are_refused(fields: tuple[str, ...], why: str) -> None:
    schema = new_schema(ROWS.schema.append(pa.field("l", pa.list_(pa.int32()))))
    with pytest.raises(Refused, match=why):
        spec_of_new_table(Layout(partition=by(*fields)), schema)


def test_partition_names_do_not_meet_columns() -> None:
    schema = new_schema(pa.schema([("ts", pa.timestamp("us")), ("ts_day", pa.int32()), ("s", pa.struct([("x", pa.int64())]))]))
    spec = spec_of_new_table(Layout(partition=by("day(ts)", "bucket[2](s.x)", "ts_day")), schema)
    assert [field["name"] for field in spec["fields"]] == ["ts_day_", "s.x_bucket_2", "ts_day"]
    with pytest.raises(Refused, match="ts_day is a column"):
        spec_of_new_table(Layout(partition=(PartitionField(column="ts", transform=parse_transform("day"), name="ts_day"),)), schema)


def test_a_column_of_an_old_spec_may_be_dropped(tmp_path: pathlib.Path) -> None:
    """Manifests of the old spec keep their values when they are merged: their type comes from a schema that had the column."""

    async def run() -> None:
        it = await rig(tmp_path)
        table, files = await made(it, ROWS, Layout(partition=by("amount")))
        with foreign(it) as other:
            theirs = other.catalog.load_table("lake.laid")
            with theirs.update_spec() as update:
                update.remove_field("amount")
            with theirs.update_schema() as update_schema:
                update_schema.delete_column("amount")
        for _ in range(2):
            base = await it.inner.load("lake.laid")
            more = await it.writer.write(base, ROWS.drop_columns("amount"))
            assert isinstance(await it.committer.commit(Landed(base=base, files=more)), Committed)
        await Care(it.committer, CareSettings(manifests_max=1)).merge_manifests("lake.laid")
        table = await it.inner.load("lake.laid")
        old = [line for line in await it.committer.lists.lines(table.metadata["snapshots"][-1]) if line.partition_spec_id == 0]
        found = []
        for line in old:
            data = await it.deps.objects.get(it.committer.locations.key_of(line.manifest_path))
            found += [entry["data_file"]["partition"]["amount"] for entry in fastavro.reader(io.BytesIO(data))]
        assert found == [file.partition[0] for file in files]
        assert StaticTable.from_metadata(table.metadata_location).scan().to_arrow().num_rows == 36

    run_virtual(run())


# --- sizes, properties, bounds -----------------------------------------------------------------------------------------


def test_files_are_cut_at_the_target_size_on_disk(tmp_path: pathlib.Path) -> None:
    async def run() -> None:
        it = await rig(tmp_path)
        chance = random.Random(3)
        rows = pa.table({"b": [chance.randbytes(1000) for _ in range(3000)], "z": [b"0" * 1000] * 3000})
        _, files = await made(it, rows, Layout(), **{"write.target-file-size-bytes": "500000"})
        sizes = [file.size_bytes for file in files]
        assert sum(file.record_count for file in files) == 3000
        assert len(sizes) == 7
        assert all(350_000 < size < 510_000 for size in sizes[:-1])
        found = [row for file in files for row in read_back(it, file).column("b").to_pylist()]
        assert found == rows.column("b").to_pylist()

    run_virtual(run())


def test_properties_of_a_table_somebody_made_are_honoured(tmp_path: pathlib.Path) -> None:
    async def run() -> None:
        it = await rig(tmp_path)
        properties = {
            "write.parquet.compression-codec": "gzip",
            "write.parquet.compression-level": "3",
            "write.parquet.row-group-size-bytes": "8",
            "write.metadata.metrics.default": "counts",
            "write.metadata.metrics.column.name": "truncate(2)",
            "write.metadata.metrics.column.amount": "none",
        }
        table, (file,) = await made(it, ROWS, Layout(sort=(SortField(column="id"),)), **properties)
        ids = {field["name"]: field["id"] for field in current_schema(table.metadata)["fields"]}
        metadata = pq.read_metadata(file.path.removeprefix("file://"))
        assert metadata.row_group(0).column(0).compression == "GZIP"
        assert metadata.num_row_groups == 12
        assert set(file.value_counts) == {ids["id"], ids["ts"], ids["name"]}
        assert set(file.lower_bounds) == {ids["id"], ids["name"]}, "columns of the sort order always have bounds"
        assert file.lower_bounds[ids["name"]] == b""
        assert len(file.upper_bounds[ids["name"]].decode()) == 2

    run_virtual(run())


def test_f74_statistics_are_limited_so_that_a_commit_of_many_files_stays_small(tmp_path: pathlib.Path) -> None:
    """Many partitions by 300 columns in one round: without a limit the manifest has bounds of every column of every file."""

    async def run() -> None:
        it = await rig(tmp_path)
        columns: dict[str, Any] = {f"c{at}": pa.repeat(f"text of the column {at}", 120) for at in range(300)}
        rows = pa.table({**columns, "p": pa.array(range(120), pa.int32())})
        table, files = await made(it, rows, Layout(partition=by("p")))
        assert len(files) == 120
        assert {len(file.lower_bounds) for file in files} == {101}
        assert all(len(file.column_sizes) == 101 for file in files)
        (line,) = await it.committer.lists.lines(table.metadata["snapshots"][-1])
        assert line.manifest_length < 100_000
        assert len(json.dumps(table.metadata)) < 100_000
        schema = current_schema(table.metadata)
        assert [len(metrics_lengths(schema, {}, first={301}, files=count)) for count in (1, 500, 5_000, 24_000)] == [101, 101, 20, 8]
        assert StaticTable.from_metadata(table.metadata_location).scan(row_filter=EqualTo("p", 77)).to_arrow().num_rows == 1

    run_virtual(run())


def test_f72_a_commit_has_two_requests_per_file_and_ten_more(tmp_path: pathlib.Path) -> None:
    async def run() -> None:
        it = await rig(tmp_path)
        table = await it.inner.create("lake.laid", creation(pa.schema([("id", pa.int64())]), Layout(partition=by("id"))))
        counts = {"put": 0, "get": 0}
        objects = it.deps.objects
        put, get = objects.put_if_absent, objects.get

        async def counted_put(key: str, data: Any) -> None:
            counts["put"] += 1
            await put(key, data)

        async def counted_get(key: str, **span: Any) -> bytes:
            counts["get"] += 1
            return await get(key, **span)

        objects.put_if_absent, objects.get = counted_put, counted_get  # type: ignore[method-assign,assignment]
        files = await it.writer.write(table, pa.table({"id": pa.array(range(300), pa.int64())}))
        assert isinstance(await it.committer.commit(Landed(base=table, files=files)), Committed)
        assert len(files) == 300
        assert 600 <= counts["put"] + counts["get"] <= 610

    run_virtual(run())


@pytest.mark.parametrize("hangs", [False, True])
def test_one_file_that_cannot_be_stored_ends_the_whole_write(tmp_path: pathlib.Path, hangs: bool) -> None:
    """Nothing goes on behind the caller's back, and a store that never answers is not waited for for ever (F29)."""

    async def run() -> None:
        it = await rig(tmp_path)
        table = await it.inner.create("lake.laid", creation(pa.schema([("id", pa.int64())]), Layout(partition=by("id"))))
        put, count = it.deps.objects.put_if_absent, 0

        async def failing(key: str, data: Any) -> None:
            nonlocal count
            count += 1
            if count == 70:
                await asyncio.sleep(10_000 if hangs else 0)
                raise RetryLater("the store is away")
            await put(key, data)

        it.deps.objects.put_if_absent = failing  # type: ignore[method-assign,assignment]
        with pytest.raises(RetryLater, match="takes longer" if hangs else "is away"):
            await it.writer.write(table, pa.table({"id": pa.array(range(300), pa.int64())}))
        assert len(asyncio.all_tasks()) == 1
        assert count < 300
        it.deps.objects.put_if_absent = put  # type: ignore[method-assign]
        assert len(await it.writer.write(table, pa.table({"id": pa.array(range(300), pa.int64())}))) == 300

    run_virtual(run())


BACKLOG = """
import asyncio, random, resource, sys, tempfile
import pyarrow as pa
from frazil.catalogs import CatalogDeps, Committer, CreateTable, Landed, open_catalog
from frazil.catalogs.layout import Layout, PartitionField, order_of_new_table, spec_of_new_table
from frazil.catalogs.schema import new_schema
from frazil.catalogs.transforms import parse_transform
from frazil.catalogs.write import FileWriter
from frazil.kit.clock import SystemClock
from frazil.kit.faultpoints import FaultPoints
from frazil.kit.tasks import ThreadOffload
from frazil.objects import open_objects

DAYS, TENANTS, RECORDS, COLUMNS = map(int, sys.argv[2:])

async def main(folder):
    offload = ThreadOffload("test", threads_max=2)
    objects = open_objects(f"file://{folder}/objects", offload=offload, clock=SystemClock())
    deps = CatalogDeps(objects=objects, offload=offload, clock=SystemClock(), chance=random.Random(1), faults=FaultPoints())
    catalog = open_catalog(f"sql://{folder}/catalog.db", deps)
    day = 86_400_000_000
    chance = random.Random(2)
    rows = pa.table({
        "ts": pa.array([chance.randrange(DAYS) * day + at for at in range(RECORDS)], pa.int64()).view(pa.timestamp("us")),
        "tenant": pa.array([chance.randrange(TENANTS) for _ in range(RECORDS)], pa.int32()),
        **{f"c{at}": pa.repeat(f"v{at}", RECORDS) for at in range(COLUMNS)},
    })
    layout = Layout(partition=(
        PartitionField(column="ts", transform=parse_transform("day")),
        PartitionField(column="tenant", transform=parse_transform("identity")),
    ))
    schema = new_schema(rows.schema)
    spec, order = spec_of_new_table(layout, schema), order_of_new_table(layout, schema)
    creation = CreateTable(schema=rows.schema, partition_spec=spec, sort_order=order)
    table = await catalog.create("lake.backlog", creation)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    files = await FileWriter(deps).write(table, rows)
    outcome = await Committer(catalog, deps).commit(Landed(base=table, files=files))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    rows = sum(file.record_count for file in files)
    print(len(files), len({file.partition for file in files}), rows, grown // 1024, outcome.table.metadata_location)
    await catalog.close()
    offload.close()

asyncio.run(main(sys.argv[1]))
"""


def test_f73_a_backlog_over_thousands_of_partitions_has_bounded_memory(tmp_path: pathlib.Path) -> None:
    """A writer per partition would hold the buffers of all columns of all of them. Scaled down; the whole is in docs/layout.md."""
    days, tenants, records, columns = 100, 10, 6_000, 30
    run = subprocess.run(
        [sys.executable, "-c", BACKLOG, str(tmp_path), *map(str, (days, tenants, records, columns))],
        capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    files, partitions, rows, grown_mib, location = run.stdout.split()
    assert int(files) == int(partitions) > 980
    assert int(rows) == records
    assert int(grown_mib) < 250
    static = StaticTable.from_metadata(location)
    assert static.scan(selected_fields=("tenant",)).count() == records
