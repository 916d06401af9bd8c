"""Runs of patched batches → columns of records: the Python twin of the native scan kernel, same contract.

One batch that cannot be read becomes a BatchFault and leaves the others alone. Only a run whose frames cannot be walked,
or whose offsets do not increase (bytes that did not pass ``patch``, R31), fails as a whole.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from crc32c import crc32c

from frazil.kit.errors import Corrupt, Refused
from frazil.records.batches import HEADER_BYTES, OFFSET_MAX, Batch, Bytes
from frazil.records.codecs import decompress

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]
FaultCode: TypeAlias = Literal["magic", "crc", "counts", "codec", "decompress", "records"]

RECORD_OVERHEAD: Final = 28
"""Bytes a record takes as columns, beside its key, value and headers."""
HEADER_OVERHEAD: Final = 8
OVERHEAD_FLOOR: Final = 16 << 20
"""So much overhead a batch may have, whatever the limit is."""
_HEADER: Final = struct.Struct(">qiibIhiqqqhii")


@dataclass(slots=True, kw_only=True)
class RecordColumns:
    """The data records of a run, one entry per record in every column, offsets strictly increasing."""

    offsets: array[int] = field(default_factory=lambda: array("q"))
    timestamps_ms: array[int] = field(default_factory=lambda: array("q"))
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    headers: list[Headers] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.offsets)

    def cut(self, length: int) -> None:
        """Keeps the first ``length`` records."""
        for column in (self.offsets, self.timestamps_ms, self.keys, self.values, self.headers):
            del column[length:]

    def drop_below(self, offset: int) -> None:
        """Drops the records with an offset below ``offset``."""
        if at := bisect_left(self.offsets, offset):
            for column in (self.offsets, self.timestamps_ms, self.keys, self.values, self.headers):
                del column[:at]

    def extend(self, other: RecordColumns) -> None:
        """Appends the records of ``other``."""
        self.offsets.extend(other.offsets)
        self.timestamps_ms.extend(other.timestamps_ms)
        self.keys += other.keys
        self.values += other.values
        self.headers += other.headers


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFault:
    """A batch without readable records: offsets ``first_offset``-``last_offset`` (by its header), its whole frame as ``raw``.

    ``code`` "crc" or "magic" says the header itself cannot be trusted: the bytes were damaged at rest or written by
    something that does not check. The other codes name what a producer did wrong.
    """

    first_offset: int
    last_offset: int
    code: FaultCode
    why: str
    raw: bytes


class Unreadable(Exception):
    """Why one batch is given up; never leaves the room."""

    def __init__(self, code: FaultCode, why: str) -> None:
        super().__init__(why)
        self.code: FaultCode = code

    def fault(self, batch: Batch, frame: memoryview) -> BatchFault:
        """What becomes of ``batch``."""
        return BatchFault(first_offset=batch.base_offset, last_offset=batch.last_offset, code=self.code, why=str(self), raw=bytes(frame))


def scan(run: Bytes, *, uncompressed_bytes_max: int, where: str = "") -> tuple[RecordColumns, tuple[BatchFault, ...]]:
    """All data records of a patched run, and the batches that could not be read. Control batches are skipped.

    ``uncompressed_bytes_max`` bounds each batch: its bytes, and likewise what its records and headers take beside them, since
    two bytes can be a header. Raises Corrupt naming ``where`` and the byte position when the frames
    cannot be walked or a base offset is below the offset expected next.
    """
    view = memoryview(run)
    columns = RecordColumns()
    faults: list[BatchFault] = []
    position = 0
    expected = 0
    while position < len(view):
        batch, magic = read_frame(view, position, expected, f"{where or 'run'}@{position}")
        frame = view[position : position + batch.length]
        mark = len(columns)
        try:
            read_batch(batch, magic, frame, columns, uncompressed_bytes_max)
        except Unreadable as error:
            columns.cut(mark)
            faults.append(error.fault(batch, frame))
        expected = batch.last_offset + 1
        position += batch.length
    return columns, tuple(faults)


def read_frame(view: memoryview, position: int, expected: int, where: str) -> tuple[Batch, int]:
    """The batch at ``position`` and its magic; only what is needed to walk on is checked, and that offsets go up."""
    left = len(view) - position
    if left < HEADER_BYTES:
        raise Corrupt(f"{left} bytes are too few for a batch header", where=where)
    base, rest, _, magic, crc, attributes, last, first_ms, max_ms, pid, epoch, sequence, count = _HEADER.unpack_from(view, position)
    length = rest + 12
    if not HEADER_BYTES <= length <= left or last < 0 or not 0 <= base <= OFFSET_MAX - last:
        raise Corrupt(f"a batch of {length} bytes (of {left}), base offset {base}, last offset delta {last} cannot be", where=where)
    if base < expected:
        raise Corrupt(f"base offset {base} is below {expected}; was the run patched?", where=where)
    return Batch(position, length, base, attributes, last, first_ms, max_ms, pid, epoch, sequence, count, crc), magic


def _check(batch: Batch, magic: int, frame: memoryview) -> None:
    if magic != 2:
        raise Unreadable("magic", f"magic {magic} is not 2")
    if crc32c(frame[21:]) != batch.crc:
        raise Unreadable("crc", f"CRC-32C is not {batch.crc:08x} as the header says")
    if not 0 <= batch.record_count <= batch.last_offset_delta + 1:
        raise Unreadable("counts", f"{batch.record_count} records cannot have last offset delta {batch.last_offset_delta}")


def read_batch(batch: Batch, magic: int, frame: memoryview, columns: RecordColumns, bytes_max: int) -> None:
    """Appends the records of one batch, none of a control batch. Raises Unreadable, then part of them may be there."""
    _check(batch, magic, frame)
    if batch.is_control:
        return
    try:
        codec = batch.codec
    except Refused as error:
        raise Unreadable("codec", str(error)) from error
    try:
        data = decompress(codec, frame[HEADER_BYTES:], bytes_max=bytes_max)
    except Corrupt as error:
        raise Unreadable("decompress", error.why) from error
    try:
        end = _read_records(batch, data, columns, max(bytes_max, OVERHEAD_FLOOR) - RECORD_OVERHEAD * batch.record_count)
    except IndexError:
        raise Unreadable("records", f"records end inside record {len(columns.offsets)}") from None
    except (ValueError, OverflowError) as error:
        raise Unreadable("records", f"record is malformed: {error}") from error
    if end != len(data):
        raise Unreadable("records", f"{len(data) - end} bytes follow the last record")


def _read_records(batch: Batch, data: bytes, columns: RecordColumns, room: int) -> int:
    """Appends the records in ``data`` and returns where they end. ``room``: bytes their headers may take beside their own.

    IndexError: ``data`` is too short; ValueError, OverflowError: a field is wrong. Varints of one byte that are not
    negative, nearly all, are read in place: ``n & 0x81`` is 0 for them. A length that leads out of the record is caught
    by ``pos != end``, since ``pos`` never goes back.
    """
    add_offset, add_time = columns.offsets.append, columns.timestamps_ms.append
    add_key, add_value, add_headers = columns.keys.append, columns.values.append, columns.headers.append
    base, first_ms, last_delta, previous, pos = batch.base_offset, batch.base_timestamp_ms, batch.last_offset_delta, -1, 0
    append_ms = batch.max_timestamp_ms if batch.is_log_append_time else None
    if room < 0:
        raise ValueError(f"{batch.record_count} records in one batch are too many")
    headers_left = room // HEADER_OVERHEAD
    for _ in range(batch.record_count):
        length, pos = _varint(data, pos) if (n := data[pos]) & 0x81 else (n >> 1, pos + 1)
        end = pos + length
        pos += 1  # the attributes byte is unused
        time_delta, pos = _varint(data, pos) if (n := data[pos]) & 0x81 else (n >> 1, pos + 1)
        delta, pos = _varint(data, pos) if (n := data[pos]) & 0x81 else (n >> 1, pos + 1)
        if not previous < delta <= last_delta:
            raise ValueError(f"offset delta {delta} after {previous} in a batch whose last is {last_delta}")
        previous = delta
        size, pos = _size(data, pos) if (n := data[pos]) & 0x81 else (n >> 1, pos + 1)
        if size < 0:
            add_key(None)
        else:
            add_key(data[pos : pos + size])
            pos += size
        size, pos = _size(data, pos) if (n := data[pos]) & 0x81 else (n >> 1, pos + 1)
        if size < 0:
            add_value(None)
        else:
            add_value(data[pos : pos + size])
            pos += size
        if data[pos] == 0:
            pos += 1
            add_headers(())
        else:
            headers, pos = _headers(data, pos, headers_left)
            headers_left -= len(headers)
            add_headers(headers)
        if pos != end:
            raise ValueError(f"record {delta} ends at byte {pos}, not {end} as its length says")
        add_offset(base + delta)
        add_time(first_ms + time_delta if append_ms is None else append_ms)
    return pos


def _varint(data: bytes, pos: int) -> tuple[int, int]:
    """The zig-zag varint of at most 10 bytes at ``pos``, and the position after it."""
    raw = data[pos]
    if raw < 0x80:
        return (raw >> 1) ^ -(raw & 1), pos + 1
    byte = data[pos + 1]
    raw = (raw & 0x7F) | (byte & 0x7F) << 7
    pos += 2
    shift = 14
    while byte >= 0x80:
        if shift == 70:
            raise ValueError("varint of more than 10 bytes")
        byte = data[pos]
        raw |= (byte & 0x7F) << shift
        pos += 1
        shift += 7
    return (raw >> 1) ^ -(raw & 1), pos


def _size(data: bytes, pos: int) -> tuple[int, int]:
    """A length: -1 is null."""
    if data[pos] == 1:
        return -1, pos + 1
    size, pos = _varint(data, pos)
    if size < -1:
        raise ValueError(f"length {size} is negative")
    return size, pos


def _headers(data: bytes, pos: int, count_max: int) -> tuple[Headers, int]:
    count, pos = _size(data, pos)
    if not 0 <= count <= count_max:
        raise ValueError(f"{count} headers are too few or too many")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        size, pos = _size(data, pos)
        if size < 0:
            raise ValueError("header key is null")
        key = data[pos : pos + size].decode()
        pos += size
        size, pos = _size(data, pos)
        headers.append((key, None if size < 0 else data[pos : pos + size]))
        pos += max(size, 0)
    return tuple(headers), pos
