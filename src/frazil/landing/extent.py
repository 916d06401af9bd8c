"""The options ``from`` and ``to``: the part of each partition that a landing takes. A backfill has an end; then it is done.

``from`` says where a partition without progress begins; once the table has progress, that counts. ``to`` ends before an offset, or before
the first record that is as young as a time. Until there is such a record, nothing is taken for the one, and everything for the other.
"""

from __future__ import annotations

import datetime
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from frazil.kit.errors import Refused
from frazil.kit.names import PartitionKey
from frazil.landing.plan import PartitionState
from frazil.log.refs import Bounds, OffsetAt

EARLIEST: Final = "earliest"
FROM, TO = "from", "to"
_OFFSET_MAX: Final = 2**63 - 1
_OFFSET_DIGITS_MAX: Final = 100
"""Python takes no number of some thousand digits."""
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

FindTime = Callable[[PartitionKey, int], Awaitable[OffsetAt | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """An offset, or the first record at a time (Unix milliseconds) or later."""

    offset: int | None = None
    time_ms: int | None = None


def parse_mark(text: str, *, about: str) -> Mark:
    """``earliest``, an offset, or a time. Raises Refused naming ``about``."""
    if text == EARLIEST:
        return Mark(offset=0)
    if text.isascii() and text.isdecimal():
        if len(text) > _OFFSET_DIGITS_MAX or int(text) > _OFFSET_MAX:
            raise Refused(f"{about}: {text[:40]} is no offset")
        return Mark(offset=int(text))
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise Refused(f"{about}: {text[:60]!r}: want {EARLIEST}, an offset, or a time like 2026-01-31T12:00:00Z") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return Mark(time_ms=round((moment - _EPOCH) / datetime.timedelta(milliseconds=1)))


@dataclass(slots=True)
class Extent:
    """``begin`` and ``end`` of one landing; offsets of times are looked up once and kept."""

    begin: Mark | None = None
    end: Mark | None = None
    _begins: dict[PartitionKey, int] = field(default_factory=dict)
    _ends: dict[PartitionKey, int] = field(default_factory=dict)

    async def resolve(self, states: Sequence[PartitionState], find_time: FindTime) -> None:
        """Looks up the offsets of times for partitions that need them and do not have them yet. Raises what ``find_time`` does."""
        if self.begin is None and self.end is None:
            return
        for state in states:
            if self.begin is not None and state.next_offset is None and state.key not in self._begins:
                found = await _look_up(self.begin, state.key, find_time)
                if found is not None:
                    self._begins[state.key] = found
            if self.end is not None and state.key not in self._ends:
                found = await _look_up(self.end, state.key, find_time)
                if found is not None:
                    self._ends[state.key] = found

    def limits(self, states: Sequence[PartitionState]) -> Mapping[PartitionKey, int]:
        """Where each partition ends that has a known end."""
        return {state.key: self._ends[state.key] for state in states if state.key in self._ends}

    def narrowed(self, states: Sequence[PartitionState]) -> list[PartitionState]:
        """The states as if the log had nothing outside of the extent."""
        if self.begin is None and self.end is None:
            return list(states)
        return [self._narrow(state) for state in states]

    def is_done(self, states: Sequence[PartitionState]) -> bool:
        """Every partition has landed all that it is to land. ``states`` are narrowed ones."""
        if self.end is None or not states:
            return False
        return all((end := self._ends.get(state.key)) is not None and state.start >= end for state in states)

    def _narrow(self, state: PartitionState) -> PartitionState:
        begin = self._begins.get(state.key, state.bounds.end) if state.next_offset is None and self.begin is not None else None
        end = min(state.bounds.end, self._ends.get(state.key, state.bounds.end))
        if state.next_offset is not None and state.next_offset <= state.bounds.end:
            end = max(end, state.next_offset)  # an end that was set later takes nothing back
        start = state.bounds.start if begin is None else max(state.bounds.start, begin)
        pinned = state.pinned if begin is None or state.pinned is None else max(state.pinned, begin)
        return replace(state, bounds=Bounds(start=start, end=max(end, min(start, state.bounds.end))), pinned=pinned)


def extent_of(options: Mapping[str, str]) -> Extent:
    """The options as a value. Raises Refused."""
    begin, end = (parse_mark(options[name], about=f"option {name}") if name in options else None for name in (FROM, TO))
    if end is not None and options[TO] == EARLIEST:
        raise Refused(f"option {TO}={EARLIEST}: then nothing is landed")
    if begin is not None and end is not None and _empty(begin, end):
        raise Refused(f"options {FROM}={options[FROM]} and {TO}={options[TO]}: then nothing is landed")
    return Extent(begin, end)


def _empty(begin: Mark, end: Mark) -> bool:
    if begin.offset is not None and end.offset is not None:
        return end.offset <= begin.offset
    return begin.time_ms is not None and end.time_ms is not None and end.time_ms <= begin.time_ms


async def _look_up(mark: Mark, key: PartitionKey, find_time: FindTime) -> int | None:
    if mark.time_ms is None:
        return mark.offset
    found = await find_time(key, mark.time_ms)
    return None if found is None else found.offset
