"""Frames of v2 record batches: check and split, give offsets, stamp the append time. No record is looked at.

Header, 61 bytes, big-endian (Kafka protocol, "Record Batch"; KIP-98):

| byte | size | field                | note                                                            |
|------|------|----------------------|-----------------------------------------------------------------|
| 0    | 8    | baseOffset           | outside the CRC; given at append                                |
| 8    | 4    | batchLength          | bytes after this field; the frame is 12 more                    |
| 12   | 4    | partitionLeaderEpoch | outside the CRC; left as the producer sent it (R26)             |
| 16   | 1    | magic                | 2                                                               |
| 17   | 4    | crc                  | CRC-32C of byte 21 to the end                                   |
| 21   | 2    | attributes           | 0-2 codec, 3 append time, 4 transactional, 5 control            |
| 23   | 4    | lastOffsetDelta      | the batch takes lastOffsetDelta + 1 offsets                     |
| 27   | 8    | baseTimestamp        |                                                                 |
| 35   | 8    | maxTimestamp         |                                                                 |
| 43   | 8    | producerId           | -1: none                                                        |
| 51   | 2    | producerEpoch        |                                                                 |
| 53   | 4    | baseSequence         |                                                                 |
| 57   | 4    | recordCount          |                                                                 |
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple, NoReturn, TypeAlias

from crc32c import crc32c

from frazil.kit.errors import Corrupt
from frazil.records.codecs import Codec, codec_of

HEADER_BYTES: Final = 61
OFFSET_MAX: Final = 2**63 - 1

Bytes: TypeAlias = bytes | bytearray | memoryview

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_STEP: Final = struct.Struct(">8xi11xi")  # batchLength, lastOffsetDelta
_OFFSET: Final = struct.Struct(">q")
_FRAME_OVERHEAD: Final = 12
_CRC_START: Final = 21
_LOG_APPEND_TIME: Final = 0x08
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20


class BatchTooLarge(Corrupt):
    """A batch is larger than the reader allows (Kafka: MESSAGE_TOO_LARGE)."""


class Batch(NamedTuple):
    """The header of one batch and where its frame lies in its run. A tuple: one is made per batch on the produce path."""

    position: int
    length: int
    base_offset: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    crc: int

    @property
    def codec(self) -> Codec:
        """Attribute bits 0-2. Raises Refused for 5-7, which Kafka has not assigned."""
        return codec_of(self.attributes & 0x07)

    @property
    def is_log_append_time(self) -> bool:
        """True when every record's timestamp is ``max_timestamp_ms``."""
        return self.attributes & _LOG_APPEND_TIME != 0

    @property
    def is_transactional(self) -> bool:
        """True when the batch belongs to a transaction."""
        return self.attributes & _TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        """True for transaction markers, which no application sees."""
        return self.attributes & _CONTROL != 0

    @property
    def offset_count(self) -> int:
        """Offsets the batch takes; more than ``record_count`` when it has gaps."""
        return self.last_offset_delta + 1

    @property
    def last_offset(self) -> int:
        """Offset of the last one it takes; meaningful once patched."""
        return self.base_offset + self.last_offset_delta


def split_batches(run: Bytes, *, batch_bytes_max: int, where: str = "") -> list[Batch]:
    """Checks a run of batches from first to last byte and returns their headers; an empty run has none.

    Raises Corrupt naming ``where`` and the byte position: cut or wrong frames, magic other than 2, CRC mismatch, counts
    that cannot be. Raises BatchTooLarge for a frame of more than ``batch_bytes_max`` bytes.
    """
    view = memoryview(run)
    size = len(view)
    unpack = _HEADER.unpack_from
    batches: list[Batch] = []
    position = 0
    while position < size:
        if size - position < HEADER_BYTES:
            _fail(f"{size - position} bytes are too few for a batch header of {HEADER_BYTES}", where, position)
        base, rest, _, magic, crc, attributes, last, first_ms, max_ms, pid, epoch, sequence, count = unpack(view, position)
        length = rest + _FRAME_OVERHEAD
        end = position + length
        if magic != 2 or length < HEADER_BYTES or end > size or length > batch_bytes_max:
            _fail_frame(magic, length, size - position, batch_bytes_max, f"{where or 'run'}@{position}")
        if crc32c(view[position + _CRC_START : end]) != crc:
            _fail(f"CRC-32C of the batch is not {crc:08x} as its header says; it was damaged on the way, send it again", where, position)
        if (count < 1 and not (count == 0 and attributes & _CONTROL)) or last < count - 1 or last < 0:
            _fail(f"{count} records cannot have last offset delta {last}", where, position)
        batches.append(Batch(position, length, base, attributes, last, first_ms, max_ms, pid, epoch, sequence, count, crc))
        position = end
    return batches


def patch(run: Bytes, base_offset: int) -> bytearray:
    """A copy of ``run`` whose batches have consecutive offsets from ``base_offset`` on.

    R31: with ``patch_in_place`` the only way from bundle bytes to anyone; *every* batch is patched. The CRC does not cover
    the offset. Raises Corrupt when the frames do not fill the run.
    """
    patched = bytearray(run)
    patch_in_place(patched, base_offset)
    return patched


def patch_in_place(run: bytearray | memoryview, base_offset: int) -> None:
    """``patch`` without the copy, for bytes that nobody else has seen. When it raises, some batches may be patched already."""
    size = len(run)
    position = 0
    while position < size:
        if size - position < HEADER_BYTES:
            _fail("the run ends inside a batch header", "patch", position)
        rest, last = _STEP.unpack_from(run, position)
        end = position + rest + _FRAME_OVERHEAD
        if end - position < HEADER_BYTES or end > size or last < 0 or not 0 <= base_offset <= OFFSET_MAX - last:
            _fail(f"a batch of {end - position} bytes, last offset delta {last}, cannot start at offset {base_offset}", "patch", position)
        _OFFSET.pack_into(run, position, base_offset)
        base_offset += last + 1
        position = end


def restamp(batch: Bytes, now_ms: int) -> bytearray:
    """A copy of one batch with append time ``now_ms`` (``message.timestamp.type=LogAppendTime``).

    Sets attribute bit 3 and the max timestamp, which then is every record's timestamp, and computes the CRC again. Must
    come before the batch enters a bundle (R31). Raises Corrupt unless ``batch`` is exactly one frame.
    """
    if len(batch) < HEADER_BYTES or int.from_bytes(batch[8:12], "big", signed=True) + _FRAME_OVERHEAD != len(batch):
        _fail(f"{len(batch)} bytes are not exactly one batch", "restamp", 0)
    stamped = bytearray(batch)
    stamped[22] |= _LOG_APPEND_TIME
    _OFFSET.pack_into(stamped, 35, now_ms)
    struct.pack_into(">I", stamped, 17, crc32c(memoryview(stamped)[_CRC_START:]))
    return stamped


def _fail_frame(magic: int, length: int, left: int, batch_bytes_max: int, where: str) -> NoReturn:
    if magic != 2:
        raise Corrupt(f"magic {magic} is not supported, only 2; use a client of Kafka 0.11 or later", where=where)
    if length < HEADER_BYTES:
        raise Corrupt(f"a batch of {length} bytes is shorter than its header of {HEADER_BYTES}", where=where)
    if length > batch_bytes_max:
        raise BatchTooLarge(f"a batch of {length} bytes is above the limit of {batch_bytes_max}; send smaller batches", where=where)
    raise Corrupt(f"a batch of {length} bytes is cut: only {left} are there", where=where)


def _fail(why: str, where: str, position: int) -> NoReturn:
    raise Corrupt(why, where=f"{where or 'run'}@{position}")
