"""Building and reading segments, indexes and sidecars beyond what the corpus shows."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c

from frazil.kit.errors import Corrupt, Refused
from frazil.records import build_batch, patch
from frazil.records.building import BatchOptions, Record
from frazil.segments.indexes import SparseIndex, index_of, parse_index
from frazil.segments.kfs import FOOTER_BYTES, SegmentBytes, build_segment, check_index, read_footer, read_segment
from frazil.segments.sidecars import AbortedRange, build_sidecar, read_sidecar

LIMIT = 1 << 20


def batch(base: int, count: int = 1, timestamp_ms: int = 0) -> bytes:
    return build_batch([Record(value=b"v", timestamp_ms=timestamp_ms)] * count, options=BatchOptions(base_offset=base))


def forged(data: bytes, position: int, layout: str, value: object) -> bytes:
    """The segment with one field changed and the body's CRC made right again."""
    changed = bytearray(data)
    struct.pack_into(layout, changed, position, value)
    struct.pack_into(">I", changed, len(changed) - 16, crc32c(memoryview(changed)[32:-16]))
    return bytes(changed)


def built(*batches: bytes) -> SegmentBytes:
    return build_segment(batches, created_ms=7)


def test_r05_the_same_plan_writes_the_same_bytes_however_it_is_cut() -> None:
    run = bytes(patch(batch(0, 2) + batch(0, 3) + batch(0), 10))
    pieces = [run[: len(batch(0, 2))], memoryview(bytearray(run[len(batch(0, 2)) :]))]
    assert build_segment([run], created_ms=7) == build_segment(pieces, created_ms=7)
    assert build_segment([run], created_ms=8).kfs != build_segment([run], created_ms=7).kfs


def test_an_empty_segment_is_refused() -> None:
    for nothing in ([], [b""]):
        with pytest.raises(Refused, match="at least one batch"):
            build_segment(nothing, created_ms=0)


@pytest.mark.parametrize("batches", [[batch(5), batch(5)], [batch(5, 3), batch(7)], [batch(5), batch(0)], [batch(-1)]])
def test_offsets_that_do_not_increase_are_neither_written_nor_read(batches: list[bytes]) -> None:
    with pytest.raises(Corrupt, match="base offset"):
        build_segment(batches, created_ms=0)
    good = build_segment([batch(100), batch(200, 3)], created_ms=0).kfs
    head, foot = good[:32], good[-16:]
    body = b"".join(batches)
    with pytest.raises(Corrupt, match="base offset"):
        read_segment(head + body + struct.pack(">I", crc32c(body)) + foot[4:], where="x", batch_bytes_max=LIMIT)


def test_a_damaged_batch_is_never_sealed() -> None:
    with pytest.raises(Corrupt, match=f"segment body@{len(batch(0))}: CRC"):
        build_segment([batch(0) + batch(1)[:-1] + b"\xff"], created_ms=0)


@pytest.mark.parametrize(
    ("position", "layout", "value", "why"),
    [
        (0, ">4s", b"KAFT", "magic"),
        (4, ">H", 2, "version 2"),
        (6, ">H", 1, "flags 1"),
        (28, ">I", 1, "reserved 1"),
        (8, ">q", 9, "say base 9"),
        (16, ">i", 4, "4 records"),
        (16, ">i", -1, "-1 records"),
        (32, ">q", 9, "holds base 9"),
        (32 + 57, ">i", 3, "CRC-32C of the batch"),
    ],
)
def test_a_segment_forged_with_a_right_body_crc_is_still_refused(position: int, layout: str, value: object, why: str) -> None:
    data = built(batch(10, 2), batch(12, 3)).kfs
    with pytest.raises(Corrupt, match=why) as caught:
        read_segment(forged(data, position, layout, value), where="default/t/0/x.kfs", batch_bytes_max=LIMIT)
    assert caught.value.where.startswith("default/t/0/x.kfs")


def test_a_batch_above_the_readers_limit_is_refused() -> None:
    with pytest.raises(Corrupt, match="above the limit"):
        read_segment(built(batch(0, 50)).kfs, where="x", batch_bytes_max=100)


def test_a_reader_can_start_with_the_footer_alone() -> None:
    segment = built(batch(10, 2), batch(20, 3))
    assert read_footer(segment.kfs[-FOOTER_BYTES:], where="x") == (segment.crc, 22)
    for tail in (segment.kfs[-15:], segment.kfs[-17:-1], b""):
        with pytest.raises(Corrupt):
            read_footer(tail, where="x")


