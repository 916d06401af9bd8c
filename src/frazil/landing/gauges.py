"""Numbers about what waits: from memory, for the status and for the decision to commit early."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from frazil.kit.names import PartitionKey
from frazil.landing.decode import BadPartition
from frazil.landing.plan import PartitionState
from frazil.log.view import LogView
from frazil.metadata.landings import LandingStatus

_LOOKED_AT_MAX = 64


class Reach(Protocol):
    """How far a landing is: its ledger, as a rule."""

    def next_offset(self, key: PartitionKey) -> int | None:
        """Where reading goes on in a partition; None: at its start."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What is in the log and not in the table."""

    records: int
    oldest_ms: int | None
    """Timestamp of the first record that is not landed, over the partitions looked at; None when nothing waits."""
    partition: int
    """The partition with most records waiting, −1 for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableGauge:
    """One table as its own process knows it."""

    status: LandingStatus
    overdue: bool = False
    """Records have waited, or steps have failed, for two intervals: who asks about health is told."""
    commit_took_ms: int = 0
    """The last commit, from its request to the answer that settled it."""


def waiting(states: Iterable[PartitionState], ledger: Reach, index: LogView, ends: Mapping[PartitionKey, int]) -> Waiting:
    """How far behind a table is now, by the index as it is in memory. ``ends``: partitions of which no more is wanted."""
    records, oldest_ms, worst, worst_records, looked = 0, None, -1, 0, 0
    for key, start, end in _starts(states, ledger, index, ends):
        behind = end - start
        if behind <= 0:
            continue
        records += behind
        if behind > worst_records:
            worst, worst_records = int(key.partition), behind
        if looked < _LOOKED_AT_MAX:
            looked += 1
            for ref in index.refs(key, start, bytes_max=1)[:1]:
                oldest_ms = ref.first_timestamp_ms if oldest_ms is None else min(oldest_ms, ref.first_timestamp_ms)
    return Waiting(records=records, oldest_ms=oldest_ms, partition=worst)


def waiting_bytes(
    states: Iterable[PartitionState], ledger: Reach, index: LogView, ends: Mapping[PartitionKey, int], *, enough: int
) -> int:
    """Bytes in the log that are not in the table, counted until they are ``enough``."""
    total = 0
    for key, start, end in _starts(states, ledger, index, ends):
        if end > start:
            total += sum(ref.length for ref in index.refs(key, start, bytes_max=enough) if ref.base < end)
            if total >= enough:
                break
    return total


def holes(states: Iterable[PartitionState], index: LogView) -> tuple[BadPartition, ...]:
    """Partitions whose log has a hole: they look landed to the end, and are not."""
    found = []
    for state in states:
        why = index.trouble(state.key)
        if why is not None:
            found.append(BadPartition(key=state.key, topic=state.topic, stage="read", why=why))
    return tuple(found)


def _starts(
    states: Iterable[PartitionState], ledger: Reach, index: LogView, ends: Mapping[PartitionKey, int]
) -> Iterable[tuple[PartitionKey, int, int]]:
    for state in states:
        at = ledger.next_offset(state.key)
        start = max(state.bounds.start if at is None else at, index.bounds(state.key).start)
        yield state.key, start, min(index.end(state.key), ends.get(state.key, index.end(state.key)))
