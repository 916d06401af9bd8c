"""What of a partition's offsets is still there: sealed segments first, then runs in bundles, else lost (R22). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from frazil.log.partitions import Segment
from frazil.log.refs import Ref


class Piece(NamedTuple):
    """Offsets ``[base, end)``: in a segment, in bundles (``refs``), or lost when there is neither."""

    base: int
    end: int
    segment: Segment | None = None
    refs: tuple[Ref, ...] = ()

    @property
    def lost(self) -> bool:
        """Nothing is known to hold these offsets."""
        return self.segment is None and not self.refs


def cover(start: int, end: int, segments: Sequence[Segment], runs: Sequence[Ref], *, segment_bytes: int) -> list[Piece]:
    """Pieces that cover ``[start, end)`` in order and without overlap; runs are cut into pieces of about ``segment_bytes``.

    Only the first piece may begin below ``start``: deleting records moves the log start into a segment or run.

    ``runs`` are those whose bundles exist, by offset. A segment counts only if it is the first to hold its offsets.
    """
    pieces: list[Piece] = []
    at = start
    for segment in sorted(segments, key=lambda one: (one.base, -one.end)):
        if segment.end <= at or (segment.base < at and at > start):
            continue
        pieces += _from_runs(at, min(segment.base, end), runs, segment_bytes, first=at == start)
        pieces.append(Piece(segment.base, segment.end, segment))
        at = segment.end
    pieces += _from_runs(at, end, runs, segment_bytes, first=at == start)
    return pieces


def _from_runs(base: int, end: int, runs: Sequence[Ref], segment_bytes: int, *, first: bool) -> Iterator[Piece]:
    """``first``: a run may begin below ``base``, which is then the log start inside it."""
    at, size = base, 0
    group: list[Ref] = []
    for ref in runs:
        if ref.end <= at or ref.end > end or (ref.base < at and not (first and at == base)):
            continue
        if group and (ref.base > at or size >= segment_bytes):
            yield Piece(group[0].base, at, refs=tuple(group))
            group, size = [], 0
        if ref.base > at:
            yield Piece(at, ref.base)
        group.append(ref)
        at, size = ref.end, size + ref.length
    if group:
        yield Piece(group[0].base, at, refs=tuple(group))
    if at < end:
        yield Piece(at, end)