def test_the_body_is_a_view_and_batches_lie_in_it() -> None:
    segment = built(batch(10, 2), batch(20, 3))
    view = read_segment(segment.kfs, where="x", batch_bytes_max=LIMIT)
    assert view.body.obj is segment.kfs
    assert view.batches == segment.batches
    second = view.batches[1]
    assert bytes(view.body[second.position : second.position + second.length]) == batch(20, 3)
    assert parse_index(segment.index, where="x").floor(20) == 32


def test_index_entries_follow_the_interval_and_floor_finds_them() -> None:
    segment = built(*(batch(10 * i, 10) for i in range(100)))
    index = parse_index(segment.index, where="x")
    assert index.offsets == tuple(range(0, 1000, 100))
    view = read_segment(segment.kfs, where="x", batch_bytes_max=LIMIT)
    check_index(index, view, where="x")
    starts = {b.base_offset: b.position + 32 for b in view.batches}
    for offset in range(1000):
        assert index.floor(offset) == starts[offset // 100 * 100]
    assert index.floor(-1) == 32
    assert index.floor(10**18) == starts[900]


@pytest.mark.parametrize(
    "index",
    [
        SparseIndex(interval=99, offsets=(0, 100), positions=(32, 132)),
        SparseIndex(interval=100, offsets=(0,), positions=(32,)),
        SparseIndex(interval=100, offsets=(0, 100, 150), positions=(32, 132, 182)),
    ],
)
def test_an_index_of_another_segment_is_noticed(index: SparseIndex) -> None:
    view = read_segment(built(batch(0, 100), batch(100, 50), batch(150)).kfs, where="x", batch_bytes_max=LIMIT)
    assert index_of(view.batches).offsets == (0, 100)
    assert parse_index(index.encode(), where="x") == index
    with pytest.raises(Corrupt, match="rebuild"):
        check_index(index, view, where="x")


@pytest.mark.parametrize(
    "index",
    [
        SparseIndex(interval=100, offsets=(), positions=()),
        SparseIndex(interval=0, offsets=(0,), positions=(32,)),
        SparseIndex(interval=100, offsets=(-1,), positions=(32,)),
        SparseIndex(interval=100, offsets=(0,), positions=(33,)),
        SparseIndex(interval=100, offsets=(0, 0), positions=(32, 99)),
        SparseIndex(interval=100, offsets=(0, 9), positions=(32, 32)),
    ],
)
def test_an_index_out_of_order_is_refused(index: SparseIndex) -> None:
    with pytest.raises(Corrupt):
        parse_index(index.encode(), where="x")


@pytest.mark.parametrize("count", [2**31 - 1, -1, 0, 2])
def test_an_index_that_lies_about_its_size_costs_nothing(count: int) -> None:
    data = bytearray(SparseIndex(interval=100, offsets=(0,), positions=(32,)).encode())
    struct.pack_into(">i", data, 6, count)
    with pytest.raises(Corrupt, match=f"do not hold {count} entries"):
        parse_index(data, where="x")


def test_an_index_of_nothing_is_refused() -> None:
    with pytest.raises(Refused):
        index_of([])
    with pytest.raises(Refused):
        index_of(built(batch(0)).batches, interval=0)


def test_r21_the_sidecar_finds_the_first_batch_whose_max_time_is_late_enough() -> None:
    segment = built(batch(0, timestamp_ms=50), batch(1, timestamp_ms=10), batch(2, timestamp_ms=90), batch(3, timestamp_ms=60))
    aborted = [AbortedRange(5, 1, 3), AbortedRange(6, 0, 0)]
    sidecar = read_sidecar(build_sidecar(segment.batches, segment_crc=segment.crc, aborted=aborted), where="x")
    assert sidecar.segment_crc == segment.crc
    assert list(sidecar.aborted) == aborted
    found = [sidecar.find_time(ms) for ms in (0, 50, 51, 90, 91)]
    assert [time.base_offset if time else None for time in found] == [0, 0, 2, 2, None]
    assert found[2] is not None
    assert segment.kfs[found[2].position : found[2].position + 8] == (2).to_bytes(8, "big")


@pytest.mark.parametrize("aborted", [AbortedRange(1, 5, 4), AbortedRange(1, -1, 4)])
def test_a_sidecar_with_an_impossible_range_is_refused(aborted: AbortedRange) -> None:
    segment = built(batch(0))
    with pytest.raises(Corrupt, match="aborted range"):
        read_sidecar(build_sidecar(segment.batches, segment_crc=segment.crc, aborted=[aborted]), where="x")


def test_a_sidecar_out_of_order_is_refused() -> None:
    segment = built(batch(0), batch(1))
    with pytest.raises(Corrupt, match="increasing order"):
        read_sidecar(build_sidecar(segment.batches[::-1], segment_crc=1), where="x")
