"""Runs of patched batches → Arrow columns, by the native kernel or by its Python twin; nobody can tell which but by speed.

A scanner takes any number of runs and gives one Arrow batch, so that the bytes of values are copied once. The rules are
those of ``scanning``: a batch that cannot be read becomes a BatchFault, its neighbours go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pyarrow as pa

from frazil.kit.errors import Corrupt
from frazil.kit.kernel import kernel
from frazil.records.batches import Bytes
from frazil.records.scanning import BatchFault, Headers, RecordColumns, Unreadable, read_batch, read_frame

BYTES_MAX: Final = 1 << 30
"""Upper bound of every limit: 32-bit Arrow offsets reach twice as far."""
ROW_BYTES: Final = 20
"""Of one record in Arrow memory, beside its key and value: offset, time, and where its headers end."""
BLOB_BYTES: Final = 4
"""Of one byte string, beside its bytes."""

_HEADER: Final = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS: Final = pa.list_(pa.field("element", _HEADER))
_FIELDS: Final[list[tuple[str, pa.DataType]]] = [
    ("offset", pa.int64()),
    ("timestamp_ms", pa.int64()),
    ("key", pa.binary()),
    ("value", pa.binary()),
    ("headers", HEADERS),
]
RECORD_SCHEMA: Final = pa.schema(_FIELDS)
_DAMAGE: Final = ("crc", "magic")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanLimits:
    """What a scanner may hold. No batch is begun at or above ``rows_max`` or ``bytes_max``, and none may decompress to more than
    ``uncompressed_bytes_max``. Values above BYTES_MAX are taken as BYTES_MAX.
    """

    uncompressed_bytes_max: int
    rows_max: int = BYTES_MAX
    bytes_max: int = BYTES_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class Scanned:
    """How far one run was used.

    ``bytes_used``: whole batches from its start. ``next_offset``: the one after them, None when no batch was used.
    ``stopped``: why the bytes after them cannot be used; without it a limit was reached, or the run ended.
    """

    bytes_used: int
    next_offset: int | None
    faults: tuple[BatchFault, ...]
    stopped: Corrupt | None


class TableScanner(Protocol):
    """Collects records. Not for two threads at once; ``add`` of the kernel lets other threads run."""

    def add(self, run: Bytes, *, first_offset: int = 0, where: str = "", stop_at_damage: bool = False) -> Scanned:
        """Adds the records of ``run`` whose offset is at least ``first_offset``, until a limit is reached.

        ``stop_at_damage``: a batch whose header cannot be trusted ends the run (``stopped``) instead of becoming a fault.
        A read-only ``run`` is not copied: nobody may write to it meanwhile.
        """
        ...

    def __len__(self) -> int:
        """Records so far."""
        ...

    @property
    def bytes_held(self) -> int:
        """Bytes of Arrow memory so far, without validity bits."""
        ...

    def finish(self) -> pa.RecordBatch:
        """All records so far, as RECORD_SCHEMA; the scanner is empty afterwards."""
        ...


def open_scanner(limits: ScanLimits, *, use_kernel: bool = True) -> TableScanner:
    """The kernel's scanner, or the twin where there is no kernel or it is not wanted."""
    native = kernel() if use_kernel else None
    return PythonScanner(limits) if native is None else NativeScanner(native, limits)


