"""Runs of batches for the comparison of kernel and twin: sound ones of every shape, and damaged ones at every depth.

Damage goes where it can be believed: most of it is inside the records before they are compressed, or inside compressed bytes
under a right checksum; only some is random bytes, which a CRC stops at once.
"""

from __future__ import annotations

import gzip
import random
import struct
from dataclasses import dataclass

import cramjam
from crc32c import crc32c

from frazil.kit.errors import Corrupt
from frazil.records import Codec, build_batch, patch
from frazil.records.building import BatchOptions, Record
from frazil.records.codecs import XERIAL_MAGIC, compress
from frazil.records.tables import BYTES_MAX, ScanLimits

EXTREME = (0, -1, 1, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 253_402_300_799_999)
HEAD = struct.Struct(">qiibIhiqqqhii")
BODY = 61
NAMES = ("h", "", "trace-id", "größe", "\U0001f9ca", "x" * 40)
LARGE = 1 << 20


@dataclass(frozen=True)
class Case:
    """One call: what is scanned and how."""

    run: bytes
    limits: ScanLimits
    first_offset: int
    stop_at_damage: bool


def random_case(chance: random.Random) -> Case:
    """A run of one to four frames, sound or not, and how it is asked for."""
    frames = [random_frame(chance) for _ in range(chance.choice((1, 1, 1, 2, 3, 4)))]
    if chance.random() < 0.1:
        frames = [splice(chance, frames)]
    run = b"".join(frames)
    if chance.random() < 0.95:  # else as in a bundle: offsets do not increase (R31)
        try:
            run = bytes(patch(run, chance.choice((0, 0, 5, 2**40, 2**63 - 100))))
        except Corrupt:
            pass
    if chance.random() < 0.05:
        run = mutate(chance, run)
    limits = ScanLimits(
        uncompressed_bytes_max=chance.choice((LARGE, LARGE, LARGE, 300, 3000)),
        rows_max=chance.choice((BYTES_MAX, BYTES_MAX, 1, 7)),
        bytes_max=chance.choice((BYTES_MAX, BYTES_MAX, 100, 2000)),
    )
    return Case(run=run, limits=limits, first_offset=chance.choice((0, 0, 2, 7, 2**40 + 1)), stop_at_damage=chance.random() < 0.3)


def random_frame(chance: random.Random) -> bytes:
    """One frame."""
    records = random_records(chance)
    options = random_options(chance, len(records))
    plain = bytearray(build_batch(records, options=options))
    body = bytes(plain[BODY:])
    depth = chance.random()
    if depth < 0.4:
        body = mutate_records(chance, body)
    if depth < 0.02:
        body = b"\0" * chance.choice((LARGE, LARGE + 1, 3 * LARGE))  # a bomb
    codec = chance.choice(tuple(Codec))
    packed = pack(chance, codec, body)
    if 0.4 <= depth < 0.55 and packed:
        packed = mutate(chance, packed)
    return seal(chance, plain, codec, packed)


def random_records(chance: random.Random) -> list[Record]:
    """Records of ordinary and of odd shapes."""
    style = chance.random()
    return [
        Record(
            key=chance.choice((None, b"", b"k", chance.randbytes(chance.randrange(12)))),
            value=random_value(chance, style),
            timestamp_ms=chance.choice(EXTREME) if chance.random() < 0.02 else chance.randrange(1 << 41),
            headers=random_headers(chance) if style < 0.4 else (),
        )
        for _ in range(chance.choice((1, 1, 2, 3, 8, 40)))
    ]


def random_value(chance: random.Random, style: float) -> bytes | None:
    kind = chance.random()
    if kind < 0.1:
        return None
    if kind < 0.2:
        return b""
    if style < 0.5:
        return chance.randbytes(chance.choice((1, 20, 63, 64, 65, 200)))
    return b'{"id":%d,"city":"Oslo","n":%d}' % (chance.randrange(10**6), chance.randrange(10**6)) * chance.choice((1, 1, 1, 30))


def random_headers(chance: random.Random) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((chance.choice(NAMES), chance.choice((None, b"", b"value", b"\xff" * 5))) for _ in range(chance.choice((0, 1, 2, 9))))


def random_options(chance: random.Random, count: int) -> BatchOptions:
    deltas = None
    if chance.random() < 0.2:
        deltas = tuple(sorted(chance.sample(range(1000), count)))
    return BatchOptions(
        producer_id=chance.choice((-1, 7, 2**63 - 1)),
        transactional=chance.random() < 0.2,
        control=chance.random() < 0.05,
        log_append_time_ms=chance.choice((None, None, 1_700_000_000_000, 2**63 - 1)),
        offset_deltas=deltas,
    )


