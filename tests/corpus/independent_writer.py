"""A second writer of .kfs and .index, from the byte tables alone; imports nothing of the product. Run with -m to write kfs/*.hex."""

import pathlib
import struct
import zlib


def crc32c(data, crc=0xFFFFFFFF):
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def varint(number):
    number, out = (number * 2 if number >= 0 else -number * 2 - 1), b""
    while number >= 128:
        number, out = number // 128, out + bytes([number % 128 + 128])
    return out + bytes([number])


def nullable(data):
    return varint(-1) if data is None else varint(len(data)) + data


def raw_snappy(data):  # one literal
    return bytes([len(data) % 128 + 128, len(data) // 128, 61 << 2]) + struct.pack("<H", len(data) - 1) + data


def stored_deflate(data):
    return b"\x01" + struct.pack("<HH", len(data), len(data) ^ 0xFFFF) + data


CODECS = [  # each the plainest legal stream, made by hand; data of 128 to 65,535 bytes
    lambda data: data,
    lambda data: b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + stored_deflate(data) + struct.pack("<II", zlib.crc32(data), len(data)),
    raw_snappy,
    lambda data: b"\x04\x22\x4d\x18\x60\x40\x82" + struct.pack("<I", len(data) | 1 << 31) + data + bytes(4),
    lambda data: b"\x28\xb5\x2f\xfd\x60" + struct.pack("<H", len(data) - 256) + struct.pack("<I", len(data) << 3 | 1)[:3] + data,
    lambda data: b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01" + struct.pack(">i", len(raw_snappy(data))) + raw_snappy(data),
]


def batch(base, records, codec=0, bits=0, producer=(-1, -1, -1), deltas=None, last=None, append_ms=None):
    """records: (timestamp, key, value, ((header, value), …)); codec 5 stands for snappy in the xerial framing."""
    deltas, body = deltas or range(len(records)), b""
    for delta, (time, key, value, headers) in zip(deltas, records, strict=True):
        one = b"\0" + varint(time - records[0][0]) + varint(delta) + nullable(key) + nullable(value) + varint(len(headers))
        one += b"".join(nullable(name.encode()) + nullable(text) for name, text in headers)
        body += varint(len(one)) + one
    attributes = (2 if codec == 5 else codec) | bits | (0 if append_ms is None else 8)
    times = records[0][0], max(r[0] for r in records) if append_ms is None else append_ms
    tail = struct.pack(">hiqqqhii", attributes, last or deltas[-1], *times, *producer, len(records)) + CODECS[codec](body)
    return struct.pack(">qiibI", base, len(tail) + 9, -1, 2, crc32c(tail)) + tail


def segment(batches, created_ms, interval=100):
    """(bytes of .kfs, bytes of .index)"""
    body, entries, records, since, position = b"".join(batches), b"", 0, interval, 32
    for one in batches:
        count = struct.unpack(">i", one[57:61])[0]
        if since >= interval:
            entries, since = entries + one[:8] + struct.pack(">i", position), 0
        since, records, position = since + count, records + count, position + len(one)
    base, last = batches[0][:8], struct.unpack(">q", batches[-1][:8])[0] + struct.unpack(">i", batches[-1][23:27])[0]
    head = b"KAFS\0\x01\0\0" + base + struct.pack(">iq", records, created_ms) + bytes(4)
    kfs = head + body + struct.pack(">Iq", crc32c(body), last) + b"END!"
    return kfs, b"IDX\0\0\x01" + struct.pack(">ii", len(entries) // 12, interval) + bytes(2) + entries


def rows(count, size=1, at=1_700_000_000_000):
    return [(at + i, b"key-%d" % i, b"v" * size, ()) for i in range(count)]


MARKER = [(1_700_000_000_500, b"\0\0\0\x01", b"\0\0\0\0\0\0", ())]  # version 0, type 1: commit
CASES = {
    "one-record": [batch(0, rows(1))],
    "tombstone-and-empty": [batch(7, [(1, None, None, ()), (2, b"", b"", ()), (3, b"k", None, ()), (0, None, b"v", ())])],
    "headers": [batch(0, [(5, None, b"v", (("trace", b"1"), ("trace", None), ("größe", b""))), (5, None, b"w", (("", b"x" * 200),))])],
    "codec-gzip": [batch(100, rows(20, 30), 1)],
    "codec-snappy": [batch(100, rows(20, 30), 2)],
    "codec-lz4": [batch(100, rows(20, 30), 3)],
    "codec-zstd": [batch(100, rows(20, 30), 4)],
    "codec-xerial": [batch(100, rows(20, 30), 5)],
    "gaps-inside-and-between": [batch(10, rows(3), deltas=[0, 4, 9], last=12), batch(40, rows(2)), batch(42, rows(1), last=5)],
    "index-interval": [batch(3 * i, rows(3)) for i in range(80)],
    "index-interval-counts-records-not-offsets": [batch(200 * i, rows(3), last=199) for i in range(40)],
    "index-interval-exact": [batch(0, rows(99)), batch(99, rows(1)), batch(100, rows(100)), batch(200, rows(1)), batch(201, rows(1))],
    "offsets-of-19-digits": [batch(9_000_000_000_000_000_000, rows(2)), batch(9_223_372_036_854_775_800, rows(8))],
    "transaction-with-marker": [batch(0, rows(2), 0, 0x10, (4001, 7, 0)), batch(2, MARKER, 0, 0x30, (4001, 7, -1))],
    "idempotent-sequence-wrap": [batch(0, rows(2), 0, 0, (2**40, 32767, 2**31 - 2)), batch(2, rows(2), 0, 0, (2**40, 32767, 0))],
    "append-time": [batch(0, rows(3), append_ms=1_700_000_009_999)],
    "times-before-1970": [batch(0, [(-1, b"k", b"v", ()), (-(2**40), b"k", b"v", ()), (2**40, b"k", b"v", ())])],
    "long-varints": [batch(0, [(0, b"k" * 64, b"v" * 8192, ()), (0, b"", b"v" * 63, ())])],
}
if __name__ == "__main__":
    for case, batches in CASES.items():
        for suffix, data in zip(("kfs", "index"), segment(batches, 1_700_000_123_456), strict=True):
            (pathlib.Path(__file__).parent / "kfs" / f"{case}.{suffix}.hex").write_text(data.hex("\n", 64) + "\n")
