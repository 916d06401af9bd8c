"""Finds the rows of a table that have certain keys: file and place of each.

Only the key columns of data files are read, by ranges, and those of recent files are kept in memory up to a bound; files whose bounds
exclude all keys are not looked at. Work is proportional to the rows of the files left over, about 50 ns each.
"""

from __future__ import annotations

import io
from array import array
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from frazil.catalogs.arrow import ArrowArray
from frazil.catalogs.conform import conform
from frazil.catalogs.files import DataFile
from frazil.catalogs.locations import Locations
from frazil.catalogs.manifests import Entry
from frazil.catalogs.schema import FIELD_ID
from frazil.kit.errors import Corrupt, Missing
from frazil.kit.tasks import Offload
from frazil.objects.port import ObjectStore

PLACE: Final = "__place"
_FOOTER_BYTES: Final = 64 * 1024
_GAP_BYTES: Final = 256 * 1024
_compute: Any = pc


@dataclass(frozen=True, slots=True, kw_only=True)
class Hits:
    """Rows found in one data file: the wanted columns, and the place of each in ``PLACE``."""

    entry: Entry
    rows: pa.Table


class KeyFinder:
    """Looks keys up. Keeps the columns of the files it looked at last, ``bytes_max`` of them."""

    def __init__(self, objects: ObjectStore, offload: Offload, *, bytes_max: int) -> None:
        self._objects = objects
        self._locations = Locations(objects)
        self._offload = offload
        self._bytes_max = bytes_max
        self._kept: OrderedDict[tuple[str, ...], pa.Table] = OrderedDict()
        self._bytes = 0

    async def find(self, entries: Iterable[Entry], keys: pa.Table, schema: pa.Schema) -> list[Hits]:
        """The rows of data files whose key is one of ``keys``.

        ``schema``: the columns of the answer as the table has them, with field ids; the first are those of ``keys``, all of them. Nulls are
        equal to nothing. Raises Corrupt, RetryLater.
        """
        if not keys.num_rows:
            return []
        wanted = storage(keys)
        ends = _ends(wanted)
        found: list[Hits] = []
        for entry in entries:
            if not _may_hold(entry.file, schema, ends):
                continue
            columns = await self.columns(entry, schema)
            rows = await self._offload.run(lambda columns=columns: match(columns, wanted))  # type: ignore[misc]  # bound now
            if rows.num_rows:
                found.append(Hits(entry=entry, rows=rows))
        return found

    async def columns(self, entry: Entry, schema: pa.Schema) -> pa.Table:
        """Columns of a data file, found by field id; what the file does not have is null."""
        name = (entry.file.path, *schema.names, *map(str, schema.types))
        kept = self._kept.get(name)
        if kept is None:
            sparse = await read_sparse(self._objects, self._locations.key_of(entry.file.path), entry.file, schema)
            kept = await self._offload.run(lambda: storage(read_by_id(sparse, schema, entry.file.path)))
            self._keep(name, kept)
        else:
            self._kept.move_to_end(name)
        return kept

    def forget(self, paths: Iterable[str]) -> None:
        """Files that are gone need no room."""
        gone = frozenset(paths)
        for name in [name for name in self._kept if name[0] in gone]:
            self._bytes -= self._kept.pop(name).nbytes

    def _keep(self, name: tuple[str, ...], columns: pa.Table) -> None:
        if columns.nbytes > self._bytes_max:
            return
        self._kept[name] = columns
        self._bytes += columns.nbytes
        while self._bytes > self._bytes_max:
            _, old = self._kept.popitem(last=False)
            self._bytes -= old.nbytes


def storage(rows: pa.Table) -> pa.Table:
    """Columns of extension types (uuid) as what they are stored as: those can be compared."""
    fields: list[Any] = list(rows.schema)
    if not any(isinstance(field.type, pa.BaseExtensionType) for field in fields):
        return rows
    columns = [
        column.cast(field.type.storage_type) if isinstance(field.type, pa.BaseExtensionType) else column
        for column, field in zip(rows.columns, fields, strict=True)
    ]
    return pa.Table.from_arrays(columns, names=rows.column_names)


def match(columns: pa.Table, keys: pa.Table) -> pa.Table:
    """The rows of ``columns`` whose values in the columns of ``keys`` are among them, with their places."""
    placed = columns.append_column(PLACE, ascending(columns.num_rows))
    return placed.join(keys, keys.column_names, join_type="left semi", use_threads=False)


def unmatched(columns: pa.Table, keys: pa.Table) -> ArrowArray:
    """The places of the rows whose key is not among ``keys``, ascending."""
    placed = columns.select(keys.column_names).append_column(PLACE, ascending(columns.num_rows))
    left = placed.join(keys, keys.column_names, join_type="left anti", use_threads=False).column(PLACE).combine_chunks()
    return left.take(_compute.array_sort_indices(left))


_ASCENDING: list[ArrowArray] = [pa.array([], pa.int64())]


def ascending(count: int) -> ArrowArray:
    """0, 1, … as int64. One array serves all: they are slices of the longest that was asked for."""
    if len(_ASCENDING[0]) < count:
        numbers = array("q", range(count))
        _ASCENDING[0] = pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(numbers)])
    return _ASCENDING[0].slice(0, count)


# --- bounds ------------------------------------------------------------------------------------------------------------

_Ends = tuple[Any, Any] | None


