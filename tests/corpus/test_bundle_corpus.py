"""The bundle and sidecar formats against bytes made by an independent writer; every byte flipped."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import pytest
from tests.corpus import independent_bundle_writer as independent

from frazil.kit.errors import Corrupt, Refused
from frazil.kit.names import PartitionId, PartitionKey, TopicId
from frazil.records import split_batches
from frazil.segments.bundles import FOOTER_BYTES, build_bundle, check_run, read_directory, tail_bytes_needed
from frazil.segments.kfs import build_segment
from frazil.segments.sidecars import AbortedRange, build_sidecar, read_sidecar

FOLDER = pathlib.Path(__file__).parent / "bundle"


def stored(name: str) -> bytes:
    return bytes.fromhex((FOLDER / f"{name}.hex").read_text())


def read_all(data: bytes | bytearray) -> None:
    for run in read_directory(data, len(data), where="bundle"):
        check_run(run, data[run.position : run.position + run.length], where="bundle")


def test_stored_files_are_what_the_independent_writer_makes() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {f"{name}.hex" for name in independent.FILES}
    assert {name: stored(name) for name in independent.FILES} == independent.FILES


def test_our_bundle_is_the_independent_one() -> None:
    runs = [
        (PartitionKey(TopicId(topic), PartitionId(partition)), batches, split_batches(b"".join(batches), batch_bytes_max=10_000))
        for topic, partition, batches in independent.RUNS
    ]
    built = build_bundle(runs)
    assert b"".join(built.chunks) == stored("three-runs.kfb")
    assert built.size_bytes == len(stored("three-runs.kfb"))
    assert read_directory(stored("three-runs.kfb"), built.size_bytes, where="") == built.directory


def test_the_directory_comes_from_the_tail_alone() -> None:
    data = stored("three-runs.kfb")
    needed = tail_bytes_needed(data[-FOOTER_BYTES:], len(data), where="")
    assert needed == 3 * 64 + 16
    assert read_directory(data[-needed:], len(data), where="") == read_directory(data, len(data), where="")
    with pytest.raises(Refused, match=f"last {needed} bytes"):
        read_directory(data[-needed + 1 :], len(data), where="")


def unnoticed(data: bytes, read: Callable[[bytearray], object]) -> set[int]:
    """Positions where some other byte value is read without complaint."""
    found = set()
    changed = bytearray(data)
    for position, original in enumerate(data):
        for value in range(256):
            changed[position] = value
            try:
                if value != original:
                    read(changed)
                    found.add(position)
            except Corrupt:
                continue
        changed[position] = original
    return found


def test_no_byte_of_a_bundle_changes_unnoticed() -> None:
    assert unnoticed(stored("three-runs.kfb"), read_all) == set()
    read_all(stored("three-runs.kfb"))


def test_our_sidecar_is_the_independent_one_and_no_byte_changes_unnoticed() -> None:
    built = build_segment(independent.SEGMENT, created_ms=0)
    data = build_sidecar(built.batches, segment_crc=built.crc, aborted=[AbortedRange(*span) for span in independent.ABORTED])
    assert data == stored("aborted.fzx")
    assert unnoticed(data, lambda changed: read_sidecar(changed, where="")) == set()


@pytest.mark.parametrize("name", ["three-runs.kfb", "aborted.fzx"])
def test_no_cut_file_is_read(name: str) -> None:
    whole = stored(name)
    read = read_all if name.endswith("kfb") else (lambda data: read_sidecar(data, where=""))
    for length in range(len(whole)):
        with pytest.raises(Corrupt):
            read(whole[:length])
    with pytest.raises(Corrupt):
        read(b"\0" + whole)
