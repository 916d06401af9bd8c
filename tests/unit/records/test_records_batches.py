"""Splitting, patching and stamping of batch frames."""

from __future__ import annotations

import struct
import warnings

import aiokafka.record.default_records
import pytest
from crc32c import crc32c

from frazil.kit.errors import Corrupt, Refused
from frazil.records import Batch, Codec, build_batch, patch, restamp, scan, split_batches
from frazil.records.batches import HEADER_BYTES, BatchTooLarge
from frazil.records.building import BatchOptions, Record

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # the foreign package uses importlib.resources.read_text
    from kafka.record.default_records import DefaultRecordBatchBuilder

LIMIT = 1 << 20


def batch(count: int = 3, **options: object) -> bytes:
    records = [Record(key=b"k", value=b"v%d" % i, timestamp_ms=1000 + i) for i in range(count)]
    return build_batch(records, options=BatchOptions(**options))  # type: ignore[arg-type]


def with_field(data: bytes, position: int, layout: str, value: int) -> bytes:
    """``data`` with one header field changed and the CRC made right again."""
    changed = bytearray(data)
    struct.pack_into(layout, changed, position, value)
    struct.pack_into(">I", changed, 17, crc32c(memoryview(changed)[21:]))
    return bytes(changed)


def split(run: bytes, **options: int) -> list[Batch]:
    return split_batches(run, batch_bytes_max=options.get("batch_bytes_max", LIMIT), where="topic-0")


def test_a_header_is_read_whole() -> None:
    options = BatchOptions(codec=Codec.ZSTD, base_offset=77, producer_id=5, producer_epoch=3, base_sequence=9, transactional=True)
    data = build_batch([Record(value=b"a", timestamp_ms=20), Record(value=b"b", timestamp_ms=10)], options=options)
    (head,) = split(data)
    assert head == Batch(
        position=0,
        length=len(data),
        base_offset=77,
        attributes=0x14,
        last_offset_delta=1,
        base_timestamp_ms=20,
        max_timestamp_ms=20,
        producer_id=5,
        producer_epoch=3,
        base_sequence=9,
        record_count=2,
        crc=int.from_bytes(data[17:21], "big"),
    )
    assert (head.codec, head.is_transactional, head.is_control, head.is_log_append_time) == (Codec.ZSTD, True, False, False)
    assert (head.offset_count, head.last_offset) == (2, 78)


def test_a_codec_kafka_has_not_assigned_is_refused_by_name() -> None:
    (head,) = split(with_field(batch(), 21, ">h", 5))
    with pytest.raises(Refused, match="codec 5"):
        _ = head.codec


def test_a_run_of_several_batches_is_split_where_they_join() -> None:
    parts = [batch(1), batch(2), batch(3)]
    heads = split(b"".join(parts))
    assert [head.position for head in heads] == [0, len(parts[0]), len(parts[0]) + len(parts[1])]
    assert [head.record_count for head in heads] == [1, 2, 3]
    assert split(memoryview(bytearray(b"".join(parts)))) == heads  # type: ignore[arg-type]
    assert split(b"") == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:-1], r"topic-0@74: a batch of 77 bytes is cut: only 76"),
        (lambda data: data[:-20], r"topic-0@74: 57 bytes are too few"),
        (lambda data: data + b"\0", r"topic-0@151: 1 bytes are too few"),
        (lambda data: data[:-1] + b"\xff", r"topic-0@74: CRC-32C"),
        (lambda data: data[:16] + b"\x01" + data[17:], r"topic-0@0: magic 1 .*client"),
        (lambda data: data[:8] + b"\0\0\0\x30" + data[12:], r"topic-0@0: a batch of 60 bytes is shorter"),
        (lambda data: data[:8] + b"\xff\xff\xff\xff" + data[12:], r"topic-0@0: a batch of 11 bytes is shorter"),
        (lambda data: data[:8] + b"\x80\0\0\0" + data[12:], r"topic-0@0: a batch of -2147483636 bytes is shorter"),
        (lambda data: data[:8] + b"\x7f\xff\xff\xff" + data[12:], r"topic-0@0: a batch of 2147483659 bytes is above"),
    ],
)
def test_damage_is_named_with_its_place(change: object, message: str) -> None:
    first, second = build_batch([Record(value=b"v" * 6)]), build_batch([Record(value=b"v" * 9)])
    assert (len(first), len(second)) == (74, 77)
    with pytest.raises(Corrupt, match=message):
        split(change(first + second))  # type: ignore[operator]


@pytest.mark.parametrize(("count", "last"), [(0, 0), (-1, 0), (4, 2), (2, 0), (1, -1), (2**31 - 1, 2)])
def test_counts_that_cannot_be_are_refused(count: int, last: int) -> None:
    data = with_field(with_field(batch(), 57, ">i", count), 23, ">i", last)
    with pytest.raises(Corrupt, match=f"{count} records cannot have last offset delta {last}"):
        split(data)


