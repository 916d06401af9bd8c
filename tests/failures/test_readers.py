"""F90–F92, F94: what readers of the table see. DuckDB and PyIceberg are the judges; the JVM's is in tests/readers."""

from __future__ import annotations

import datetime
import decimal
import math
import struct
import uuid
from collections.abc import Sequence
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.conversions import from_bytes
from pyiceberg.table import StaticTable
from tests.failures.registry import Case, Naive, Planted, failure, must
from tests.simulation.loop import run_virtual
from tests.unit.catalogs.rig import Rig, connect, rig

from frazil.catalogs import CreateTable, Landed, LoadedTable
from frazil.catalogs import parquet as our_parquet
from frazil.catalogs.commit import Committed
from frazil.catalogs.metadata_json import current_schema
from frazil.catalogs.rewrite import Rewriter, RewriteSettings
from frazil.catalogs.rowdelta import RowDelta
from frazil.catalogs.schema import plan_schema

IDENT = "lake.read"
UTC = datetime.UTC


async def committed(it: Rig, rows: pa.Table) -> LoadedTable:
    """``rows`` appended to the table, whose columns follow them."""
    table = await it.inner.load(IDENT)
    change = plan_schema(table, rows.schema)
    files = await it.writer.write(table, rows, change=change)
    outcome = await it.committer.commit(Landed(base=table, files=files, change=change))
    assert isinstance(outcome, Committed)
    return outcome.table


def ask(table: LoadedTable, what: str = "count(*)", where: str = "true") -> Any:
    """One value by DuckDB."""
    with connect() as connection:
        found = connection.execute(f"SELECT {what} FROM iceberg_scan('{table.metadata_location}') WHERE {where}").fetchone()
    assert found is not None
    return found[0]


# --- F90 --------------------------------------------------------------------------------------------------------------

VALUES: dict[str, tuple[Any, list[Any]]] = {
    "moment": (pa.timestamp("us", tz="UTC"), [datetime.datetime(2025, 7, 1, 10, 0, 0, micro, UTC) for micro in (80_758, 999_999, 1)]),
    "amount": (pa.decimal128(38, 0), [decimal.Decimal(126_619), decimal.Decimal(19_308), decimal.Decimal(-5)]),
    "number": (pa.float64(), [-0.0, math.inf, 2.5]),
}


