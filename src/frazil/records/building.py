"""Builds batches as a client would: for tests, the CLI, simulated clients and transaction markers."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

from frazil.kit.errors import Refused
from frazil.records.codecs import Codec, compress

_AFTER_CRC: Final = struct.Struct(">hiqqqhii")


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record as an application sees it."""

    key: bytes | None = None
    value: bytes | None = None
    timestamp_ms: int = 0
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """Everything of a batch that is not its records; the defaults are those of a client without idempotence."""

    codec: Codec = Codec.NONE
    base_offset: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    transactional: bool = False
    control: bool = False
    log_append_time_ms: int | None = None
    """Sets attribute bit 3 and the max timestamp."""
    offset_deltas: tuple[int, ...] | None = None
    """One per record, increasing; None: 0, 1, 2, …"""
    last_offset_delta: int | None = None
    """None: the last record's; larger when compaction took the tail."""


_DEFAULT: Final = BatchOptions()


def build_batch(records: Sequence[Record], *, options: BatchOptions = _DEFAULT) -> bytes:
    """One v2 batch. Raises Refused when there is no record or the deltas do not fit the records."""
    deltas = options.offset_deltas if options.offset_deltas is not None else tuple(range(len(records)))
    if not records or len(deltas) != len(records):
        raise Refused(f"{len(records)} records with {len(deltas)} offset deltas make no batch")
    first_ms = records[0].timestamp_ms
    max_ms = max(record.timestamp_ms for record in records)
    attributes = options.codec | options.transactional << 4 | options.control << 5
    if options.log_append_time_ms is not None:
        attributes |= 0x08
        max_ms = options.log_append_time_ms
    last = options.last_offset_delta if options.last_offset_delta is not None else deltas[-1]
    plain = b"".join(_record(record, record.timestamp_ms - first_ms, delta) for record, delta in zip(records, deltas, strict=True))
    body = _AFTER_CRC.pack(
        attributes, last, first_ms, max_ms, options.producer_id, options.producer_epoch, options.base_sequence, len(records)
    ) + compress(options.codec, plain)
    return struct.pack(">qiibI", options.base_offset, len(body) + 9, -1, 2, crc32c(body)) + body


def _record(record: Record, time_delta: int, offset_delta: int) -> bytes:
    parts = [b"\x00", _varint(time_delta), _varint(offset_delta), _blob(record.key), _blob(record.value), _varint(len(record.headers))]
    for key, value in record.headers:
        parts += (_blob(key.encode()), _blob(value))
    body = b"".join(parts)
    return _varint(len(body)) + body


def _blob(data: bytes | None) -> bytes:
    return b"\x01" if data is None else _varint(len(data)) + data


def _varint(value: int) -> bytes:
    raw = (value << 1) ^ (value >> 63)
    out = bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)