def test_a_compacted_batch_takes_more_offsets_than_records_and_an_empty_control_batch_is_legal() -> None:
    (head,) = split(with_field(batch(), 23, ">i", 41))
    assert (head.record_count, head.offset_count) == (3, 42)
    assert split(with_field(with_field(batch(), 57, ">i", 0), 21, ">h", 0x20))[0].is_control


def test_a_batch_above_the_limit_has_its_own_error() -> None:
    with pytest.raises(BatchTooLarge, match=r"limit of 80; send smaller"):
        split(batch(), batch_bytes_max=80)
    assert split(batch(), batch_bytes_max=len(batch()))


def test_r31_every_batch_of_a_run_gets_its_offset() -> None:
    run = batch(3) + with_field(batch(2), 23, ">i", 9) + batch(1)
    patched = patch(run, 1000)
    assert [head.base_offset for head in split(bytes(patched))] == [1000, 1003, 1013]
    assert scan(patched, uncompressed_bytes_max=LIMIT)[0].offsets.tolist() == [1000, 1001, 1002, 1003, 1004, 1013]
    assert [head.base_offset for head in split(run)] == [0, 0, 0], "the source is untouched"
    for head in split(run):
        assert patched[head.position + 8 : head.position + head.length] == run[head.position + 8 : head.position + head.length]


def test_r31_a_scan_refuses_bytes_that_were_not_patched() -> None:
    with pytest.raises(Corrupt, match=r"base offset 0 is below 3; was the run patched"):
        scan(batch(3) + batch(2), uncompressed_bytes_max=LIMIT)


@pytest.mark.parametrize(
    ("run", "base"),
    [
        (batch()[:60], 0),
        (batch()[:-1], 0),
        (with_field(batch(), 8, ">i", 48), 0),
        (with_field(batch(), 8, ">i", -12), 0),
        (with_field(batch(), 23, ">i", -1), 0),
        (batch(), -1),
        (batch(), 2**63 - 2),
    ],
)
def test_patch_refuses_what_it_cannot_walk(run: bytes, base: int) -> None:
    with pytest.raises(Corrupt):
        patch(run, base)


def test_patch_reaches_the_last_offset_there_is() -> None:
    assert split(bytes(patch(batch(), 2**63 - 3)))[0].last_offset == 2**63 - 1


def test_restamp_makes_the_append_time_every_records_time() -> None:
    original = batch(3)
    stamped = restamp(original, 5_000_000)
    (head,) = split(bytes(stamped))
    assert head.is_log_append_time
    assert head.max_timestamp_ms == 5_000_000
    assert head.base_timestamp_ms == 1000
    assert scan(stamped, uncompressed_bytes_max=LIMIT)[0].timestamps_ms.tolist() == [5_000_000] * 3
    assert split(original)[0].max_timestamp_ms == 1002


@pytest.mark.parametrize("data", [b"", batch()[:40], batch()[:-1], batch() + batch()])
def test_restamp_takes_exactly_one_batch(data: bytes) -> None:
    with pytest.raises(Corrupt, match="not exactly one batch"):
        restamp(data, 0)


def test_our_uncompressed_batch_is_byte_for_byte_that_of_two_other_clients() -> None:
    kafka_python = DefaultRecordBatchBuilder(2, 0, 0, 4711, 2, 100, 1 << 20)
    aio = aiokafka.record.default_records.DefaultRecordBatchBuilder(2, 0, 0, 4711, 2, 100, 1 << 20)
    rows = [(10, b"k", b"v" * 100, []), (500_000, None, b"", [("h", b"1"), ("n", None)]), (3, b"", None, [])]
    records = []
    for offset, (time, key, value, headers) in enumerate(rows):
        kafka_python.append(offset, time, key, value, headers)
        aio.append(offset, time, key, value, headers)
        records.append(Record(key=key, value=value, timestamp_ms=time, headers=tuple(headers)))  # type: ignore[arg-type]
    options = BatchOptions(producer_id=4711, producer_epoch=2, base_sequence=100)
    ours = build_batch(records, options=options)
    assert ours == bytes(aio.build())
    theirs = bytes(kafka_python.build())
    assert (theirs[:12] + b"\xff" * 4 + theirs[16:], theirs[12:16]) == (ours, bytes(4)), "kafka-python sends leader epoch 0, not -1"


def test_a_batch_needs_records_and_one_delta_each() -> None:
    with pytest.raises(Refused):
        build_batch([])
    with pytest.raises(Refused):
        build_batch([Record(value=b"")], options=BatchOptions(offset_deltas=(0, 1)))
    assert len(batch(1)) > HEADER_BYTES
