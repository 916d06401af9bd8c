"""Stage decode: slices of batches → rows side by side. Pure; runs in the offload, never on the loop.

Control batches move progress and make no rows, nor do batches of aborted transactions; a slice ends before the first batch
of a transaction that is not decided yet (F20, ``records.transactions``).
A batch that cannot be decompressed or parsed is set aside whole as a faulted batch (F28); the batches around it go on. A batch
that contradicts its own checksum may only have been read badly: its partition stops alone and is read again, and only when
the caller has seen that often enough (``accept_damage``) is the batch set aside like the others.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from frazil.kit.names import PartitionKey
from frazil.log.refs import Slice
from frazil.records.scanning import BatchFault
from frazil.records.tables import ScanLimits, Scanned, TableScanner, open_scanner
from frazil.records.transactions import Committed, Held, look_ahead, read_committed


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """``rows`` consecutive rows come from this partition."""

    key: PartitionKey
    topic: str
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Decoded records as columns (``records.tables.RECORD_SCHEMA``); ``origins`` says which rows are whose, in order."""

    origins: tuple[Origin, ...]
    records: pa.RecordBatch

    def __len__(self) -> int:
        return self.records.num_rows


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
    may_pass: bool = False
    """Somebody else will end it sooner or later, as a producer its transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much one slice may become in memory once it is decompressed."""

    rows_max: int
    bytes_max: int
    batch_bytes_max: int
    accept_damage: frozenset[PartitionKey] = frozenset()
    use_kernel: bool = True
    """False: the Python twin decodes, whatever is installed."""
    committed_only: bool = True
    """False: records of transactions that were aborted or are open become rows too."""
    held: Mapping[PartitionKey, Held] = field(default_factory=dict)
    """What is known of partitions that a transaction has stopped before. A read of one that is undecided only looks for markers."""
    ends: Mapping[PartitionKey, int] = field(default_factory=dict)
    """Nothing of these offsets or after them is wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """What decoding made of the slices. ``cut`` is True when a limit was reached before all bytes were used."""

    rows: Rows
    consumed: tuple[Consumed, ...]
    bad_batches: tuple[BadBatch, ...]
    bad_partitions: tuple[BadPartition, ...]
    bytes_read: int
    bytes_held: int
    """Bytes of keys, values and headers after decompression, as columns in memory."""
    cut: bool
    held: Mapping[PartitionKey, Held] = field(default_factory=dict)
    """Partitions that wait for the end of a transaction, and what is known of them now."""


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
        scan_limits = ScanLimits(uncompressed_bytes_max=limits.batch_bytes_max, rows_max=limits.rows_max, bytes_max=limits.bytes_max)
        self.scanner: TableScanner = open_scanner(scan_limits, use_kernel=limits.use_kernel)
        self.origins: list[Origin] = []
        self.consumed: list[Consumed] = []
        self.bad_batches: list[BadBatch] = []
        self.bad_partitions: list[BadPartition] = []
        self.held: dict[PartitionKey, Held] = {}
        self.bytes_read = 0

    @property
    def full(self) -> bool:
        return len(self.scanner) >= self.limits.rows_max or self.scanner.bytes_held >= self.limits.bytes_max


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
        known = limits.held.get(read.slice.key)
        if known is not None and not known.decided:
            tally.held[read.slice.key] = look_ahead(read.slice.data, known, end=read.slice.end)
            continue
        wanted = min(read.slice.end, limits.ends.get(read.slice.key, read.slice.end))
        end = min(_decode_one(read, tally), wanted)
        cut = cut or (end < wanted and not tally.bad_partitions and read.slice.key not in tally.held)
        if end > read.start:
            tally.consumed.append(Consumed(key=read.slice.key, topic=read.topic, first=read.start, end=end))
    bytes_held = tally.scanner.bytes_held
    rows = Rows(origins=tuple(tally.origins), records=tally.scanner.finish())
    return Decoded(
        rows=_trimmed(rows, limits.ends) if limits.ends else rows,
        consumed=tuple(tally.consumed),
        bad_batches=tuple(tally.bad_batches),
        bad_partitions=tuple(tally.bad_partitions),
        bytes_read=tally.bytes_read,
        bytes_held=bytes_held,
        cut=cut,
        held=tally.held,
    )


def _decode_one(read: Read, tally: _Tally) -> int:
    """Adds the rows of one slice, without those below the offset asked for (a batch may begin before it); up to where it was used."""
    key, slice_ = read.slice.key, read.slice
    before = len(tally.scanner)
    found = _committed(read, tally.limits)
    reached, whole = 0, True
    for begin, end in found.ranges:
        scanned = _scan(read, begin, end, tally)
        reached = scanned.next_offset or reached
        whole = scanned.bytes_used == end - begin
        if not whole:
            break
    if (rows := len(tally.scanner) - before) > 0:
        tally.origins.append(Origin(key=key, topic=read.topic, rows=rows))
    if not whole:
        return max(read.start, reached)
    if found.held is not None:
        if found.held.first.first_offset < tally.limits.ends.get(key, slice_.end):
            tally.held[key] = found.held
        return max(read.start, found.held.first.first_offset)
    return max(read.start, slice_.end)


def _committed(read: Read, limits: Limits) -> Committed:
    """Which bytes of the slice are for the table."""
    data = read.slice.data
    if not limits.committed_only:
        return Committed(ranges=((0, len(data)),) if data else (), held=None)
    return read_committed(data, end=read.slice.end, known=limits.held.get(read.slice.key))


def _scan(read: Read, begin: int, end: int, tally: _Tally) -> Scanned:
    """Adds the rows of a part of one slice and the faults in it."""
    key, data = read.slice.key, read.slice.data
    scanned = tally.scanner.add(
        data if end - begin == len(data) else memoryview(data)[begin:end],
        first_offset=read.start,
        where=f"{read.topic}[{key.partition}] from {read.slice.base}" + (f"+{begin}" if begin else ""),
        stop_at_damage=key not in tally.limits.accept_damage,
    )
    tally.bytes_read += scanned.bytes_used
    until = tally.limits.ends.get(key, read.slice.end)
    tally.bad_batches += [
        BadBatch(key=key, topic=read.topic, fault=fault)
        for fault in scanned.faults
        if fault.last_offset >= read.start and fault.first_offset < until
    ]
    if scanned.stopped is not None:
        tally.bad_partitions.append(BadPartition(key=key, topic=read.topic, stage="decode", why=str(scanned.stopped)))
    return scanned


def _trimmed(rows: Rows, ends: Mapping[PartitionKey, int]) -> Rows:
    """The rows below the end of their partition; a batch may go on after it."""
    if not any(origin.key in ends for origin in rows.origins):
        return rows
    offsets = rows.records.column("offset")
    origins, parts, at = [], [rows.records.slice(0, 0)], 0
    for origin in rows.origins:
        end = ends.get(origin.key)
        kept = origin.rows if end is None else bisect_left(offsets, end, at, at + origin.rows, key=lambda value: value.as_py()) - at
        if kept:
            origins.append(replace(origin, rows=kept))
            parts.append(rows.records.slice(at, kept))
        at += origin.rows
    (records,) = pa.Table.from_batches(parts).combine_chunks().to_batches() or (parts[0],)
    return Rows(origins=tuple(origins), records=records)
