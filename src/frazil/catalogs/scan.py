"""Reads what a table holds: its live files, and rows of a range of one column.

For landing's own questions (which dead letters are in the table already, R15). Users read with their engines.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from frazil.catalogs.conform import conform
from frazil.catalogs.files import DataFile
from frazil.catalogs.lists import ManifestLists
from frazil.catalogs.locations import Locations
from frazil.catalogs.manifests import Entry, Manifest, decode_manifest
from frazil.catalogs.metadata_json import MAIN, current_schema, ref_snapshot, snapshot_by_id
from frazil.catalogs.port import LoadedTable
from frazil.catalogs.schema import FIELD_ID, arrow_schema
from frazil.kit.errors import Corrupt, Missing, Refused
from frazil.objects.port import ObjectStore

_DELETED: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Rows whose integer ``column`` is in ``[low, high)``."""

    column: str
    low: int
    high: int


async def read_manifest(objects: ObjectStore, locations: Locations, line: Manifest) -> list[Entry]:
    """Every entry of one manifest. Raises Corrupt when it is missing or damaged, RetryLater."""
    try:
        data = await objects.get(locations.key_of(line.manifest_path))
    except Missing as error:
        raise Corrupt("a manifest of a kept snapshot does not exist", where=line.manifest_path) from error
    return decode_manifest(data, line)


async def live_files(objects: ObjectStore, table: LoadedTable) -> tuple[DataFile, ...]:
    """The data files of the table's head. Raises Refused when delete files apply to them: rows would be read that are gone."""
    locations = Locations(objects)
    head = snapshot_by_id(table.metadata, ref_snapshot(table.metadata, MAIN))
    found: list[DataFile] = []
    for line in await ManifestLists(objects, locations).lines(head):
        if int(line.content) != 0:
            raise Refused(f"table {table.ident} has delete files; this reader does not apply them")
        found += [entry.file for entry in await read_manifest(objects, locations, line) if entry.status != _DELETED]
    return tuple(found)


async def read_rows(objects: ObjectStore, table: LoadedTable, columns: Sequence[str], span: Span) -> pa.Table:
    """The rows of a span, as the table's schema has ``columns``; files whose bounds exclude it are not read."""
    schema = arrow_schema(table)
    wanted = pa.schema([schema.field(name) for name in dict.fromkeys((*columns, span.column))])
    ids = {field["name"]: int(field["id"]) for field in current_schema(table.metadata)["fields"]}
    locations = Locations(objects)
    parts = [wanted.empty_table()]
    for file in await live_files(objects, table):
        if _may_hold(file, ids[span.column], span):
            data = await objects.get(locations.key_of(file.path))
            parts.append(_filtered(_by_id(data, wanted, file.path), span))
    return pa.concat_tables(parts).select(list(columns))


def _may_hold(file: DataFile, field_id: int, span: Span) -> bool:
    low, high = file.lower_bounds.get(field_id), file.upper_bounds.get(field_id)
    above = low is not None and int.from_bytes(low, "little", signed=True) >= span.high
    below = high is not None and int.from_bytes(high, "little", signed=True) < span.low
    return not above and not below


def _by_id(data: bytes, wanted: pa.Schema, where: str) -> pa.Table:
    """Columns are found by field id: a column may have been renamed since the file was written."""
    try:
        file = pq.ParquetFile(io.BytesIO(data))
        names = {(field.metadata or {}).get(FIELD_ID): field.name for field in file.schema_arrow}
        present = [(field.name, names[found]) for field in wanted if (found := (field.metadata or {})[FIELD_ID]) in names]
        rows = file.read(columns=[stored for _, stored in present])
    except (pa.ArrowInvalid, OSError) as error:
        raise Corrupt(f"not readable as Parquet: {error}", where=where) from error
    renamed = rows.select([stored for _, stored in present]).rename_columns([name for name, _ in present])
    return conform(renamed, wanted)


def _filtered(rows: pa.Table, span: Span) -> pa.Table:
    column: Any = rows.column(span.column)
    low: Any = pa.scalar(span.low, column.type)
    high: Any = pa.scalar(span.high, column.type)
    return rows.filter(pc.and_(pc.greater_equal(column, low), pc.less(column, high)))
