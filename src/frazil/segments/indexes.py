"""The sparse index beside a segment (``.index`` version 1, docs/formats/kfs.md): batch offsets → byte positions in the file."""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from frazil.kit.errors import Corrupt, Refused
from frazil.records.batches import Batch, Bytes

INTERVAL_RECORDS: Final = 100
"""Records between two entries. KafScale's brokers use this number and no other."""
SEGMENT_HEADER_BYTES: Final = 32
POSITION_MAX: Final = 2**31 - 1

_MAGIC: Final = b"IDX\x00"
_VERSION: Final = 1
_HEADER: Final = struct.Struct(">4sHiiH")
_ENTRY: Final = struct.Struct(">qi")


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseIndex:
    """Base offsets of some batches, the first among them, and their positions from the start of the file."""

    interval: int
    offsets: tuple[int, ...]
    positions: tuple[int, ...]

    def floor(self, offset: int) -> int:
        """Position of the last indexed batch whose base offset is ≤ ``offset``; of the first batch if there is none."""
        return self.positions[max(bisect_right(self.offsets, offset) - 1, 0)]

    def encode(self) -> bytes:
        """The bytes of the ``.index`` object."""
        head = _HEADER.pack(_MAGIC, _VERSION, len(self.offsets), self.interval, 0)
        return head + b"".join(map(_ENTRY.pack, self.offsets, self.positions))


def index_of(batches: Sequence[Batch], *, interval: int = INTERVAL_RECORDS) -> SparseIndex:
    """The index of a segment whose body holds ``batches``; also how a lost one is rebuilt.

    An entry for the first batch, and for each one that has ``interval`` records or more between itself and the last entry.
    Raises Refused when there is no batch, the interval is below 1 or the segment is beyond 2 GiB.
    """
    if not batches or interval < 1:
        raise Refused(f"{len(batches)} batches and interval {interval} make no index")
    offsets: list[int] = []
    positions: list[int] = []
    since = interval
    for batch in batches:
        if since >= interval:
            offsets.append(batch.base_offset)
            positions.append(batch.position + SEGMENT_HEADER_BYTES)
            since = 0
        since += batch.record_count
    if positions[-1] > POSITION_MAX:
        raise Refused("an index cannot reach beyond 2 GiB; seal smaller segments")
    return SparseIndex(interval=interval, offsets=tuple(offsets), positions=tuple(positions))


def parse_index(data: Bytes, *, where: str) -> SparseIndex:
    """Reads an ``.index`` object. Raises Corrupt when it is not one, whole and in order.

    The format has no checksum: what is plausible but wrong shows only in ``kfs.check_index``.
    """
    if len(data) < _HEADER.size:
        raise Corrupt(f"{len(data)} bytes are too few for an index", where=where)
    magic, version, count, interval, reserved = _HEADER.unpack_from(data)
    if magic != _MAGIC or version != _VERSION or reserved != 0:
        raise Corrupt(f"magic {magic!r}, version {version}, reserved {reserved} are not those of an index, version 1", where=where)
    if count < 1 or interval < 1 or len(data) != _HEADER.size + count * _ENTRY.size:
        raise Corrupt(f"{len(data)} bytes do not hold {count} entries at interval {interval}", where=where)
    entries = list(_ENTRY.iter_unpack(memoryview(data)[_HEADER.size :]))
    offsets = tuple(offset for offset, _ in entries)
    positions = tuple(position for _, position in entries)
    if offsets[0] < 0 or positions[0] != SEGMENT_HEADER_BYTES:
        raise Corrupt(f"the first entry is offset {offsets[0]} at byte {positions[0]}, not the first batch", where=where)
    for column in (offsets, positions):
        if any(later <= earlier for earlier, later in pairwise(column)):
            raise Corrupt("entries are not in increasing order", where=where)
    return SparseIndex(interval=interval, offsets=offsets, positions=positions)
