"""Codecs: what other writers produce is read, and nothing grows beyond its limit."""

from __future__ import annotations

import gzip
import subprocess
import sys

import aiokafka.codec
import cramjam
import pytest
import zstandard

from frazil.kit.errors import Corrupt
from frazil.records.codecs import XERIAL_MAGIC, Codec, compress, decompress

COMPRESSED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
DATA = b"".join(b"row %d of a table; " % i for i in range(20_000))


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("data", [b"", b"x", DATA])
def test_round_trip_up_to_the_exact_limit(codec: Codec, data: bytes) -> None:
    packed = compress(codec, data)
    assert compress(codec, data) == packed
    assert decompress(codec, memoryview(packed), bytes_max=len(data)) == data
    if data:
        with pytest.raises(Corrupt):
            decompress(codec, packed, bytes_max=len(data) - 1)


@pytest.mark.parametrize(
    ("codec", "packed"),
    [
        (Codec.GZIP, gzip.compress(DATA)),
        (Codec.GZIP, gzip.compress(DATA[:1000]) + gzip.compress(DATA[1000:])),
        (Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(DATA))),
        (Codec.SNAPPY, aiokafka.codec.snappy_encode(DATA, xerial_compatible=True)),
        (Codec.SNAPPY, compress(Codec.SNAPPY, DATA[:40_000]) + compress(Codec.SNAPPY, DATA[40_000:])),
        (Codec.LZ4, aiokafka.codec.lz4_encode(DATA)),
        (Codec.LZ4, compress(Codec.LZ4, DATA[:1000]) + compress(Codec.LZ4, DATA[1000:])),
        (Codec.ZSTD, aiokafka.codec.zstd_encode(DATA)),
        (Codec.ZSTD, zstandard.ZstdCompressor(write_content_size=False).compress(DATA)),
        (Codec.ZSTD, compress(Codec.ZSTD, DATA[:1000]) + compress(Codec.ZSTD, DATA[1000:])),
    ],
)
def test_what_others_write_is_read(codec: Codec, packed: bytes) -> None:
    assert decompress(codec, packed, bytes_max=1 << 20) == DATA


def test_others_read_what_we_write() -> None:
    assert gzip.decompress(compress(Codec.GZIP, DATA)) == DATA
    assert compress(Codec.SNAPPY, DATA).startswith(XERIAL_MAGIC)
    assert bytes(aiokafka.codec.snappy_decode(compress(Codec.SNAPPY, DATA))) == DATA
    assert bytes(aiokafka.codec.lz4_decode(compress(Codec.LZ4, DATA))) == DATA
    assert zstandard.ZstdDecompressor().decompress(compress(Codec.ZSTD, DATA)) == DATA


@pytest.mark.parametrize("codec", COMPRESSED)
def test_cut_and_padded_streams_are_refused(codec: Codec) -> None:
    packed = compress(codec, DATA)
    for damaged in (packed[:-1], packed[: len(packed) // 2], packed[:3], packed + b"\0", packed + b"xyz", packed + packed[:-1]):
        with pytest.raises(Corrupt):
            decompress(codec, damaged, bytes_max=1 << 21)


@pytest.mark.parametrize(
    "data",
    [
        XERIAL_MAGIC,
        XERIAL_MAGIC + bytes(4),
        XERIAL_MAGIC + bytes(8) + b"\0\0\0\0",
        XERIAL_MAGIC + bytes(8) + b"\x7f\xff\xff\xff" + b"x",
        XERIAL_MAGIC + bytes(8) + b"\0\0\0\x05x",
        b"\xff\xff\xff\xff\x0f" + bytes(10),
        b"\xff" * 20,
        b"\x80\x80\x04x",
    ],
)
def test_hostile_snappy_is_refused(data: bytes) -> None:
    with pytest.raises(Corrupt):
        decompress(Codec.SNAPPY, data, bytes_max=1 << 31)


def test_a_limit_holds_for_all_blocks_together() -> None:
    packed = compress(Codec.SNAPPY, bytes(100_000))
    assert decompress(Codec.SNAPPY, packed, bytes_max=100_000) == bytes(100_000)
    with pytest.raises(Corrupt):
        decompress(Codec.SNAPPY, packed, bytes_max=99_999)


BOMB = """
import resource, sys
from frazil.kit.errors import Corrupt
from frazil.records.codecs import Codec, compress, decompress
import zstandard
codec = Codec(int(sys.argv[1]))
bomb = compress(codec, bytes(400_000_000))
if codec is Codec.ZSTD:  # and one whose header asks for the largest window
    parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=27, enable_ldm=True, write_content_size=False)
    bomb = zstandard.ZstdCompressor(compression_params=parameters).compress(bytes(400_000_000))
sys.stdout.buffer.write(bomb)
"""

READ = """
import resource, sys
from frazil.kit.errors import Corrupt
from frazil.records.codecs import Codec, decompress
bomb = sys.stdin.buffer.read()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    decompress(Codec(int(sys.argv[1])), bomb, bytes_max=8_000_000)
except Corrupt:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_bomb_takes_no_more_memory_than_its_limit_allows(codec: Codec) -> None:
    """400 MB in a few hundred KB; the reader allows 8 MB. Peak memory in a process of its own."""
    bomb = subprocess.run([sys.executable, "-c", BOMB, str(int(codec))], check=True, capture_output=True).stdout
    assert len(bomb) < 20_000_000
    grown = subprocess.run([sys.executable, "-c", READ, str(int(codec))], input=bomb, check=True, capture_output=True).stdout
    kib = int(grown) / (1 if sys.platform != "darwin" else 1024)
    assert kib < 4 * 8_000 + len(bomb) // 1024
