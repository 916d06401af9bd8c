"""The five codecs of record batches, with a ceiling on what decompression may produce.

| number | codec  | bytes on the wire                                                                                  |
|--------|--------|----------------------------------------------------------------------------------------------------|
| 0      | none   | records as they are                                                                                |
| 1      | gzip   | RFC 1952, one or more members                                                                      |
| 2      | snappy | raw snappy (librdkafka, Go) or the xerial stream of Java clients: 16-byte header, then length-prefixed raw blocks |
| 3      | lz4    | LZ4 frame, one or more; magic 0/1 batches had a wrong header checksum, magic 2 batches do not      |
| 4      | zstd   | RFC 8878, one or more frames (KIP-110)                                                             |

Memory: never more than ``bytes_max`` of output is held, whatever a header declares. The zstd library reserves the window
a frame asks for (it refuses more than 128 MiB) but touches only what it fills.
"""

from __future__ import annotations

import struct
import zlib
from enum import IntEnum
from typing import Final

import cramjam

from frazil.kit.errors import Corrupt, Refused


class Codec(IntEnum):
    """Bits 0-2 of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_FIRST_GUESS_BYTES: Final = 64 * 1024
_SNAPPY_RATIO_MAX: Final = 64
"""A snappy copy element is 2-3 bytes for at most 64 bytes of output, so no honest block declares more than this ratio."""

_STREAMS: Final = {Codec.GZIP: cramjam.gzip, Codec.LZ4: cramjam.lz4, Codec.ZSTD: cramjam.zstd}


def compress(codec: Codec, data: bytes) -> bytes:
    """``data`` as one block of ``codec``; snappy in the xerial framing that Java clients write. Same input, same bytes."""
    if codec is Codec.NONE:
        return bytes(data)
    if codec is Codec.GZIP:
        gzip = zlib.compressobj(level=6, wbits=31)
        return gzip.compress(data) + gzip.flush()
    if codec is Codec.SNAPPY:
        return _compress_xerial(data)
    return bytes(_STREAMS[codec].compress(data))


def decompress(codec: Codec, data: bytes | bytearray | memoryview, *, bytes_max: int) -> bytes:
    """The uncompressed bytes. Raises Corrupt when ``data`` is damaged or would grow beyond ``bytes_max`` bytes."""
    if codec is Codec.NONE:
        if len(data) > bytes_max:
            raise Corrupt(f"{len(data)} bytes of records are more than the limit of {bytes_max}")
        return bytes(data)
    if codec is Codec.SNAPPY:
        return _decompress_snappy(bytes(data), bytes_max)
    return _decompress_stream(codec, bytes(data), bytes_max)


def codec_of(number: int) -> Codec:
    """The codec of attribute bits 0-2. Raises Refused for 5-7, which Kafka has not assigned."""
    try:
        return Codec(number)
    except ValueError:
        raise Refused(f"compression codec {number} is unknown; 0-4 are none, gzip, snappy, lz4, zstd") from None


def _decompress_stream(codec: Codec, data: bytes, bytes_max: int) -> bytes:
    """Decompresses into a buffer of bounded size, larger each time it was too small.

    A frame's declared size is never believed: Java writes none, and a hostile one can lie.
    """
    size = min(bytes_max, max(_FIRST_GUESS_BYTES, 16 * len(data)))
    while True:
        buffer = bytearray(size)
        try:
            produced: int = _STREAMS[codec].decompress_into(data, buffer)
        except cramjam.DecompressionError as error:
            if size >= bytes_max:
                raise Corrupt(f"{codec.name.lower()} data is damaged or larger than {bytes_max} bytes: {error}") from error
            size = min(bytes_max, size * 4)
            continue
        return bytes(memoryview(buffer)[:produced])


def _compress_xerial(data: bytes) -> bytes:
    parts = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (struct.pack(">i", len(block)), block)
    return b"".join(parts)


def _decompress_snappy(data: bytes, bytes_max: int) -> bytes:
    if not data.startswith(XERIAL_MAGIC):
        return _decompress_snappy_block(data, bytes_max, bytes_max)
    parts: list[bytes] = []
    room = bytes_max
    position = 0
    while position < len(data):
        if data.startswith(XERIAL_MAGIC, position):  # streams may follow each other
            position += len(_XERIAL_HEADER)
            continue
        length = int.from_bytes(data[position : position + 4], "big")
        position += 4
        if position + length > len(data) or length == 0:
            raise Corrupt(f"snappy block of {length} bytes at byte {position} does not fit {len(data)} bytes of data")
        part = _decompress_snappy_block(data[position : position + length], room, bytes_max)
        room -= len(part)
        parts.append(part)
        position += length
    if position != len(data):
        raise Corrupt("snappy stream ends inside its header")
    return b"".join(parts)


def _decompress_snappy_block(block: bytes, room: int, bytes_max: int) -> bytes:
    try:
        declared: int = cramjam.snappy.decompress_raw_len(block)
        if declared > room or declared > _SNAPPY_RATIO_MAX * len(block):
            raise Corrupt(f"snappy block of {len(block)} bytes declares {declared} bytes; {room} are left of the limit of {bytes_max}")
        buffer = bytearray(declared)
        produced: int = cramjam.snappy.decompress_raw_into(block, buffer)
    except cramjam.DecompressionError as error:
        raise Corrupt(f"snappy data is damaged: {error}") from error
    if produced != declared:
        raise Corrupt(f"snappy block declares {declared} bytes but holds {produced}")
    return bytes(buffer)
