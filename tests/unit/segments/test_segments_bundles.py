"""Bundles: one pass to build, nothing believed when read."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c

from frazil.kit.errors import Bug, Corrupt, Refused
from frazil.kit.names import PartitionId, PartitionKey, TopicId
from frazil.records import build_batch, patch, restamp, scan, split_batches
from frazil.records.building import BatchOptions, Record
from frazil.segments.bundles import ENTRY_BYTES, FOOTER_BYTES, BuiltBundle, Run, build_bundle, check_run, read_directory, tail_bytes_needed

LIMIT = 1 << 20


def key(topic: int, partition: int = 0) -> PartitionKey:
    return PartitionKey(TopicId(bytes([topic]) * 16), PartitionId(partition))


def run(where: PartitionKey, *parts: bytes) -> Run:
    return where, parts, split_batches(b"".join(parts), batch_bytes_max=LIMIT)


def batch(count: int = 1, **options: object) -> bytes:
    records = [Record(value=b"v%d" % i, timestamp_ms=100 - i) for i in range(count)]
    return build_batch(records, options=BatchOptions(**options))  # type: ignore[arg-type]


def two_runs() -> BuiltBundle:
    return build_bundle([run(key(2), batch(3)), run(key(1, 7), batch(1), batch(2, last_offset_delta=9))])


def with_directory(data: bytes, packed: bytes) -> bytes:
    """The bundle with another directory under a right CRC."""
    payload = data[: len(data) - FOOTER_BYTES - 2 * ENTRY_BYTES]
    return payload + packed + struct.pack(">IIHH4s", len(packed), crc32c(packed), 1, 0, b"FZB1")


def test_runs_are_sorted_and_described() -> None:
    built = two_runs()
    one, two = built.directory
    assert [(entry.topic_id[0], entry.partition) for entry in built.directory] == [(1, 7), (2, 0)]
    assert (one.position, one.length, one.batches, one.records, one.offset_count) == (0, two.position, 2, 3, 11)
    assert (one.first_timestamp_ms, one.max_timestamp_ms) == (100, 100)
    assert built.size_bytes == sum(len(chunk) for chunk in built.chunks)
    data = b"".join(built.chunks)
    for entry in built.directory:
        check_run(entry, data[entry.position : entry.position + entry.length], where="x")


def test_r32_payloads_are_not_copied() -> None:
    payload = memoryview(bytearray(batch(5)))
    built = build_bundle([(key(1), [payload], split_batches(payload, batch_bytes_max=LIMIT))])
    assert built.chunks[0] is payload
    assert len(built.chunks) == 2


def test_r31_a_run_read_back_and_patched_has_its_offsets() -> None:
    built = two_runs()
    data = b"".join(built.chunks)
    entry = read_directory(data, len(data), where="x")[0]
    columns, faults = scan(patch(data[entry.position : entry.position + entry.length], 500), uncompressed_bytes_max=LIMIT)
    assert (columns.offsets.tolist(), faults) == ([500, 501, 502], ())


def test_the_first_time_of_a_restamped_run_is_its_append_time() -> None:
    stamped = bytes(restamp(batch(2), 9_000))
    entry = build_bundle([run(key(1), stamped)]).directory[0]
    assert (entry.first_timestamp_ms, entry.max_timestamp_ms) == (9_000, 9_000)


def test_what_makes_no_bundle() -> None:
    with pytest.raises(Refused):
        build_bundle([])
    with pytest.raises(Bug, match="two runs"):
        build_bundle([run(key(1), batch()), run(key(2), batch()), run(key(1), batch())])
    with pytest.raises(Bug, match="with batches of"):
        build_bundle([(key(1), [batch(), batch()], split_batches(batch(), batch_bytes_max=LIMIT))])
    with pytest.raises(Bug, match="with batches of"):
        build_bundle([(key(1), [], [])])


@pytest.mark.parametrize(
    ("entry", "position", "layout", "value", "why"),
    [
        (0, 20, ">I", 1, "expected at 0"),
        (1, 20, ">I", 0, "expected at"),
        (0, 24, ">I", 2**32 - 1, "expected at"),
        (0, 24, ">I", 0, "bytes, 2 batches"),
        (1, 24, ">I", 2**31, "bytes of"),
        (0, 28, ">I", 0, "has 0 batches"),
        (0, 28, ">I", 100, "100 batches"),
        (0, 32, ">I", 12, "12 records, 11 offsets"),
        (0, 36, ">q", 1, "1 offsets"),
        (0, 36, ">q", -1, "-1 offsets"),
        (0, 16, ">i", -1, "not in order"),
        (0, 0, ">B", 3, "not in order"),
        (1, 0, ">16s", b"\x01" * 16, "not in order"),
    ],
)
def test_a_hostile_directory_is_refused_though_its_crc_is_right(entry: int, position: int, layout: str, value: object, why: str) -> None:
    data = b"".join(two_runs().chunks)
    packed = bytearray(data[-FOOTER_BYTES - 2 * ENTRY_BYTES : -FOOTER_BYTES])
    struct.pack_into(layout, packed, entry * ENTRY_BYTES + position, value)
    changed = with_directory(data, bytes(packed))
    with pytest.raises(Corrupt, match=why):
        read_directory(changed, len(changed), where="bundles/x")


def test_a_directory_that_leaves_out_or_repeats_a_run_is_refused() -> None:
    data = b"".join(two_runs().chunks)
    packed = data[-FOOTER_BYTES - 2 * ENTRY_BYTES : -FOOTER_BYTES]
    for other in (packed[:ENTRY_BYTES], packed[ENTRY_BYTES:], packed[:ENTRY_BYTES] * 2, packed + packed, b""):
        changed = with_directory(data, other)
        with pytest.raises(Corrupt):
            read_directory(changed, len(changed), where="x")


def test_a_footer_that_asks_for_more_than_there_is_is_refused() -> None:
    for length in (2**32 - 64, 64 * 1000, 63):
        tail = struct.pack(">IIHH4s", length, 0, 1, 0, b"FZB1")
        with pytest.raises(Corrupt, match="does not fit"):
            tail_bytes_needed(tail, 1000, where="x")
    with pytest.raises(Corrupt, match="no tail"):
        tail_bytes_needed(b"FZB1", 1000, where="x")
    with pytest.raises(Corrupt, match="no tail"):
        read_directory(bytes(100), 99, where="x")


def test_a_tail_that_is_too_short_says_what_is_needed() -> None:
    data = b"".join(two_runs().chunks)
    with pytest.raises(Refused, match=f"the last {2 * ENTRY_BYTES + FOOTER_BYTES} bytes"):
        read_directory(data[-FOOTER_BYTES:], len(data), where="x")


def test_a_run_is_checked_by_length_and_crc() -> None:
    built = two_runs()
    entry, data = built.directory[1], batch(3)
    check_run(entry, data, where="x")
    for other in (data[:-1], data + b"\0", b"\0" + data[1:-1] + b"\x01", b""):
        with pytest.raises(Corrupt, match=f"x@{entry.position}"):
            check_run(entry, other, where="x")