class NativeScanner:
    """The kernel's scanner."""

    def __init__(self, native: Any, limits: ScanLimits) -> None:  # noqa: ANN401 - a compiled module without types
        self._scanner = native.Scanner(
            uncompressed_bytes_max=min(limits.uncompressed_bytes_max, BYTES_MAX),
            rows_max=min(limits.rows_max, BYTES_MAX),
            bytes_max=min(limits.bytes_max, BYTES_MAX),
        )

    def __len__(self) -> int:
        return len(self._scanner)

    @property
    def bytes_held(self) -> int:
        """See TableScanner."""
        return int(self._scanner.bytes)

    def add(self, run: Bytes, *, first_offset: int = 0, where: str = "", stop_at_damage: bool = False) -> Scanned:
        """See TableScanner."""
        used, next_offset, found, stopped = self._scanner.add(run, first_offset=first_offset, stop_at_damage=stop_at_damage)
        faults = tuple(
            BatchFault(first_offset=first, last_offset=last, code=code, why=why, raw=bytes(memoryview(run)[at : at + length]))
            for first, last, code, why, at, length in found
        )
        error = None if stopped is None else Corrupt(stopped, where=f"{where or 'run'}@{used}")
        return Scanned(bytes_used=used, next_offset=next_offset, faults=faults, stopped=error)

    def finish(self) -> pa.RecordBatch:
        """See TableScanner."""
        return pa.record_batch(self._scanner.finish())


class PythonScanner:
    """The twin."""

    def __init__(self, limits: ScanLimits) -> None:
        self._bytes_max = min(limits.uncompressed_bytes_max, BYTES_MAX)
        self._rows_limit = min(limits.rows_max, BYTES_MAX)
        self._bytes_limit = min(limits.bytes_max, BYTES_MAX)
        self._columns = RecordColumns()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._columns)

    @property
    def bytes_held(self) -> int:
        """See TableScanner."""
        return self._bytes

    def add(self, run: Bytes, *, first_offset: int = 0, where: str = "", stop_at_damage: bool = False) -> Scanned:
        """See TableScanner."""
        view = memoryview(run)
        faults: list[BatchFault] = []
        position = 0
        expected: int | None = None
        stopped: Corrupt | None = None
        while position < len(view) and len(self) < self._rows_limit and self._bytes < self._bytes_limit:
            here = f"{where or 'run'}@{position}"
            try:
                batch, magic = read_frame(view, position, expected or 0, here)
            except Corrupt as error:
                stopped = error
                break
            frame = view[position : position + batch.length]
            columns = RecordColumns()
            try:
                read_batch(batch, magic, frame, columns, self._bytes_max)
            except Unreadable as error:
                if stop_at_damage and error.code in _DAMAGE:
                    stopped = Corrupt(f"batch at offset {batch.base_offset}: {error}", where=here)
                    break
                faults.append(error.fault(batch, frame))
            else:
                self._gather(columns, first_offset)
            expected = batch.last_offset + 1
            position += batch.length
        return Scanned(bytes_used=position, next_offset=expected, faults=tuple(faults), stopped=stopped)

    def _gather(self, columns: RecordColumns, first_offset: int) -> None:
        columns.drop_below(first_offset)
        self._bytes += ROW_BYTES * len(columns) + _blob_bytes(columns.keys) + _blob_bytes(columns.values)
        for pairs in filter(None, columns.headers):
            self._bytes += sum(2 * BLOB_BYTES + len(name.encode()) + len(value or b"") for name, value in pairs)
        self._columns.extend(columns)

    def finish(self) -> pa.RecordBatch:
        """See TableScanner."""
        columns, self._columns, self._bytes = self._columns, RecordColumns(), 0
        arrays: list[pa.Array[Any]] = [
            pa.array(columns.offsets, pa.int64()),
            pa.array(columns.timestamps_ms, pa.int64()),
            pa.array(columns.keys, pa.binary()),
            pa.array(columns.values, pa.binary()),
            _headers_array(columns.headers),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=RECORD_SCHEMA)


def _blob_bytes(blobs: Sequence[bytes | None]) -> int:
    return BLOB_BYTES * len(blobs) + sum(map(len, filter(None, blobs)))


def _headers_array(headers: Sequence[Headers]) -> pa.Array[Any]:
    """Header pairs → list<struct>; no headers are an empty list, not null."""
    if not any(headers):
        return pa.array([[]] * len(headers), HEADERS)
    return pa.array([[{"key": name, "value": value} for name, value in pairs] for pairs in headers], HEADERS)
