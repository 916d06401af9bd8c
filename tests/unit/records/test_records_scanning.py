"""Runs → columns: what is read, and what is given up without harm to the rest."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c

from frazil.kit.errors import Corrupt
from frazil.records import Codec, build_batch, patch, scan
from frazil.records.building import BatchOptions, Record
from frazil.records.codecs import compress
from frazil.records.scanning import BatchFault

LIMIT = 1 << 20


def frame(payload: bytes, *, count: int = 1, attributes: int = 0, last: int | None = None, base: int = 0) -> bytes:
    """A batch with a right CRC around any payload."""
    last = count - 1 if last is None else last
    body = struct.pack(">hiqqqhii", attributes, last, 1000, 2000, -1, -1, -1, count) + payload
    return struct.pack(">qiibI", base, len(body) + 9, -1, 2, crc32c(body)) + body


def good(count: int = 2) -> bytes:
    return build_batch([Record(value=b"good")] * count)


def record(body: bytes) -> bytes:
    return bytes([len(body) * 2]) + body


def fault_of(bad: bytes) -> BatchFault:
    """The one fault of ``bad`` between two good batches, which must come through."""
    columns, faults = scan(patch(good() + bad + good(), 100), uncompressed_bytes_max=LIMIT)
    assert columns.values == [b"good"] * 4
    assert columns.offsets.tolist()[:2] == [100, 101]
    assert {len(column) for column in (columns.keys, columns.headers, columns.timestamps_ms)} == {4}
    (fault,) = faults
    assert fault.first_offset == 102
    assert columns.offsets[2] == fault.last_offset + 1
    assert fault.raw[8:] == bad[8:]
    return fault


PLAIN = b"\0\0\0\x01\x02v\0"  # attributes, time 0, offset 0, key null, value "v", no headers


def test_the_fixture_record_is_good() -> None:
    columns, faults = scan(frame(record(PLAIN)), uncompressed_bytes_max=LIMIT)
    assert not faults
    assert (columns.keys, columns.values, columns.headers, list(columns.timestamps_ms)) == ([None], [b"v"], [()], [1000])


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (b"", "records end inside record 2"),
        (record(PLAIN)[:-1], "end inside"),
        (record(PLAIN + b"x"), "ends at byte 8, not 9"),
        (record(PLAIN) + b"x", "1 bytes follow the last record"),
        (record(b"\0\0\x02\x01\x02v\0"), "offset delta 1 after -1 in a batch whose last is 0"),
        (record(b"\0\0\x01\x01\x02v\0"), "offset delta -1"),
        (record(b"\0\0\0\x03\x02v\0"), "length -2 is negative"),
        (record(b"\0\0\0\x01\x05v\0"), "length -3 is negative"),
        (record(b"\0\0\0\x01\x40v\0"), "end inside"),
        (record(b"\0\0\0\x01\x02v\x01"), "-1 headers are too few"),
        (record(b"\0\0\0\x01\x02v\x02\x01\x01"), "header key is null"),
        (record(b"\0\0\0\x01\x02v\x02\x02\xff\x01"), "utf-8"),
        (record(b"\0\0\0\x01\x02v\xfe\xff\xff\xff\x0f"), "headers are too few or too many"),
        (record(b"\0" + b"\xff" * 10 + b"\x01\0\x01\x02v\0"), "more than 10 bytes"),
        (record(b"\0" + b"\xfe" + b"\xff" * 8 + b"\x01" + b"\0\x01\x02v\0"), "malformed"),
        (b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01" + PLAIN, "not 9223372036854775817 as its length says"),
    ],
)
def test_a_malformed_record_gives_up_its_batch_alone(payload: bytes, why: str) -> None:
    fault = fault_of(frame(payload))
    assert fault.code == "records"
    assert why in fault.why


def test_records_read_before_the_fault_are_taken_back() -> None:
    fault = fault_of(frame(record(PLAIN) + record(PLAIN), count=2))
    assert (fault.code, fault.first_offset, fault.last_offset) == ("records", 102, 103)
    assert "offset delta 0 after 0" in fault.why


def test_a_wrong_count_is_a_fault() -> None:
    assert fault_of(frame(record(PLAIN), count=2)).why == "records end inside record 3"
    assert "follow the last record" in fault_of(frame(record(PLAIN), count=0, last=0)).why
    assert fault_of(frame(record(PLAIN), count=3, last=0)).code == "counts"
    assert fault_of(frame(record(PLAIN), count=-1, last=0)).code == "counts"


@pytest.mark.parametrize("number", [5, 6, 7])
def test_unknown_codecs_are_faults(number: int) -> None:
    fault = fault_of(frame(record(PLAIN), attributes=number))
    assert (fault.code, f"codec {number}" in fault.why) == ("codec", True)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_damaged_compression_is_a_fault(codec: Codec) -> None:
    data = compress(codec, record(PLAIN) * 50)
    assert fault_of(frame(data[:-3], attributes=codec)).code == "decompress"
    assert fault_of(frame(b"\0" * 30, attributes=codec)).code in ("decompress", "records")
    assert fault_of(frame(b"", attributes=codec)).code in ("decompress", "records")


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD, Codec.NONE])
def test_a_batch_above_the_limit_is_a_fault(codec: Codec) -> None:
    fault = fault_of(build_batch([Record(value=bytes(LIMIT))], options=BatchOptions(codec=codec)))
    assert fault.code == "decompress"
    assert str(LIMIT) in fault.why


def test_crc_and_magic_faults_say_that_the_header_is_not_to_be_trusted() -> None:
    data = frame(record(PLAIN))
    assert fault_of(data[:-1] + b"\x7f").code == "crc"
    assert fault_of(data[:16] + b"\x01" + data[17:]).code == "magic"


def test_control_batches_are_skipped_damaged_or_not_by_their_crc() -> None:
    marker = build_batch([Record(key=b"\0\0\0\1", value=b"")], options=BatchOptions(control=True, transactional=True))
    columns, faults = scan(patch(good() + marker + good(), 0), uncompressed_bytes_max=LIMIT)
    assert (columns.offsets.tolist(), faults) == ([0, 1, 3, 4], ())


@pytest.mark.parametrize(
    "run",
    [
        good()[:-1],
        good()[:30],
        good() + b"\0",
        frame(record(PLAIN), last=-1, count=1),
        frame(record(PLAIN), base=-1),
        frame(record(PLAIN), base=2**63 - 1, last=1),
    ],
)
def test_frames_that_cannot_be_walked_fail_the_run(run: bytes) -> None:
    with pytest.raises(Corrupt, match="bundles/x@"):
        scan(run, uncompressed_bytes_max=LIMIT, where="bundles/x")


def test_a_gap_between_batches_is_legal() -> None:
    run = bytes(patch(good(), 5)) + bytes(patch(good(), 50))
    assert scan(run, uncompressed_bytes_max=LIMIT)[0].offsets.tolist() == [5, 6, 50, 51]


def test_an_empty_run_has_no_records() -> None:
    columns, faults = scan(b"", uncompressed_bytes_max=LIMIT)
    assert (len(columns), faults) == (0, ())
