"""Record batches by hand for tests: right ones, bombs, and batches that pass every check of the header while their records are rotten.

Shares no code with Frazil except the CRC library.
"""

from __future__ import annotations

import functools
import gzip
import random
import struct
import time

import cramjam
import crc32c

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
_AFTER_CRC = struct.Struct(">hiqqqhii")
BOMB_BYTES = 256 * 1024 * 1024
"""What a bomb's records decompress to."""


def varint(number: int) -> bytes:
    """Zigzag varint."""
    value = (number << 1) ^ (number >> 63)
    out = bytearray()
    while value & ~0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def record(offset_delta: int, value: bytes) -> bytes:
    """One record without key, headers, and with timestamp delta 0."""
    body = b"\0" + varint(0) + varint(offset_delta) + varint(-1) + varint(len(value)) + value + varint(0)
    return varint(len(body)) + body


def batch(
    records: bytes,
    count: int,
    *,
    codec: int = NONE,
    last_offset_delta: int | None = None,
    timestamp_ms: int | None = None,
    producer: tuple[int, int, int] = (-1, -1, -1),
    attributes: int = 0,
) -> bytes:
    """A v2 batch around ``records`` (already compressed if ``codec`` says so), with the right length and CRC."""
    now = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
    last = count - 1 if last_offset_delta is None else last_offset_delta
    tail = _AFTER_CRC.pack(codec | attributes, last, now, now, *producer, count) + records
    return struct.pack(">qiibI", 0, len(tail) + 9, -1, 2, crc32c.crc32c(tail)) + tail


def good(values: list[bytes]) -> bytes:
    return batch(b"".join(record(number, value) for number, value in enumerate(values)), len(values))


def compress(codec: int, data: bytes) -> bytes:
    if codec == GZIP:
        return gzip.compress(data, 9)
    if codec == SNAPPY:
        return bytes(cramjam.snappy.compress_raw(data))
    if codec == LZ4:
        return bytes(cramjam.lz4.compress(data))
    return bytes(cramjam.zstd.compress(data)) if codec == ZSTD else data


@functools.cache
def bomb(codec: int) -> bytes:
    """One record whose value is BOMB_BYTES zeros (snappy, which shrinks to a twentieth only: an eighth of that)."""
    size = BOMB_BYTES // 8 if codec == SNAPPY else BOMB_BYTES
    head = record(0, b"")[1:-2]
    body_bytes = len(head) + len(varint(size)) + size + 1
    return batch(compress(codec, varint(body_bytes) + head + varint(size) + bytes(size) + b"\0"), 1, codec=codec)


def nested_bomb() -> bytes:
    """gzip in gzip: only the outer one may be opened."""
    return batch(compress(GZIP, compress(GZIP, bytes(BOMB_BYTES // 4))), 1, codec=GZIP)


def rotten(kind: str, chance: random.Random) -> bytes:
    """A batch with right length and CRC whose records cannot be read as its header says."""
    three = b"".join(record(number, b'{"id": %d}' % number) for number in range(3))
    match kind:
        case "count-above":
            return batch(three, 5)
        case "count-below":
            return batch(three, 2)
        case "garbage":
            return batch(chance.randbytes(200), 3)
        case "cut":
            return batch(three[:-4], 3)
        case "empty":
            return batch(b"", 3)
        case "giant-length":
            return batch(varint(2**31 - 1) + three, 3)
        case "negative-length":
            return batch(varint(-5) + three, 3)
        case "giant-value":
            return batch(varint(20) + b"\0" + varint(0) + varint(0) + varint(-1) + varint(2**30) + b"x" * 12, 1)
        case "headers-giant":
            body = b"\0" + varint(0) + varint(0) + varint(-1) + varint(1) + b"x" + varint(2**30)
            return batch(varint(len(body)) + body, 1)
        case "deltas-wrong":
            return batch(record(7, b"{}") + record(3, b"{}"), 2)
        case "not-compressed":
            return batch(three, 3, codec=chance.choice((GZIP, SNAPPY, LZ4, ZSTD)))
        case "compressed-cut":
            codec = chance.choice((GZIP, LZ4, ZSTD))
            return batch(compress(codec, three * 50)[:-7], 3, codec=codec)
        case "compressed-flip":
            codec = chance.choice((GZIP, SNAPPY, LZ4, ZSTD))
            data = bytearray(compress(codec, three * 50))
            data[chance.randrange(len(data))] ^= 0x10
            return batch(bytes(data), 3, codec=codec)
        case "trailing":
            return batch(three + b"\0\0\0", 3)
    raise ValueError(kind)


ROTTEN = (
    "count-above", "count-below", "garbage", "cut", "empty", "giant-length", "negative-length", "giant-value", "headers-giant",
    "deltas-wrong", "not-compressed", "compressed-cut", "compressed-flip", "trailing",
)  # fmt: skip


def many_records(count: int) -> bytes:
    """A small batch of very many very small records: what they cost a reader is memory per record, not bytes."""
    return batch(compress(ZSTD, b"".join(record(number, b"") for number in range(count))), count, codec=ZSTD)
