"""The private sidecar ``.fzx`` version 1 of a segment: what ``.kfs`` and ``.index`` have no place for (R21, docs/formats/kfs.md).

Batch times answer "first offset at or after time t" without reading the segment; aborted ranges go into fetch answers.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from crc32c import crc32c

from frazil.kit.errors import Corrupt
from frazil.records.batches import Batch, Bytes
from frazil.segments.indexes import SEGMENT_HEADER_BYTES

_MAGIC: Final = b"FZX1"
_VERSION: Final = 1
_HEADER: Final = struct.Struct(">4sHHIII")  # magic, version, reserved, segment body CRC, batch count, aborted count
_TIME: Final = struct.Struct(">qiq")
_ABORTED: Final = struct.Struct(">qqq")
_CRC: Final = struct.Struct(">I")


class BatchTime(NamedTuple):
    """One batch: its base offset, its position from the start of the ``.kfs`` file, the largest timestamp in it."""

    base_offset: int
    position: int
    max_timestamp_ms: int


class AbortedRange(NamedTuple):
    """Offsets ``first_offset``-``last_offset`` of this producer belong to an aborted transaction."""

    producer_id: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """The content of one ``.fzx`` object. ``segment_crc`` is the body CRC of the segment it belongs to."""

    segment_crc: int
    times: tuple[BatchTime, ...]
    aborted: tuple[AbortedRange, ...]

    def find_time(self, timestamp_ms: int) -> BatchTime | None:
        """The first batch whose *max* timestamp is ≥ ``timestamp_ms``; times need not increase, so the search is linear."""
        return next((time for time in self.times if time.max_timestamp_ms >= timestamp_ms), None)


def build_sidecar(batches: Sequence[Batch], *, segment_crc: int, aborted: Sequence[AbortedRange] = ()) -> bytes:
    """The sidecar of the segment whose body has CRC ``segment_crc`` and holds ``batches`` (positions from the body's start)."""
    parts = [_HEADER.pack(_MAGIC, _VERSION, 0, segment_crc, len(batches), len(aborted))]
    parts += [_TIME.pack(b.base_offset, b.position + SEGMENT_HEADER_BYTES, b.max_timestamp_ms) for b in batches]
    parts += [_ABORTED.pack(*span) for span in aborted]
    data = b"".join(parts)
    return data + _CRC.pack(crc32c(data))


def read_sidecar(data: Bytes, *, where: str) -> Sidecar:
    """Reads a ``.fzx`` object. Raises Corrupt when it is not one, whole and in order."""
    view = memoryview(data)
    if len(view) < _HEADER.size + _CRC.size or crc32c(view[: -_CRC.size]) != _CRC.unpack(view[-_CRC.size :])[0]:
        raise Corrupt(f"CRC-32C of the sidecar's {len(view)} bytes does not hold", where=where)
    magic, version, reserved, segment_crc, time_count, aborted_count = _HEADER.unpack_from(view)
    if magic != _MAGIC or version != _VERSION or reserved != 0:
        raise Corrupt(f"magic {magic!r}, version {version}, reserved {reserved} are not those of a sidecar, version 1", where=where)
    middle = _HEADER.size + time_count * _TIME.size
    if middle + aborted_count * _ABORTED.size + _CRC.size != len(view):
        raise Corrupt(f"{len(view)} bytes do not hold {time_count} batches and {aborted_count} aborted ranges", where=where)
    times = tuple(BatchTime(*entry) for entry in _TIME.iter_unpack(view[_HEADER.size : middle]))
    aborted = tuple(AbortedRange(*entry) for entry in _ABORTED.iter_unpack(view[middle : -_CRC.size]))
    if any(two.base_offset <= one.base_offset or two.position <= one.position for one, two in pairwise(times)):
        raise Corrupt("batches are not in increasing order", where=where)
    if any(span.first_offset < 0 or span.last_offset < span.first_offset for span in aborted):
        raise Corrupt("an aborted range ends before it begins", where=where)
    return Sidecar(segment_crc=segment_crc, times=times, aborted=aborted)
