"""What a process knows of one partition: bounds, sealed segments, runs in bundles, producer states. Memory only.

Runs are kept as columns of numbers, about 50 bytes each: between two seals there may be millions of them (R04).
Invariant after every fold: segments and runs together cover ``[start, end)`` without a gap (R08).
"""

from __future__ import annotations

import asyncio
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from frazil.kit.names import PartitionKey
from frazil.log.horizon import ulid_ms
from frazil.log.producers import ProducerState
from frazil.log.refs import Bounds, Ref
from frazil.metadata.port import START, Revision


class Bundle:
    """One bundle that has at least one run somewhere in the index. ``live`` counts those runs."""

    __slots__ = ("bytes", "key", "live", "ulid", "written_ms")

    def __init__(self, ulid: str, key: str, size_bytes: int) -> None:
        self.ulid = ulid
        self.key = key
        self.bytes = size_bytes
        self.written_ms = ulid_ms(ulid)
        self.live = 0


class Segment(NamedTuple):
    """A sealed segment as its metadata record describes it. With an empty ``object_key``: a lost range (R22)."""

    base: int
    end: int
    object_key: str
    object_bytes: int
    body_bytes: int
    records: int
    first_timestamp_ms: int
    max_timestamp_ms: int
    crc: int
    created_ms: int


SEGMENT_BODY_POSITION: Final = 32