def pack(chance: random.Random, codec: Codec, body: bytes) -> bytes:
    """``body`` by ``codec`` as some producer might write it."""
    cut = chance.randrange(len(body) + 1)
    other = chance.random() < 0.4
    if codec is Codec.SNAPPY and other:
        raw = bytes(cramjam.snappy.compress_raw(body))
        if chance.random() < 0.5:
            return raw
        parts = [bytes(cramjam.snappy.compress_raw(part)) for part in (body[:cut], body[cut:])]
        return XERIAL_MAGIC + struct.pack(">ii", 1, 1) + b"".join(struct.pack(">i", len(part)) + part for part in parts)
    if codec is Codec.GZIP and other:
        return gzip.compress(body[:cut], chance.choice((0, 1, 9))) + gzip.compress(body[cut:])
    if codec is Codec.LZ4 and other:
        return b"".join(bytes(cramjam.lz4.compress(part, level=chance.choice((0, 4, 9)))) for part in (body[:cut], body[cut:]))
    if codec is Codec.ZSTD and other:
        skipped = struct.pack("<II", 0x184D2A50 + chance.randrange(16), 3) + b"abc" if chance.random() < 0.5 else b""
        return (
            bytes(cramjam.zstd.compress(body[:cut], level=1))
            + skipped
            + bytes(cramjam.zstd.compress(body[cut:], level=chance.choice((3, 19))))
        )
    return compress(codec, body)


def mutate(chance: random.Random, data: bytes) -> bytes:
    """``data`` with a few bytes changed, cut out or put in."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 3)):
        place = chance.randrange(len(changed) + 1)
        kind = chance.randrange(5)
        if kind == 0:
            changed[place : place + 1] = bytes([chance.randrange(256)])
        elif kind == 1:
            changed[place : place + 4] = chance.choice((b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\0", b"\x80\0\0\0"))
        elif kind == 2:
            del changed[place : place + chance.randint(1, 8)]
        elif kind == 3:
            changed[place:place] = chance.randbytes(chance.randint(1, 8))
        else:
            del changed[place:]
    return bytes(changed)


def varint(value: int) -> bytes:
    """A zig-zag varint, as long as it takes."""
    raw = (value << 1) ^ (value >> 71)
    out = bytearray()
    while raw > 0x7F or raw < 0:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes((*out, raw))


def mutate_records(chance: random.Random, body: bytes) -> bytes:
    """Records with a number exchanged for one that hurts, or bytes changed anywhere."""
    kind = chance.random()
    if kind < 0.4 or not body:
        return mutate(chance, body)
    number = chance.choice(
        (-1, -2, 0, 1, 63, 64, 127, 128, len(body), 2**31 - 1, 2**31, 2**32, 2**62, 2**63 - 1, -(2**63), 2**63, 2**69 - 1, -(2**69))
    )
    text = varint(number)
    if chance.random() < 0.1:
        text = b"\xff" * chance.choice((9, 10, 11)) + b"\x01"
    if chance.random() < 0.1:
        text = bytes((text[0] | 0x80, *text[1:-1], 0)) if len(text) > 1 else bytes((text[0] | 0x80, 0))  # longer than it must be
    place = chance.randrange(len(body))
    if kind < 0.9:  # near the start of a record numbers stand side by side
        place = min(place, chance.choice((0, 1, 2, 3, 4, 5, 6, 7, 12)))
    return body[:place] + text + body[place + chance.choice((0, 1, 1, 1, len(text))) :]


def seal(chance: random.Random, plain: bytearray, codec: Codec, packed: bytes) -> bytes:
    """A frame with the header of ``plain`` around ``packed``: length and CRC right, counts and attributes sometimes wrong."""
    base, _, epoch, magic, _, attributes, last, first_ms, max_ms, *producer, count = HEAD.unpack_from(plain)
    attributes = attributes & ~7 | codec
    if chance.random() < 0.1:
        last = chance.choice((last + 1, last - 1, 0, -1, 2**31 - 1))
    if chance.random() < 0.1:
        count = chance.choice((count + 1, count - 1, 0, -1, 2**31 - 1))
    if chance.random() < 0.05:
        first_ms = chance.choice(EXTREME)
    if chance.random() < 0.03:
        attributes ^= 1 << chance.randrange(15)
    if chance.random() < 0.02:
        magic = chance.choice((0, 1, 3, -1))
    frame = bytearray(
        HEAD.pack(base, BODY - 12 + len(packed), epoch, magic, 0, attributes, last, first_ms, max_ms, *producer, count) + packed
    )
    struct.pack_into(">I", frame, 17, crc32c(bytes(frame[21:])) ^ (chance.random() < 0.03))
    return bytes(frame)


def splice(chance: random.Random, frames: list[bytes]) -> bytes:
    """The beginning of one frame and the end of another."""
    first, second = chance.choice(frames), chance.choice(frames)
    return first[: chance.randrange(len(first) + 1)] + second[chance.randrange(len(second)) :]
