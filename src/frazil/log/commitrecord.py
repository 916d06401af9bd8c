"""The commit record: what one sequencer transaction says about one bundle (R02, R04). Created once, never changed.

Little-endian. A fixed front, then a body (zlib when flag bit 0 is set) packed by column:

| size | field        | note                                                    |
|------|--------------|---------------------------------------------------------|
| 1    | format       | 1                                                       |
| 1    | flags        | bit 0: body is zlib                                     |
| 2    | chunk        | several transactions may share one bundle               |
| 8    | created ms   | clock of the broker, when the flush was cut             |
| 8    | bundle bytes | size of the object                                      |
| 26   | ulid         | ASCII; names the bundle                                 |
| body |              | counts u32: sections, topics, rows, deltas; topic ids (16 each); |
|      | sections     | shard u16, version u64 (the shard's version after it), rows u32, deltas u32 |
|      | rows         | topic u32, partition i32, base i64, offsets u32, position u32, length u32, first ms i64, max ms i64, batches u32 |
|      | deltas       | row u32, producer i64, epoch i16, first sequence i32, last sequence i32, base offset i64 |
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NamedTuple

from frazil.kit.errors import Corrupt
from frazil.kit.names import TopicId

FORMAT: Final = 1
ROW_BYTES: Final = 48
DELTA_BYTES: Final = 30
SECTION_BYTES: Final = 18
TOPIC_BYTES: Final = 16
_FRONT: Final = struct.Struct("<BBHqQ26s")
_COUNTS: Final = struct.Struct("<IIII")
FIXED_BYTES: Final = _FRONT.size + _COUNTS.size
BODY_BYTES_MAX: Final = 16 * 1024 * 1024
"""A body inflates to at most this; far above what a transaction of 512 KiB can honestly hold."""
_SECTIONS: Final = "HQII"
_ROWS: Final = "IiqIIIqqI"
_DELTAS: Final = "Iqhiiq"
_ZLIB: Final = 1
_SMALL: Final = 256


class Row(NamedTuple):
    """Contiguous offsets of one partition that are contiguous bytes of the bundle."""

    topic_id: TopicId
    partition: int
    base: int
    offsets: int
    position: int
    length: int
    first_timestamp_ms: int
    max_timestamp_ms: int
    batches: int


class Delta(NamedTuple):
    """One idempotent batch: what it does to the state of its producer. ``row`` counts within the section."""

    row: int
    producer_id: int
    epoch: int
    first_sequence: int
    last_sequence: int
    base_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """The part of one shard; ``version`` is the shard's dense version after it."""

    shard: int
    version: int
    rows: Sequence[Row]
    deltas: Sequence[Delta]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRecord:
    """All sections of one (bundle, chunk)."""

    ulid: str
    chunk: int
    created_ms: int
    bundle_bytes: int
    sections: tuple[Section, ...]


def encode_commit(record: CommitRecord) -> bytes:
    """The stored form."""
    topics: dict[TopicId, int] = {}
    rows: list[tuple[int, ...]] = []
    deltas: list[tuple[int, ...]] = []
    for section in record.sections:
        first = len(rows)
        rows += [(topics.setdefault(row[0], len(topics)), *row[1:]) for row in section.rows]
        deltas += [(first + delta[0], *delta[1:]) for delta in section.deltas]
    sections = [(section.shard, section.version, len(section.rows), len(section.deltas)) for section in record.sections]
    body = b"".join(
        (
            _COUNTS.pack(len(sections), len(topics), len(rows), len(deltas)),
            *topics,
            _pack(_SECTIONS, sections),
            _pack(_ROWS, rows),
            _pack(_DELTAS, deltas),
        )
    )
    flags = 0
    if len(body) > _SMALL:
        body = zlib.compress(body, 1)
        flags = _ZLIB
    return _FRONT.pack(FORMAT, flags, record.chunk, record.created_ms, record.bundle_bytes, record.ulid.encode()) + body


def decode_commit(value: bytes, *, where: str) -> CommitRecord:
    """Raises Corrupt when the value is not a commit record of a known format."""
    try:
        format_, flags, chunk, created_ms, bundle_bytes, ulid = _FRONT.unpack_from(value)
        if format_ != FORMAT:
            raise Corrupt(f"commit record of format {format_}; this version reads {FORMAT}", where=where)
        name = ulid.decode("ascii")
        sections = _decode_body(_inflate(value[_FRONT.size :], where) if flags & _ZLIB else value[_FRONT.size :])
    except (struct.error, zlib.error, IndexError, ValueError) as error:
        raise Corrupt(f"commit record is damaged: {error}", where=where) from error
    return CommitRecord(ulid=name, chunk=chunk, created_ms=created_ms, bundle_bytes=bundle_bytes, sections=sections)


def _inflate(packed: bytes, where: str) -> bytes:
    inflater = zlib.decompressobj()
    body = inflater.decompress(packed, BODY_BYTES_MAX)
    if inflater.unconsumed_tail or not inflater.eof:
        raise Corrupt(f"commit record's body is cut or above {BODY_BYTES_MAX} bytes", where=where)
    return body


def _decode_body(body: bytes) -> tuple[Section, ...]:
    section_count, topic_count, row_count, delta_count = _COUNTS.unpack_from(body)
    position = _COUNTS.size
    topics = [TopicId(topic) for (topic,) in struct.iter_unpack("16s", body[position : position + TOPIC_BYTES * topic_count])]
    position += TOPIC_BYTES * topic_count
    marks, position = _unpack(_SECTIONS, section_count, body, position)
    columns, position = _unpack(_ROWS, row_count, body, position)
    rows = [Row._make((topics[row[0]], *row[1:])) for row in zip(*columns, strict=True)]
    columns, position = _unpack(_DELTAS, delta_count, body, position)
    deltas = list(zip(*columns, strict=True))
    if position != len(body):
        raise ValueError(f"{len(body) - position} bytes too many")
    sections: list[Section] = []
    row_at = delta_at = 0
    for shard, version, rows_here, deltas_here in zip(*marks, strict=True):
        here = [Delta(delta[0] - row_at, *delta[1:]) for delta in deltas[delta_at : delta_at + deltas_here]]
        if any(not 0 <= delta.row < rows_here for delta in here):
            raise ValueError(f"a delta of shard {shard} names a row outside its section")
        sections.append(Section(shard=shard, version=version, rows=rows[row_at : row_at + rows_here], deltas=here))
        row_at += rows_here
        delta_at += deltas_here
    if (row_at, delta_at) != (row_count, delta_count):
        raise ValueError("the sections do not cover the rows")
    return tuple(sections)


def _pack(codes: str, rows: list[Any]) -> bytes:
    count = len(rows)
    return struct.pack("<" + "".join(f"{count}{code}" for code in codes), *chain.from_iterable(zip(*rows, strict=True))) if count else b""


def _unpack(codes: str, count: int, body: bytes, position: int) -> tuple[list[tuple[int, ...]], int]:
    columns = []
    for code in codes:
        form = f"<{count}{code}"
        columns.append(struct.unpack_from(form, body, position))
        position += struct.calcsize(form)
    return columns, position
