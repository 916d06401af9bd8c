"""Which bytes of which partitions make up the next slice of one table. Pure: values in, values out.

A slice is bounded by bytes, so a backlog of any size costs the same memory. Half of the budget is shared evenly, which
keeps quiet partitions fresh beside a huge one; the other half goes by lag, which keeps files large. When there are more
lagging partitions than the budget has room for, the next slice begins where this one ended (F30: none is nobody's).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from frazil.kit.errors import Refused
from frazil.kit.names import PartitionKey
from frazil.log.refs import Bounds, Want

SUMMARY_CHARACTERS_MAX: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """One source partition as a table sees it.

    ``next_offset`` is the table's progress, None when it has none yet; ``pinned`` is where it began to wait for the partition.
    """

    key: PartitionKey
    topic: str
    next_offset: int | None
    bounds: Bounds
    pinned: int | None = None
    lost_to: int = 0
    """Where the lost range ends that reading would begin in (R22); 0 when it would not."""

    @property
    def start(self) -> int:
        """Where reading goes on: a partition without progress starts at the log start (F03, F09), never at its end."""
        if self.next_offset is None:
            return max(self.bounds.start, self.lost_to)
        return max(self.next_offset, self.bounds.start, self.lost_to)

    @property
    def needed(self) -> int:
        """The lowest offset the table should get, in the log or not: it has promised itself nothing below."""
        if self.next_offset is not None:
            return self.next_offset
        return self.bounds.start if self.pinned is None else min(self.pinned, self.bounds.start)

    @property
    def lag(self) -> int:
        """Offsets between progress and log end."""
        return max(0, self.bounds.end - self.start)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Offsets ``[first, end)`` went before the table had them: by retention (F10) or a restore (R22). Recorded, never silent."""

    key: PartitionKey
    topic: str
    first: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlicePlan:
    """What to read next. ``wants`` are in reading order; ``lag_records`` counts all partitions of the table."""

    wants: tuple[Want, ...]
    losses: tuple[Loss, ...]
    lag_records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How much one slice may read. ``want_bytes_min`` is the least worth asking of one partition."""

    bytes_max: int
    want_bytes_min: int = 64 * 1024

    @property
    def least(self) -> int:
        """The smallest want of this budget."""
        return max(1, min(self.want_bytes_min, self.bytes_max))


def find_losses(states: Sequence[PartitionState]) -> tuple[Loss, ...]:
    """Ranges between what the table needs and the next offset that exists: the log start has moved past it, or it is lost."""
    return tuple(
        Loss(key=state.key, topic=state.topic, first=state.needed, end=state.start) for state in states if state.needed < state.start
    )


def check_ends(states: Sequence[PartitionState]) -> None:
    """Refuses progress beyond the log end: then offsets were given out twice (R22) and skipping would lose records."""
    for state in states:
        if state.next_offset is not None and state.next_offset > state.bounds.end:
            raise Refused(
                f"table progress {state.next_offset} of {state.topic}[{state.key.partition}] is beyond the log end {state.bounds.end}: "
                "metadata is an older copy; stop brokers and landing and run `frazil restore`. The log of another Kafka cluster "
                "that lost records: `frazil land reset`"
            )


def plan_slice(
    states: Sequence[PartitionState],
    budget: Budget,
    *,
    after: PartitionKey | None = None,
    ahead: Mapping[PartitionKey, int] | None = None,
) -> SlicePlan:
    """The next slice over ``states``; ``after`` is the last partition the slice before this one read to its share.

    ``ahead``: partitions that are read from another offset than where the table is, to look for the end of a transaction.
    """
    offsets = ahead or {}
    lag_records = sum(state.lag for state in states)
    losses = find_losses(states)
    lagging = sorted((state for state in states if offsets.get(state.key, state.start) < state.bounds.end), key=lambda state: state.key)
    if not lagging:
        return SlicePlan(wants=(), losses=losses, lag_records=lag_records)
    lagging = _rotate(lagging, after)[: max(1, budget.bytes_max // budget.least)]
    total = sum(state.lag for state in lagging)
    even = budget.bytes_max // (2 * len(lagging))
    half = budget.bytes_max // 2
    wants = tuple(
        Want(
            key=state.key,
            offset=offsets.get(state.key, state.start),
            bytes_max=max(budget.least, even + half * state.lag // total),
        )
        for state in lagging
    )
    return SlicePlan(wants=wants, losses=losses, lag_records=lag_records)


def _rotate(states: list[PartitionState], after: PartitionKey | None) -> list[PartitionState]:
    if after is None:
        return states
    later = [state for state in states if state.key > after]
    return later + [state for state in states if state.key <= after]


def describe_losses(losses: Sequence[Loss]) -> str:
    """``topic[partition] first-last, …`` for snapshot summaries and status, cut to a bounded length."""
    parts = [f"{loss.topic}[{loss.key.partition}] {loss.first}-{loss.end - 1}" for loss in losses]
    text = ", ".join(parts)
    if len(text) <= SUMMARY_CHARACTERS_MAX:
        return text
    total = sum(loss.end - loss.first for loss in losses)
    return f"{total} records of {len(losses)} partitions: " + text[: SUMMARY_CHARACTERS_MAX - 60] + "…"
