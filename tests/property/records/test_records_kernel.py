"""Kernel and twin give one answer (the full form: python -m tests.differential.batch_kernel)."""

from __future__ import annotations

import gc
import resource
import struct
import threading
import time

import pytest
from crc32c import crc32c
from tests.differential.batch_cases import varint
from tests.differential.batch_kernel import run_chunk

from frazil.kit.kernel import kernel
from frazil.records import Codec, build_batch, patch
from frazil.records.building import BatchOptions, Record
from frazil.records.codecs import compress
from frazil.records.tables import NativeScanner, PythonScanner, ScanLimits, TableScanner, open_scanner

LIMITS = ScanLimits(uncompressed_bytes_max=1 << 26)
needs_kernel = pytest.mark.skipif(kernel() is None, reason="no kernel here (tests/architecture demands it where cargo is)")


def both(limits: ScanLimits = LIMITS) -> list[TableScanner]:
    found: list[TableScanner] = [PythonScanner(limits)]
    if (native := kernel()) is not None:
        found.append(NativeScanner(native, limits))
    return found


@needs_kernel
@pytest.mark.parametrize("seed", [1, 2])
def test_kernel_and_twin_agree_on_ten_thousand_runs(seed: int) -> None:
    found = run_chunk(seed, 10_000)
    assert found["row"] > 10_000
    assert all(found[code] > 10 for code in ("magic", "crc", "counts", "codec", "decompress", "records", "stopped")), found


def test_the_kernel_is_taken_where_it_is_and_the_twin_on_demand() -> None:
    assert isinstance(open_scanner(LIMITS), NativeScanner if kernel() is not None else PythonScanner)
    assert isinstance(open_scanner(LIMITS, use_kernel=False), PythonScanner)


def test_runs_add_up_and_finish_empties() -> None:
    for scanner in both():
        for base in (0, 10):
            scanner.add(bytes(patch(build_batch([Record(value=b"a"), Record(key=b"k")]), base)), first_offset=base + 1)
        assert len(scanner) == 2
        table = scanner.finish()
        assert table.column("offset").to_pylist() == [1, 11]
        assert table.column("key").to_pylist() == [b"k", b"k"]
        assert len(scanner) == scanner.bytes_held == scanner.finish().num_rows == 0


def test_values_outlive_the_scanner_and_the_run() -> None:
    for scanner in both():
        run = patch(build_batch([Record(value=b"v" * 1000)] * 500, options=BatchOptions(codec=Codec.LZ4)), 0)
        scanner.add(run)
        table = scanner.finish()
        run[:] = b"\xff" * len(run)
        scanner.add(bytes(run))
        del scanner, run
        gc.collect()
        table.validate(full=True)
        assert set(table.column("value").to_pylist()) == {b"v" * 1000}


def headers_alone(count: int) -> bytes:
    """A zstd batch of one record with ``count`` headers of two bytes each: an empty name and no value."""
    head = b"\x00\x00\x00\x01\x00" + varint(count) + b"\x00\x01" * count
    packed = compress(Codec.ZSTD, varint(len(head)) + head)
    frame = bytearray(build_batch([Record(value=b"")], options=BatchOptions(codec=Codec.ZSTD))[:61] + packed)
    struct.pack_into(">i", frame, 8, len(frame) - 12)
    struct.pack_into(">I", frame, 17, crc32c(bytes(frame[21:])))
    return bytes(frame)


def test_f28_a_batch_of_nothing_but_headers_is_refused_before_it_is_memory() -> None:
    """A header is two bytes here, eight as columns and about a hundred as Python objects."""
    limits = ScanLimits(uncompressed_bytes_max=1 << 25)
    fits, frame = headers_alone(1_000), headers_alone(6_000_000)
    for scanner in both(limits):
        assert not scanner.add(fits).faults
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        found = scanner.add(frame)
        assert [fault.code for fault in found.faults] == ["records"]
        assert len(scanner) == 1
        assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 < 150


@needs_kernel
def test_the_kernel_lets_other_threads_run() -> None:
    run = bytes(patch(build_batch([Record(value=b"x" * 1000)] * 1000, options=BatchOptions(codec=Codec.GZIP)) * 100, 0))
    ticks = 0
    stop = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not stop.is_set():
            ticks += 1
            time.sleep(0.0005)

    thread = threading.Thread(target=tick)
    thread.start()
    while ticks == 0:
        time.sleep(0.001)
    before = ticks
    open_scanner(LIMITS).add(run)
    during = ticks - before
    stop.set()
    thread.join()
    assert during > 5


@needs_kernel
def test_limits_beyond_what_arrow_offsets_reach_are_refused_by_the_kernel_and_cut_by_the_room() -> None:
    native = kernel()
    assert native is not None
    with pytest.raises(ValueError, match="limits go up to"):
        native.Scanner(uncompressed_bytes_max=1 << 31, rows_max=1, bytes_max=1)
    open_scanner(ScanLimits(uncompressed_bytes_max=1 << 40, rows_max=1 << 40, bytes_max=1 << 40))


@needs_kernel
def test_hostile_arguments_raise_and_do_no_more() -> None:
    native = kernel()
    assert native is not None
    scanner = native.Scanner(uncompressed_bytes_max=100, rows_max=1, bytes_max=1)
    for run in ("text", None, 5, [1], memoryview(b"abcd").cast("i")):
        with pytest.raises((TypeError, BufferError)):
            scanner.add(run, first_offset=0, stop_at_damage=False)
    assert scanner.add(memoryview(b"abcdefgh")[::2], first_offset=-(2**63), stop_at_damage=False)[3] is not None


@needs_kernel
def test_freed_blocks_are_kept_up_to_the_bound_and_threads_that_end_leave_nothing_behind() -> None:
    native = kernel()
    assert native is not None
    run = bytes(patch(build_batch([Record(value=b"x" * 1000)] * 1000, options=BatchOptions(codec=Codec.LZ4)) * 30, 0))
    wanted = open_scanner(LIMITS)
    wanted.add(run)
    expected = wanted.finish()
    same: list[bool] = []

    def work() -> None:
        for _ in range(3):
            scanner = open_scanner(LIMITS)
            scanner.add(run)
            same.append(scanner.finish().equals(expected))

    native.keep_bytes(48 << 20)
    try:
        for _ in range(4):
            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert native.kept_bytes() <= 48 << 20
        assert len(same) == 48
        assert all(same)
        assert native.kept_bytes() > 0
        native.keep_bytes(0)
        assert native.kept_bytes() == 0
    finally:
        native.keep_bytes(128 << 20)
