"""Delete files: equality deletes (rows of keys) and position deletes (file, place), written as Parquet and described for the manifests.

Which of the two: Iceberg's readers take both, but not at one price. DuckDB compares each key of an equality delete with each row it reads,
PyIceberg does not read them at all; places are cheap for everybody, and whoever writes them has to find them (``catalogs/keys.py``).
Puffin deletion vectors (format version 3) are not offered: no library writes them so that every reader takes them.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from frazil.catalogs.arrow import ArrowArray, ArrowField
from frazil.catalogs.files import DataFile
from frazil.catalogs.locations import Locations
from frazil.catalogs.metadata_json import current_schema
from frazil.catalogs.port import CatalogDeps, JsonObject, LoadedTable
from frazil.catalogs.schema import FIELD_ID, SchemaChange, to_arrow
from frazil.catalogs.write import describe, encode
from frazil.kit.chance import UlidSource
from frazil.kit.errors import Refused

POSITION: Final = 1
EQUALITY: Final = 2
_PATH_ID: Final = 2_147_483_546
_POS_ID: Final = 2_147_483_545
_FIELDS: Final[list[ArrowField]] = [
    pa.field("file_path", pa.string(), nullable=False, metadata={FIELD_ID: str(_PATH_ID)}),
    pa.field("pos", pa.int64(), nullable=False, metadata={FIELD_ID: str(_POS_ID)}),
]
POSITIONS: Final = pa.schema(_FIELDS)
"""Columns of a position delete file, with the ids the specification reserves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The partition a delete file is about; it must be that of the data files it applies to."""

    spec_id: int
    partition: tuple[Any, ...] = ()


class DeleteWriter:
    """Writes delete files. Encoding runs in the offload; one instance may serve many tables."""

    def __init__(self, deps: CatalogDeps) -> None:
        self._deps = deps
        self._locations = Locations(deps.objects)
        self._names = UlidSource(deps.chance)

    async def equality(self, table: LoadedTable, keys: pa.Table, place: Place, *, change: SchemaChange | None = None) -> DataFile:
        """Deletes every row, of snapshots before the one that adds the file, that has one of these keys. Columns as the table has them.

        Raises Refused when the columns are not the table's; RetryLater or OutcomeUnknown of the store pass through.
        """
        whole = change.schema if change else current_schema(table.metadata)
        schema = {**whole, "fields": [_named(whole, name) for name in keys.column_names]}
        encoded = await self._deps.offload.run(lambda: encode(keys, schema, delta=True))
        location = await self._put(table, "equality-deletes", encoded.data)
        described = describe(encoded, schema, location=location, spec_id=place.spec_id)
        ids = tuple(int(field["id"]) for field in schema["fields"])
        return _as_deletes(described, place, content=EQUALITY, equality_ids=ids)

    async def positions(self, table: LoadedTable, places: Mapping[str, ArrowArray], place: Place) -> DataFile:
        """Deletes the rows at these places of each data file. Sorted here by file and place, as readers may expect."""
        data, file = await self._deps.offload.run(lambda: _encode_positions(places))
        location = await self._put(table, "position-deletes", data)
        return DataFile(
            path=location,
            record_count=sum(map(len, places.values())),
            size_bytes=len(data),
            spec_id=place.spec_id,
            partition=place.partition,
            content=POSITION,
            lower_bounds=file[0],
            upper_bounds=file[1],
        )

    async def _put(self, table: LoadedTable, kind: str, data: memoryview) -> str:
        ulid = self._names.next(self._deps.clock.now_ms())
        location = f"{table.data_location}/{ulid}-{kind}.parquet"
        await self._deps.objects.put_if_absent(self._locations.key_of(location), data)
        return location


def _named(schema: JsonObject, name: str) -> JsonObject:
    for field in schema["fields"]:
        if field["name"] == name:
            found: JsonObject = field
            return found
    raise Refused(f"column {name}: the table has no such column, so nothing can be deleted by it")


def _as_deletes(file: DataFile, place: Place, *, content: int, equality_ids: Sequence[int]) -> DataFile:
    return DataFile(
        path=file.path,
        record_count=file.record_count,
        size_bytes=file.size_bytes,
        spec_id=place.spec_id,
        partition=place.partition,
        content=content,
        column_sizes=file.column_sizes,
        value_counts=file.value_counts,
        null_counts=file.null_counts,
        nan_counts=file.nan_counts,
        lower_bounds=file.lower_bounds,
        upper_bounds=file.upper_bounds,
        split_offsets=file.split_offsets,
        equality_ids=tuple(equality_ids),
    )


def _encode_positions(places: Mapping[str, ArrowArray]) -> tuple[memoryview, tuple[dict[int, bytes], dict[int, bytes]]]:
    """Parquet bytes, and the bounds of the paths: equal ones say that the file is about one data file alone."""
    compute: Any = pc
    repeat: Any = pa.repeat
    paths = sorted(places)
    runs = [repeat(pa.scalar(at, pa.int32()), len(places[path])) for at, path in enumerate(paths)]
    names: Any = pa.DictionaryArray.from_arrays(pa.concat_arrays(runs), pa.array(paths))  # a path is much longer than its place
    sorted_places = [places[path].take(compute.array_sort_indices(places[path])) for path in paths]
    fields: list[Any] = [POSITIONS.field(0).with_type(names.type), POSITIONS.field(1)]
    rows = pa.Table.from_arrays([names, pa.concat_arrays(sorted_places)], schema=pa.schema(fields))
    sink = pa.BufferOutputStream()
    open_writer: Any = pq.ParquetWriter
    with open_writer(
        sink,
        rows.schema,
        compression="zstd",
        compression_level=1,
        use_dictionary=["file_path"],
        column_encoding={"pos": "DELTA_BINARY_PACKED"},
        store_schema=False,
    ) as writer:
        writer.write_table(rows)
    return memoryview(sink.getvalue()), ({_PATH_ID: paths[0].encode()}, {_PATH_ID: paths[-1].encode()})


def read_positions(data: bytes) -> pa.Table:
    """The rows of a position delete file, ``POSITIONS``; a third column with the deleted rows is left out."""
    file = pq.ParquetFile(io.BytesIO(data), read_dictionary=["file_path"])
    return file.read(columns=["file_path", "pos"])


def key_schema(schema: JsonObject, ids: Sequence[int]) -> pa.Schema:
    """The Arrow columns of the fields with these ids, in that order."""
    fields = {int(field["id"]): field for field in schema["fields"]}
    return to_arrow({**schema, "fields": [fields[field_id] for field_id in ids]})
