"""The segment file ``.kfs`` version 1, byte-compatible with KafScale v0.9-v1.6 (docs/formats/kfs.md)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

from frazil.kit.errors import Corrupt, Refused
from frazil.records.batches import OFFSET_MAX, Batch, Bytes, split_batches
from frazil.segments.indexes import INTERVAL_RECORDS, POSITION_MAX, SEGMENT_HEADER_BYTES, SparseIndex, index_of

FOOTER_BYTES: Final = 16
"""What a reader fetches from the end to learn the last offset and that the segment is whole."""

_MAGIC: Final = b"KAFS"
_END: Final = b"END!"
_VERSION: Final = 1
_HEADER: Final = struct.Struct(">4sHHqiqI")
_FOOTER: Final = struct.Struct(">Iq4s")
_COUNT_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentBytes:
    """A built segment: two objects and what the log keeps about them. ``crc`` is the CRC-32C of the body."""

    kfs: bytes
    index: bytes
    base: int
    last_offset: int
    records: int
    crc: int
    batches: tuple[Batch, ...]
    """Positions count from the start of the body, that is from byte 32 of the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentView:
    """A segment that passed every check. ``body`` looks into the caller's buffer; batch positions count from its start."""

    base_offset: int
    last_offset: int
    message_count: int
    created_ms: int
    crc: int
    body: memoryview
    batches: tuple[Batch, ...]


def build_segment(body_batches: Sequence[Bytes], *, created_ms: int) -> SegmentBytes:
    """One segment from patched runs in offset order, each of one or more batches; same input, same bytes (R05).

    Raises Refused when there is nothing to write or it does not fit the format (2 GiB, 2^31 - 1 records), Corrupt when a
    run is damaged or offsets do not increase.
    """
    body = b"".join(body_batches)
    if not body:
        raise Refused("a segment needs at least one batch")
    if SEGMENT_HEADER_BYTES + len(body) > POSITION_MAX:
        raise Refused(f"a segment of {len(body)} bytes is beyond 2 GiB; seal smaller segments")
    batches = tuple(split_batches(body, batch_bytes_max=len(body), where="segment body"))
    _check_order(batches, "segment body")
    base, last, records, crc = batches[0].base_offset, batches[-1].last_offset, sum(b.record_count for b in batches), crc32c(body)
    if records > _COUNT_MAX:
        raise Refused(f"a segment cannot count {records} records; seal smaller segments")
    head = _HEADER.pack(_MAGIC, _VERSION, 0, base, records, created_ms, 0)
    kfs = b"".join((head, body, _FOOTER.pack(crc, last, _END)))
    index = index_of(batches).encode()
    return SegmentBytes(kfs=kfs, index=index, base=base, last_offset=last, records=records, crc=crc, batches=batches)


def read_segment(data: Bytes, *, where: str, batch_bytes_max: int) -> SegmentView:
    """Checks a whole ``.kfs`` object: magic, version, zero fields, body CRC, each batch, order of offsets, counts.

    Raises Corrupt naming ``where``. Nothing checks the ``created`` field: it is covered by no checksum.
    """
    view = memoryview(data)
    if len(view) <= SEGMENT_HEADER_BYTES + FOOTER_BYTES:
        raise Corrupt(f"{len(view)} bytes are too few for a segment", where=where)
    head = read_header(view[:SEGMENT_HEADER_BYTES], where=where)
    base, count, created_ms = head.base_offset, head.message_count, head.created_ms
    crc, last = read_footer(view[-FOOTER_BYTES:], where=where)
    body = view[SEGMENT_HEADER_BYTES:-FOOTER_BYTES]
    if crc32c(body) != crc:
        raise Corrupt(f"CRC-32C of the body is not {crc:08x} as its footer says", where=where)
    batches = tuple(split_batches(body, batch_bytes_max=batch_bytes_max, where=f"{where}+{SEGMENT_HEADER_BYTES}"))
    _check_order(batches, where)
    records = sum(batch.record_count for batch in batches)
    if (base, count, last) != (batches[0].base_offset, records, batches[-1].last_offset):
        raise Corrupt(
            f"header and footer say base {base}, {count} records, last {last}; the body holds base {batches[0].base_offset}, "
            f"{records} records, last {batches[-1].last_offset}",
            where=where,
        )
    return SegmentView(base_offset=base, last_offset=last, message_count=count, created_ms=created_ms, crc=crc, body=body, batches=batches)


def check_index(index: SparseIndex, segment: SegmentView, *, where: str, interval: int = INTERVAL_RECORDS) -> None:
    """Raises Corrupt unless ``index`` is exactly the one ``segment`` must have; the cure is to rebuild it with ``index_of``."""
    if index != index_of(segment.batches, interval=interval):
        raise Corrupt("the index does not belong to its segment; rebuild it from the segment", where=where)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentHead:
    """What the first 32 bytes say. No checksum covers them."""

    base_offset: int
    message_count: int
    created_ms: int


def read_header(head: Bytes, *, where: str) -> SegmentHead:
    """The first 32 bytes of a segment. Raises Corrupt when they are none, or of a version this reader does not know."""
    if len(head) != SEGMENT_HEADER_BYTES:
        raise Corrupt(f"a segment's header has {SEGMENT_HEADER_BYTES} bytes, not {len(head)}", where=where)
    magic, version, flags, base, count, created_ms, reserved = _HEADER.unpack(head)
    if magic != _MAGIC:
        raise Corrupt(f"magic {magic!r} is not that of a segment", where=where)
    if version != _VERSION or flags != 0 or reserved != 0:
        raise Corrupt(f"version {version}, flags {flags}, reserved {reserved} are unknown; this reader knows 1, 0, 0", where=where)
    return SegmentHead(base_offset=base, message_count=count, created_ms=created_ms)


def read_footer(tail: Bytes, *, where: str) -> tuple[int, int]:
    """(body CRC, last offset) from the last 16 bytes of a segment. Raises Corrupt when they are no footer."""
    if len(tail) != FOOTER_BYTES:
        raise Corrupt(f"a footer has {FOOTER_BYTES} bytes, not {len(tail)}", where=where)
    crc, last, end = _FOOTER.unpack(tail)
    if end != _END or last < 0:
        raise Corrupt(f"the footer ends with {end!r} after last offset {last}; the segment is not whole", where=where)
    return crc, last


def _check_order(batches: tuple[Batch, ...], where: str) -> None:
    expected = 0
    for batch in batches:
        if not expected <= batch.base_offset <= OFFSET_MAX - batch.last_offset_delta:
            raise Corrupt(f"base offset {batch.base_offset} of the batch at byte {batch.position} is not ≥ {expected}", where=where)
        expected = batch.last_offset + 1
