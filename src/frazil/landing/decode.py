"""Stage decode: slices of batches → rows side by side. Pure; runs in the offload, never on the loop.

Control batches move progress and make no rows (F20). A batch that cannot be decompressed or parsed is set aside whole as
a faulted batch (F28); the batches around it go on. A batch that contradicts its own checksum may only have been read
badly: its partition stops alone and is read again, and only when the caller has seen that often enough
(``accept_damage``) is the batch set aside like the others.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from frazil.kit.errors import Corrupt
from frazil.kit.names import PartitionKey
from frazil.log.refs import Slice
from frazil.records.batches import HEADER_BYTES
from frazil.records.scanning import BatchFault, RecordColumns, scan

_PIECE_BYTES: Final = 4 * 1024 * 1024
_HEADER_BYTES: Final = 100
_CODEC_AT: Final = 22  # low byte of the attributes
_CODEC_MASK: Final = 0x07
_DAMAGE: Final = ("crc", "magic")


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """``rows`` consecutive rows come from this partition."""

    key: PartitionKey
    topic: str
    rows: int


@dataclass(slots=True, kw_only=True)
class Rows:
    """Decoded records, column by column, all equally long; ``origins`` says which rows are whose, in order."""

    origins: list[Origin] = field(default_factory=list)
    offsets: array[int] = field(default_factory=lambda: array("q"))
    timestamps_ms: array[int] = field(default_factory=lambda: array("q"))
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    headers: list[tuple[tuple[str, bytes | None], ...]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.offsets)


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumed:
    """Offsets ``[first, end)`` of one partition are done with: each is a row, a dead letter, or no record at all."""

    key: PartitionKey
    topic: str
    first: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BadBatch:
    """A whole batch that nobody can decode, with the partition it sits in."""

    key: PartitionKey
    topic: str
    fault: BatchFault


@dataclass(frozen=True, slots=True, kw_only=True)
class BadPartition:
    """A partition that cannot go on now, at which stage, and why."""

    key: PartitionKey
    topic: str
    stage: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much one slice may become in memory once it is decompressed."""

    rows_max: int
    bytes_max: int
    batch_bytes_max: int
    accept_damage: frozenset[PartitionKey] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """What decoding made of the slices. ``cut`` is True when a limit was reached before all bytes were used."""

    rows: Rows
    consumed: tuple[Consumed, ...]
    bad_batches: tuple[BadBatch, ...]
    bad_partitions: tuple[BadPartition, ...]
    bytes_read: int
    bytes_held: int
    """Bytes of keys, values and headers after decompression."""
    cut: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One slice as read, with its topic's name and the offset that was asked for."""

    slice: Slice
    topic: str
    start: int


class _Tally:
    """What has been gathered so far."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.rows = Rows()
        self.consumed: list[Consumed] = []
        self.bad_batches: list[BadBatch] = []
        self.bad_partitions: list[BadPartition] = []
        self.bytes_used = 0
        self.bytes_read = 0

    @property
    def full(self) -> bool:
        return len(self.rows) >= self.limits.rows_max or self.bytes_used >= self.limits.bytes_max


def decode_slices(reads: Sequence[Read], limits: Limits) -> Decoded:
    """Rows, consumed ranges and faults of ``reads``, in order, until a limit is reached."""
    tally = _Tally(limits)
    cut = False
    for read in reads:
        if not read.slice.data and read.slice.end <= read.start:
            continue
        if tally.full:
            cut = True
            break
        end = _decode_one(read, tally)
        cut = cut or (end < read.slice.end and not tally.bad_partitions)
        if end > read.start:
            tally.consumed.append(Consumed(key=read.slice.key, topic=read.topic, first=read.start, end=end))
    return Decoded(
        rows=tally.rows,
        consumed=tuple(tally.consumed),
        bad_batches=tuple(tally.bad_batches),
        bad_partitions=tuple(tally.bad_partitions),
        bytes_read=tally.bytes_read,
        bytes_held=tally.bytes_used,
        cut=cut,
    )


def _decode_one(read: Read, tally: _Tally) -> int:
    """Adds the rows of one slice; the offset up to which it was used."""
    key = read.slice.key
    where = f"{read.topic}[{key.partition}] from {read.slice.base}"
    before = len(tally.rows)
    end = read.start
    try:
        for piece, piece_end in _pieces(read.slice, where):
            columns, faults = scan(piece, uncompressed_bytes_max=tally.limits.batch_bytes_max, where=where)
            if key not in tally.limits.accept_damage:
                _refuse_damage(faults, where)
            _gather(read, columns, tally)
            tally.bad_batches += [BadBatch(key=key, topic=read.topic, fault=fault) for fault in faults if fault.last_offset >= read.start]
            tally.bytes_read += len(piece)
            end = piece_end
            if tally.full:
                break
        else:
            end = max(end, read.slice.end)
    except Corrupt as error:
        tally.bad_partitions.append(BadPartition(key=key, topic=read.topic, stage="decode", why=str(error)))
    if len(tally.rows) > before:
        tally.rows.origins.append(Origin(key=key, topic=read.topic, rows=len(tally.rows) - before))
    return end


def _refuse_damage(faults: Sequence[BatchFault], where: str) -> None:
    for fault in faults:
        if fault.code in _DAMAGE:
            raise Corrupt(f"batch at offset {fault.first_offset}: {fault.why}", where=where)


def _gather(read: Read, columns: RecordColumns, tally: _Tally) -> None:
    """Appends decoded columns, without the records below the offset that was asked for (a batch may begin before it)."""
    rows = tally.rows
    skip = bisect_left(columns.offsets, read.start)
    if skip:
        rows.offsets.extend(columns.offsets[skip:])
        rows.timestamps_ms.extend(columns.timestamps_ms[skip:])
    else:
        rows.offsets.extend(columns.offsets)
        rows.timestamps_ms.extend(columns.timestamps_ms)
    keys = columns.keys[skip:] if skip else columns.keys
    values = columns.values[skip:] if skip else columns.values
    headers = columns.headers[skip:] if skip else columns.headers
    rows.keys += keys
    rows.values += values
    rows.headers += headers
    tally.bytes_used += sum(map(len, filter(None, values))) + sum(map(len, filter(None, keys))) + _header_bytes(headers)


def _header_bytes(headers: Sequence[tuple[tuple[str, bytes | None], ...]]) -> int:
    """What headers take in memory, about: small ones cost more as objects than as bytes."""
    return sum(_HEADER_BYTES + len(name) + len(value or b"") for pairs in filter(None, headers) for name, value in pairs)


def _pieces(slice_: Slice, where: str) -> Iterator[tuple[memoryview, int]]:
    """The slice cut at batch borders into pieces, each with the offset that follows it, so limits act early.

    A piece has a few MiB of plain batches, or one compressed batch: nobody knows what several of those become together.
    """
    data = memoryview(slice_.data)
    start = position = 0
    packed = False
    while position < len(data):
        length = int.from_bytes(data[position + 8 : position + 12], "big") if position + HEADER_BYTES <= len(data) else 0
        if length <= 0:
            raise Corrupt("a batch frame is cut or has no length", where=f"{where} at byte {position}")
        packed, after_packed = data[position + _CODEC_AT] & _CODEC_MASK != 0, packed
        if position > start and (packed or after_packed or position - start >= _PIECE_BYTES):
            yield data[start:position], int.from_bytes(data[position : position + 8], "big")
            start = position
        position += 12 + length
    if start < len(data):
        yield data[start:], slice_.end
