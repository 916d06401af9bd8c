"""The bundle ``.kfb`` version 1: raw batches of many partitions, a directory, a footer (docs/formats/bundle.md).

Batches in a bundle carry no offsets; whoever reads them goes through ``records.patch`` (R31).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from crc32c import crc32c

from frazil.kit.errors import Bug, Corrupt, Refused
from frazil.kit.names import PartitionId, PartitionKey, TopicId
from frazil.records.batches import HEADER_BYTES, Batch, Bytes

Run: TypeAlias = tuple[PartitionKey, Sequence[Bytes], Sequence[Batch]]
"""One partition, its bytes in order, and the headers of the batches these bytes are."""

_MAGIC: Final = b"FZB1"
_VERSION: Final = 1
_ENTRY: Final = struct.Struct(">16siIIIIqqqI")
_FOOTER: Final = struct.Struct(">IIHH4s")  # directory length, directory CRC-32C, version, reserved, magic
FOOTER_BYTES: Final = _FOOTER.size
ENTRY_BYTES: Final = _ENTRY.size
_SIZE_MAX: Final = 2**31 - 1


class BundleRun(NamedTuple):
    """The contiguous batches of one partition inside one bundle. A tuple: one is made per run on the produce path (R32)."""

    topic_id: TopicId
    partition: PartitionId
    position: int
    length: int
    batches: int
    records: int
    offset_count: int
    """Offsets the run takes: Σ (lastOffsetDelta + 1)."""
    first_timestamp_ms: int
    max_timestamp_ms: int
    crc: int
    """CRC-32C of the run's bytes as they are in the bundle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltBundle:
    """The object as pieces to write one after the other; payloads are the caller's own buffers, not copies."""

    chunks: list[Bytes]
    directory: tuple[BundleRun, ...]
    size_bytes: int


def build_bundle(runs: Sequence[Run]) -> BuiltBundle:
    """One bundle of all ``runs``, sorted by topic id and partition.

    Raises Refused when there is no run or the bundle would pass 2 GiB, Bug when a partition comes twice or bytes and
    batches of a run disagree. Cost: one pass over runs, one CRC over the bytes, one join for the directory (R32).
    """
    chunks: list[Bytes] = []
    directory: list[BundleRun] = []
    position = 0
    for key, parts, batches in sorted(runs, key=_sort_key):
        entry = _entry(key, parts, batches, position)
        directory.append(entry)
        chunks += parts
        position += entry.length
    if not directory or position > _SIZE_MAX:
        raise Refused(f"{len(directory)} runs of {position} bytes make no bundle")
    if any(one.topic_id == two.topic_id and one.partition == two.partition for one, two in pairwise(directory)):
        raise Bug("a bundle got two runs of one partition")
    packed = b"".join([_ENTRY.pack(*entry) for entry in directory])
    chunks.append(packed + _FOOTER.pack(len(packed), crc32c(packed), _VERSION, 0, _MAGIC))
    return BuiltBundle(chunks=chunks, directory=tuple(directory), size_bytes=position + len(chunks[-1]))


def tail_bytes_needed(tail: Bytes, object_size: int, *, where: str) -> int:
    """How many bytes from the end of the bundle hold directory and footer; ``tail`` is at least the last FOOTER_BYTES.

    Raises Corrupt when they are no footer of a bundle of ``object_size`` bytes.
    """
    if len(tail) < FOOTER_BYTES or len(tail) > object_size:
        raise Corrupt(f"{len(tail)} bytes are no tail of a bundle of {object_size}", where=where)
    length, _, version, reserved, magic = _FOOTER.unpack_from(tail, len(tail) - FOOTER_BYTES)
    if magic != _MAGIC or version != _VERSION or reserved != 0:
        raise Corrupt(f"magic {magic!r}, version {version}, reserved {reserved} are not those of a bundle, version 1", where=where)
    if length == 0 or length % ENTRY_BYTES or length + FOOTER_BYTES > object_size:
        raise Corrupt(f"a directory of {length} bytes does not fit a bundle of {object_size}", where=where)
    return int(length) + FOOTER_BYTES


def read_directory(tail_bytes: Bytes, object_size: int, *, where: str) -> tuple[BundleRun, ...]:
    """The directory of a bundle from its last bytes (the whole object will do).

    Raises Refused when ``tail_bytes`` is too short (see ``tail_bytes_needed``), Corrupt when the directory fails its CRC or
    its runs do not fill the bundle exactly, each once, in order.
    """
    needed = tail_bytes_needed(tail_bytes, object_size, where=where)
    if len(tail_bytes) < needed:
        raise Refused(f"{where}: the directory needs the last {needed} bytes, not {len(tail_bytes)}")
    start = len(tail_bytes) - needed
    packed = memoryview(tail_bytes)[start : len(tail_bytes) - FOOTER_BYTES]
    crc = _FOOTER.unpack_from(tail_bytes, len(tail_bytes) - FOOTER_BYTES)[1]
    if crc32c(packed) != crc:
        raise Corrupt(f"CRC-32C of the directory is not {crc:08x} as the footer says", where=where)
    directory = tuple(BundleRun(*entry) for entry in _ENTRY.iter_unpack(packed))
    _check_directory(directory, object_size - needed, where)
    return directory


def check_run(run: BundleRun, data: Bytes, *, where: str) -> None:
    """Raises Corrupt unless ``data`` are exactly the bytes of ``run``."""
    if len(data) != run.length or crc32c(data) != run.crc:
        raise Corrupt(f"{len(data)} bytes are not the run of {run.length} with CRC-32C {run.crc:08x}", where=f"{where}@{run.position}")


def _sort_key(run: Run) -> tuple[bytes, int]:
    return run[0].topic_id, run[0].partition


def _entry(key: PartitionKey, parts: Sequence[Bytes], batches: Sequence[Batch], position: int) -> BundleRun:
    length = records = offsets = crc = 0
    for part in parts:
        length += len(part)
        crc = crc32c(part, crc)
    framed = 0
    max_ms = batches[0].max_timestamp_ms if batches else 0
    for batch in batches:
        framed += batch.length
        records += batch.record_count
        offsets += batch.last_offset_delta + 1
        max_ms = max(max_ms, batch.max_timestamp_ms)
    if framed != length or not length:
        raise Bug(f"run of {key}: {length} bytes with batches of {framed}")
    first = batches[0]
    first_ms = first.max_timestamp_ms if first.is_log_append_time else first.base_timestamp_ms
    return BundleRun(key.topic_id, key.partition, position, length, len(batches), records, offsets, first_ms, max_ms, crc)


def _check_directory(directory: tuple[BundleRun, ...], data_bytes: int, where: str) -> None:
    """A hostile directory that passes its CRC must still not make a reader take bytes twice or from outside."""
    position = 0
    previous = (b"", -1)
    for run in directory:
        identity = (bytes(run.topic_id), int(run.partition))
        if identity <= previous or run.partition < 0:
            raise Corrupt(f"run {run.topic_id.hex()}/{run.partition} is not in order", where=where)
        if run.position != position or run.length < run.batches * HEADER_BYTES:
            raise Corrupt(f"run at byte {run.position}, {run.length} bytes, {run.batches} batches: expected at {position}", where=where)
        if run.batches < 1 or run.offset_count < max(run.batches, run.records):
            raise Corrupt(
                f"run at byte {position} has {run.batches} batches, {run.records} records, {run.offset_count} offsets", where=where
            )
        previous = identity
        position += run.length
    if position != data_bytes:
        raise Corrupt(f"runs take {position} bytes of {data_bytes}", where=where)