def _ends(keys: pa.Table) -> _Ends:
    """Smallest and largest value of the first key column, in a form that compares with bounds; None: it has none."""
    column: Any = keys.column(0)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = column.cast(pa.binary())
        ends = _compute.min_max(column).as_py()
        return ends["min"], ends["max"]
    if pa.types.is_int32(column.type) or pa.types.is_int64(column.type):
        ends = _compute.min_max(column).as_py()
        return ends["min"], ends["max"]
    return None


def _may_hold(file: DataFile, schema: pa.Schema, ends: _Ends) -> bool:
    first = schema.field(0)
    field_id = int((first.metadata or {})[FIELD_ID])
    low, high = file.lower_bounds.get(field_id), file.upper_bounds.get(field_id)
    if ends is None or ends[0] is None or low is None or high is None:
        return True
    if isinstance(ends[0], bytes):
        return bool(ends[1] >= low and ends[0] <= high)
    return bool(ends[1] >= int.from_bytes(low, "little", signed=True) and ends[0] <= int.from_bytes(high, "little", signed=True))


# --- reading a few columns of a file -----------------------------------------------------------------------------------


class Sparse(io.RawIOBase):
    """A file of which some ranges are in memory; reading outside them is an error of the caller."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size
        self._at = 0
        self._parts: list[tuple[int, bytes]] = []

    def add(self, start: int, data: bytes) -> None:
        """The bytes from ``start`` on."""
        self._parts.append((start, data))

    def readable(self) -> bool:
        """See ``io``."""
        return True

    def seekable(self) -> bool:
        """See ``io``."""
        return True

    def tell(self) -> int:
        """See ``io``."""
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        """See ``io``."""
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        """See ``io``; raises OSError outside the ranges."""
        end = self._size if size < 0 else min(self._size, self._at + size)
        for start, data in self._parts:
            if start <= self._at and end <= start + len(data):
                found = data[self._at - start : end - start]
                self._at = end
                return found
        raise OSError(f"bytes {self._at} to {end} were not read")

    def size(self) -> int:
        """Of the whole file, in bytes."""
        return self._size


async def read_sparse(objects: ObjectStore, key: str, file: DataFile, schema: pa.Schema) -> Sparse:
    """The footer of a Parquet file and the column chunks of some columns."""
    size = file.size_bytes
    found = Sparse(size)
    start = max(0, size - _FOOTER_BYTES)
    try:
        tail = await objects.get(key, start=start, end=size)
        length = int.from_bytes(tail[-8:-4], "little") + 8
        if length > len(tail):
            start = max(0, size - length)
            tail = await objects.get(key, start=start, end=size)
        found.add(start, tail)
        found.add(0, b"PAR1")
        for low, high in _ranges(found, schema, file.path):
            if low < start:
                found.add(low, await objects.get(key, start=low, end=min(size, high)))
    except Missing as error:
        raise Corrupt("a live file of the table does not exist", where=file.path) from error
    return found


def _ranges(sparse: Sparse, schema: pa.Schema, where: str) -> list[tuple[int, int]]:
    """Where the chunks of the columns are, neighbours joined."""
    file = _open(sparse, where)
    names = {names_of(file, field) for field in schema}
    metadata = file.metadata
    spans: list[tuple[int, int]] = []
    for group_at in range(metadata.num_row_groups):
        group = metadata.row_group(group_at)
        for at in range(group.num_columns):
            chunk = group.column(at)
            if chunk.path_in_schema in names:
                offset: Any = chunk.dictionary_page_offset if chunk.has_dictionary_page else chunk.data_page_offset
                spans.append((int(offset), int(offset) + chunk.total_compressed_size))
    joined: list[tuple[int, int]] = []
    for low, high in sorted(spans):
        if joined and low - joined[-1][1] <= _GAP_BYTES:
            joined[-1] = (joined[-1][0], high)
        else:
            joined.append((low, high))
    return joined


def names_of(file: pq.ParquetFile, field: Any) -> str | None:  # noqa: ANN401 - an Arrow field
    """What a file calls the column with this field id; None: it does not have it."""
    wanted = (field.metadata or {})[FIELD_ID]
    for have in file.schema_arrow:
        if (have.metadata or {}).get(FIELD_ID) == wanted:
            return str(have.name)
    return None


def _open(sparse: Any, where: str) -> pq.ParquetFile:  # noqa: ANN401 - bytes or a file
    source: Any = sparse if isinstance(sparse, io.RawIOBase) else io.BytesIO(sparse)
    try:
        return pq.ParquetFile(source, pre_buffer=False)
    except (pa.ArrowInvalid, OSError) as error:
        raise Corrupt(f"not readable as Parquet: {error}", where=where) from error


def read_by_id(source: Sparse | bytes, schema: pa.Schema, where: str) -> pa.Table:
    """The columns of ``schema`` by field id: one may have been renamed or widened since, or not been there. Raises Corrupt."""
    file = _open(source, where)
    present = [(field, name) for field in schema if (name := names_of(file, field)) is not None]
    try:
        rows = file.read(columns=[name for _, name in present], use_threads=False)
    except (pa.ArrowInvalid, OSError) as error:
        raise Corrupt(f"not readable as Parquet: {error}", where=where) from error
    if not present:
        return pa.Table.from_arrays([pa.nulls(file.metadata.num_rows, field.type) for field in schema], schema=schema)
    renamed = rows.select([name for _, name in present]).rename_columns([field.name for field, _ in present])
    return conform(renamed, pa.schema([field.with_nullable(nullable=True) for field in schema]))


def key_columns(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    """The fields of these names, in that order."""
    return pa.schema([schema.field(name) for name in names])