def rounded(path: Any) -> dict[str, tuple[Any, Any]]:
    """Bounds as others have written them: times cut to milliseconds, decimals as text, floats through an int."""

    def cut(value: Any) -> Any:
        if isinstance(value, datetime.datetime):
            return value.replace(microsecond=value.microsecond // 1000 * 1000)
        return type(value)(struct.unpack("<f", struct.pack("<f", value))[0]) if isinstance(value, float) and math.isfinite(value) else value

    amounts = sorted(VALUES["amount"][1], key=str)
    bounds = {name: (cut(min(values)), cut(max(values))) for name, (_, values) in VALUES.items()}
    return bounds | {"amount": (amounts[0], amounts[-1])}


def as_written(path: Any) -> dict[str, tuple[Any, Any]]:
    """Bounds of the file as PyIceberg reads them from our entry; READ on the way."""
    found: dict[str, tuple[Any, Any]] = {}

    async def run() -> None:
        it = await rig(path)
        schema = pa.schema([(name, kind) for name, (kind, _) in VALUES.items()] + [("id", pa.binary(16)), ("nan", pa.float64())])
        rows = pa.table(
            {**{name: values for name, (_, values) in VALUES.items()}, "id": [uuid.uuid4().bytes for _ in range(3)], "nan": [math.nan] * 3},
            schema=schema,
        )
        await it.inner.create(IDENT, CreateTable(schema=schema))
        table = await it.inner.load(IDENT)
        (file,) = await it.writer.write(table, rows)
        outcome = await it.committer.commit(Landed(base=table, files=[file]))
        assert isinstance(outcome, Committed)
        types = {
            field.name: (field.field_id, field.field_type)
            for field in StaticTable.from_metadata(outcome.table.metadata_location).schema().fields
        }
        for name in VALUES:
            number, kind = types[name]
            low, high = (from_bytes(kind, side[number]) for side in (file.lower_bounds, file.upper_bounds))
            if name == "moment":
                low, high = (datetime.datetime.fromtimestamp(0, UTC) + datetime.timedelta(microseconds=one) for one in (low, high))
            found[name] = (low, high)
        for value in VALUES["moment"][1]:
            must(ask(outcome.table, where=f"moment = TIMESTAMPTZ '{value.isoformat()}'") == 1, "READ", value)
        for value in VALUES["amount"][1]:
            must(ask(outcome.table, where=f"amount <= {value}") == sum(one <= value for one in VALUES["amount"][1]), "READ", value)

    run_virtual(run())
    return found


@failure(
    "F90",
    title="File statistics that hide rows",
    others="round, mis-encode or merge bounds wrongly; a filter then skips files that hold matching rows",
    promise="lower ≤ every value ≤ upper in the type's own order and encoding, or no bound at all (NaN alone, uuid)",
    prevented=("frazil.catalogs.bounds:Range", "frazil.catalogs.metrics:describe"),
    wrong=Naive("times cut to milliseconds, decimals ordered as text", rounded, as_written),
)
def test_f90_bounds_hide_no_row(case: Case) -> None:
    for name, (low, high) in case.way(case.path).items():
        must(low <= min(VALUES[name][1]) and max(VALUES[name][1]) <= high, "READ", f"{name}: {low} … {high}")


# --- F91 --------------------------------------------------------------------------------------------------------------

TEXTS = ["a" * 15 + "\u2022" + "text", "éàü" * 6, "\U0001f600" * 20, "z" * 30, "\U0010ffff" * 20]


def sixteen_bytes(values: Sequence[str], _path: Any) -> tuple[bytes, bytes | None]:
    """Cut after sixteen bytes; the last byte of the upper bound is one more."""
    high = max(values).encode()[:16]
    return min(values).encode()[:16], high[:-1] + bytes([(high[-1] + 1) % 256])


def whole_characters(values: Sequence[str], path: Any) -> tuple[bytes, bytes | None]:
    found: list[tuple[bytes, bytes | None]] = []

    async def run() -> None:
        it = await rig(path)
        schema = pa.schema([("text", pa.string())])
        await it.inner.create(IDENT, CreateTable(schema=schema))
        table = await it.inner.load(IDENT)
        (file,) = await it.writer.write(table, pa.table({"text": list(values)}, schema=schema))
        outcome = await it.committer.commit(Landed(base=table, files=[file]))
        assert isinstance(outcome, Committed)
        (number,) = file.lower_bounds
        found.append((file.lower_bounds[number], file.upper_bounds.get(number)))
        for value in values:
            must(ask(outcome.table, where=f"text = '{value}'") == 1, "READ", value)

    run_virtual(run())
    return found[0]


@failure(
    "F91",
    title="Text bounds cut in the middle of a character",
    others="cut at sixteen bytes, or raise the last character to something that is none",
    promise="bounds are cut between characters and stay valid UTF-8; an upper bound that cannot be raised is left out",
    prevented=("frazil.catalogs.bounds:lower_text", "frazil.catalogs.bounds:upper_text"),
    wrong=Naive("sixteen bytes, and the last byte one more", sixteen_bytes, whole_characters),
)
def test_f91_text_bounds_are_text(case: Case) -> None:
    for number, value in enumerate(TEXTS):
        folder = case.path / str(number)
        folder.mkdir()
        low, high = case.way([value], folder)
        for bound in (low, high):
            if bound is not None:
                try:
                    bound.decode()
                except UnicodeDecodeError:
                    must(False, "READ", f"{bound!r} is no text")
        must(low.decode() <= value and (high is None or value <= high.decode()), "READ", f"{low!r} … {high!r} for {value!r}")


# --- F92 --------------------------------------------------------------------------------------------------------------


def without_ids(patch: pytest.MonkeyPatch) -> None:
    original = our_parquet.pq.ParquetWriter

    class Nameless(original):  # type: ignore[misc,valid-type]
        def __init__(self, where: Any, schema: pa.Schema, **options: Any) -> None:
            self._plain = pa.schema([pa.field(field.name, field.type, field.nullable) for field in schema])
            super().__init__(where, self._plain, **options)

        def write_table(self, table: pa.Table, **options: Any) -> None:
            super().write_table(table.cast(self._plain), **options)

    patch.setattr(our_parquet.pq, "ParquetWriter", Nameless)


@failure(
    "F92",
    title="Engines cannot open what was written",
    others="leave out parts of the format that some readers need: field ids, schemes, a snapshot in an empty table",
    promise="the table reads equal when empty, after the first commit, after a schema change, after a rewrite; every file has field ids",
    prevented=("frazil.catalogs.parquet:encode", "frazil.catalogs.manifests:ManifestCodec"),
    wrong=Planted("Parquet files have no field ids", without_ids),
)
def test_f92_each_engine_opens_each_state(case: Case) -> None:
    async def run() -> None:
        it = await rig(case.path)
        await it.inner.create(IDENT, CreateTable(schema=pa.schema([("id", pa.int64())])))

        def equal(table: LoadedTable, count: int) -> None:
            try:
                seen = {"duckdb": ask(table), "pyiceberg": StaticTable.from_metadata(table.metadata_location).scan().to_arrow().num_rows}
                ids = ask(table, "coalesce(sum(id), 0)")
            except (duckdb.Error, ValueError) as error:
                must(False, "READ", error)
                raise
            must(set(seen.values()) == {count} and int(ids) == sum(range(count)), "READ", (seen, ids, count))

        equal(await it.inner.load(IDENT), 0)
        equal(await committed(it, pa.table({"id": [0, 1]})), 2)
        equal(await committed(it, pa.table({"id": [2, 3], "text": ["x", None]})), 4)
        table = await it.inner.load(IDENT)
        must(str(table.location).startswith("file://"), "READ", table.location)
        for file in (case.path / "objects").rglob("*.parquet"):
            must(
                all(b"PARQUET:field_id" in (field.metadata or {}) for field in pq.read_schema(file)),
                "READ",
                f"{file.name} has no field ids",
            )
        eager = RewriteSettings(dead_share=0.0, dead_rows_min=0, equality_rows_max=0, cheap_files=2)
        await Rewriter(it.committer, RowDelta(it.committer, it.writer), eager).pass_once(IDENT)
        equal(await it.inner.load(IDENT), 4)

    run_virtual(run())


# --- F94 --------------------------------------------------------------------------------------------------------------


def by_name(table: LoadedTable, files: list[str]) -> list[tuple[Any, Any]]:
    """A reader that looks for the columns' names of today in each file."""
    found = []
    for path in files:
        rows = pq.read_table(path.removeprefix("file://"))
        for at in range(rows.num_rows):
            found.append(tuple(rows[name][at].as_py() if name in rows.schema.names else None for name in ("b", "c")))
    return sorted(found, key=str)


def by_id(table: LoadedTable, files: list[str]) -> list[tuple[Any, Any]]:
    with connect() as connection:
        return sorted(connection.execute(f"SELECT b, c FROM iceberg_scan('{table.metadata_location}')").fetchall(), key=str)


@failure(
    "F94",
    title="Old files and new columns",
    others="go by names, or change a schema without telling readers of old files",
    promise="a column keeps its field id when it is renamed, and a new one has a new id: old files answer by id, null for what they lack",
    prevented=("frazil.catalogs.schema:plan_schema", "frazil.catalogs.parquet:encode", "frazil.landing.evolution:renamed"),
    wrong=Naive("columns are looked up by name in each file", by_name, by_id),
)
def test_f94_renamed_and_added_columns(case: Case) -> None:
    async def run() -> None:
        it = await rig(case.path)
        await it.inner.create(IDENT, CreateTable(schema=pa.schema([("a", pa.int64())])))
        for number in range(3):
            table = await committed(it, pa.table({"a": [number]}))
        schema = current_schema(table.metadata)
        (field,) = schema["fields"]
        added = {"id": 2, "name": "c", "required": False, "type": "string"}
        changed = {**schema, "schema-id": 1, "fields": [{**field, "name": "b"}, added]}
        updates = [
            {"action": "add-schema", "schema": changed, "last-column-id": 2},
            {"action": "set-current-schema", "schema-id": -1},
        ]
        table = await it.inner.commit(IDENT, table, [], updates)
        table = await committed(it, pa.table({"b": [3], "c": ["x"]}))
        files = [task.file.file_path for task in StaticTable.from_metadata(table.metadata_location).scan().plan_files()]
        must(case.way(table, files) == [(0, None), (1, None), (2, None), (3, "x")], "READ", case.way(table, files))
        must(ask(table, where="b >= 2") == 2 and ask(table, where="c IS NULL") == 3, "READ", "filters on renamed and new columns")

    run_virtual(run())