class PartitionLog:
    """Mutable; owned by the index, which is the only one to change it."""

    __slots__ = (
        "bundles", "doubted", "end", "firsts", "gap", "key", "lengths", "maxima", "positions", "producers", "record_version",
        "run_bases", "runs_bytes", "sealed_to", "segment_bases", "segments", "shard", "start", "waiters",
    )  # fmt: skip

    def __init__(self, key: PartitionKey, shard: int) -> None:
        self.key = key
        self.shard = shard
        self.start = 0
        self.sealed_to = 0
        self.end = 0
        self.record_version: Revision = START
        """Version of the partition's record in metadata; 0: there is none."""
        self.segment_bases: list[int] = []
        self.segments: list[Segment] = []
        self.run_bases = array("q")
        self.positions = array("q")
        self.lengths = array("q")
        self.firsts = array("q")
        self.maxima = array("q")
        self.bundles: list[Bundle] = []
        self.runs_bytes = 0
        self.producers: dict[int, ProducerState] = {}
        self.gap: tuple[int, int] | None = None
        """Offsets whose runs are missing from metadata. Nothing from there on is served (R08)."""
        self.doubted: list[Bundle] = []
        """One entry per run behind the gap: they are not served, and their bundles are kept as long as the topic is there."""
        self.waiters: dict[asyncio.Future[None], None] = {}

    @property
    def floor(self) -> int:
        """Runs that end at or below it are not needed: sealed, or below the log start."""
        return max(self.sealed_to, self.start)

    @property
    def bounds(self) -> Bounds:
        """Start and end as known."""
        return Bounds(start=self.start, end=self.end)

    def run_end(self, at: int) -> int:
        """Where run ``at`` ends: where the next one starts."""
        if at + 1 < len(self.run_bases):
            return self.run_bases[at + 1]
        return self.end if self.gap is None else self.gap[0]

    def add_run(self, base: int, place: tuple[int, int, int, int], bundle: Bundle) -> None:
        """Appends a run at the end; ``place``: position, length, first and max timestamp. The caller then moves ``end``.

        A run that does not start where the last one ended marks a gap, and from then on no run is taken: the log ends there
        for readers, loudly.
        """
        if self.gap is None and base != self.end and base > self.floor:
            self.gap = (max(self.end, self.floor), base)
        bundle.live += 1
        if self.gap is not None:
            self.doubted.append(bundle)  # it stays live: nobody may collect it while its offsets are in doubt
            return
        position, length, first_ms, max_ms = place
        self.run_bases.append(base)
        self.positions.append(position)
        self.lengths.append(length)
        self.firsts.append(first_ms)
        self.maxima.append(max_ms)
        self.bundles.append(bundle)
        self.runs_bytes += length

    def trim_runs(self) -> list[Bundle]:
        """Forgets runs that ``floor`` covers; the bundles that lost their last run by it."""
        floor = self.floor
        count = 0
        while count < len(self.run_bases) and self.run_end(count) <= floor:
            count += 1
        return self._drop_runs(count)

    def drop_all_runs(self) -> list[Bundle]:
        """Forgets every run, those behind a gap too: the topic is gone."""
        doubted, self.doubted = self.doubted, []
        return self._drop_runs(len(self.run_bases)) + _release(doubted)

    def _drop_runs(self, count: int) -> list[Bundle]:
        spent = _release(self.bundles[:count])
        self.runs_bytes -= sum(self.lengths[:count])
        for column in (self.run_bases, self.positions, self.lengths, self.firsts, self.maxima, self.bundles):
            del column[:count]
        return spent

    def bytes_between(self, base: int, end: int) -> int:
        """Bytes of the runs that lie in ``[base, end)``."""
        first, last = bisect_left(self.run_bases, base), bisect_left(self.run_bases, end)
        return sum(self.lengths[first:last])

    def put_segment(self, segment: Segment) -> None:
        """Adds or replaces the segment with this base."""
        at = bisect_right(self.segment_bases, segment.base)
        if at and self.segment_bases[at - 1] == segment.base:
            self.segments[at - 1] = segment
            return
        self.segment_bases.insert(at, segment.base)
        self.segments.insert(at, segment)

    def trim_segments(self) -> None:
        """Forgets segments below the log start."""
        count = 0
        while count < len(self.segments) and self.segments[count].end <= self.start:
            count += 1
        del self.segments[:count]
        del self.segment_bases[:count]

    def hole(self) -> tuple[int, int] | None:
        """The first offsets in ``[start, end)`` that nothing covers, or None (R08)."""
        expected = self.start
        for ref in self.iterate(self.start):
            expected = ref.end
        return (expected, self.end) if expected < self.end else None

    def refs(self, offset: int, bytes_max: int) -> tuple[Ref, ...]:
        """Refs from the one that contains ``offset`` on, without a gap, until they hold ``bytes_max`` bytes; the first always.

        They end before a lost range; where ``offset`` itself is lost, they begin after it.
        """
        found: list[Ref] = []
        size = 0
        for ref in self.iterate(offset):
            if ref.lost:
                if found:
                    break
                continue
            found.append(ref)
            size += ref.length
            if size >= bytes_max:
                break
        return tuple(found)

    def past_lost(self, offset: int) -> int:
        """``offset``, or where the lost range that contains it ends. Lost ranges are below ``sealed_to`` only."""
        if offset < self.sealed_to:
            for ref in self.iterate(offset):
                if not ref.lost:
                    break
                offset = ref.end
        return offset

    def iterate(self, offset: int) -> Iterator[Ref]:
        """Refs from the one that contains ``offset`` up to the first gap, lost ranges too. The log must not change while this runs."""
        expected = offset
        if expected < self.sealed_to:
            for at in range(max(bisect_right(self.segment_bases, expected) - 1, 0), len(self.segments)):
                segment = self.segments[at]
                if segment.base > expected or segment.end <= expected:
                    return
                yield segment_ref(segment)
                expected = segment.end
        for at in range(max(bisect_right(self.run_bases, expected) - 1, 0), len(self.run_bases)):
            if self.run_bases[at] > expected or self.run_end(at) <= expected:
                return
            yield self.run_ref(at)
            expected = self.run_end(at)

    def run_ref(self, at: int) -> Ref:
        """Run ``at`` as a ref."""
        bundle = self.bundles[at]
        return Ref(
            base=self.run_bases[at],
            end=self.run_end(at),
            object_key=bundle.key,
            position=self.positions[at],
            length=self.lengths[at],
            first_timestamp_ms=self.firsts[at],
            max_timestamp_ms=self.maxima[at],
            sealed=False,
            object_bytes=bundle.bytes,
            written_ms=bundle.written_ms,
        )


def segment_ref(segment: Segment) -> Ref:
    """A segment as a ref."""
    return Ref(
        base=segment.base,
        end=segment.end,
        object_key=segment.object_key,
        position=SEGMENT_BODY_POSITION,
        length=segment.body_bytes,
        first_timestamp_ms=segment.first_timestamp_ms,
        max_timestamp_ms=segment.max_timestamp_ms,
        sealed=True,
        object_bytes=segment.object_bytes,
        written_ms=segment.created_ms,
    )


def _release(bundles: Sequence[Bundle]) -> list[Bundle]:
    """One run of each is not needed any more; those that lost their last one by it."""
    spent = []
    for bundle in bundles:
        bundle.live -= 1
        if not bundle.live:
            spent.append(bundle)
    return spent
