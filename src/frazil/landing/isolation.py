"""Transactions of one table's partitions: which of them it waits for, where their markers are looked for, and how to say so (F20, R34).

Only what ``records.transactions.Held`` has is remembered, and only in memory: who forgets it looks for the markers again.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from frazil.kit.names import PartitionKey
from frazil.landing.decode import BadPartition
from frazil.landing.plan import PartitionState
from frazil.metadata.landings import LandingSpec
from frazil.records.transactions import Held, OpenTransaction

STAGE: Final = "open-transaction"
READ_COMMITTED: Final = "read_committed"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Since:
    transaction: OpenTransaction
    monotonic_ms: float


class Isolation:
    """What one table knows of transactions. ``patience_ms``: an open one is nothing special before."""

    def __init__(self, spec: LandingSpec, *, patience_ms: int) -> None:
        self.committed_only = spec.options.get("isolation", READ_COMMITTED) == READ_COMMITTED
        self._patience_ms = patience_ms
        self._held: dict[PartitionKey, Held] = {}
        self._since: dict[PartitionKey, _Since] = {}

    @property
    def held(self) -> Mapping[PartitionKey, Held]:
        """For decoding the next slice."""
        return dict(self._held)

    def ahead(self, states: Sequence[PartitionState]) -> Mapping[PartitionKey, int]:
        """Where to look for markers, of every partition that waits for one. What is held of others is forgotten when it is no use."""
        at = {state.key: state.start for state in states}
        for key, held in list(self._held.items()):
            start, first = at.get(key), held.first.first_offset
            if start is None or not (first <= start < held.looked_to if held.decided else start == first):
                del self._held[key]
                self._since.pop(key, None)
        return {key: held.looked_to for key, held in self._held.items() if not held.decided}

    def learn(self, held: Mapping[PartitionKey, Held], now_ms: float) -> bool:
        """Takes in what decoding found. True when a transaction that was waited for is decided now."""
        for key, found in held.items():
            since = self._since.get(key)
            if since is None or since.transaction != found.first:
                self._since[key] = _Since(transaction=found.first, monotonic_ms=now_ms)
        self._held.update(held)
        return any(found.decided for found in held.values())

    def waits(self, key: PartitionKey, end: int) -> bool:
        """The partition cannot go on with what the log holds up to ``end``."""
        held = self._held.get(key)
        return held is not None and not held.decided and held.looked_to >= end

    def troubles(self, states: Sequence[PartitionState], now_ms: float) -> tuple[BadPartition, ...]:
        """Partitions that have waited for too long, with who can end it."""
        found = []
        for state in states:
            held, since = self._held.get(state.key), self._since.get(state.key)
            if held is None or held.decided or since is None or state.start != held.first.first_offset:
                continue
            waited_ms = now_ms - since.monotonic_ms
            if waited_ms >= self._patience_ms:
                why = _story(state, held.first, int(waited_ms // 1000))
                found.append(BadPartition(key=state.key, topic=state.topic, stage=STAGE, why=why, may_pass=True))
        return tuple(found)


def _story(state: PartitionState, first: OpenTransaction, seconds: int) -> str:
    return (
        f"open-transaction: producer id {first.producer_id}, epoch {first.producer_epoch}, has not ended its transaction with offset "
        f"{first.first_offset} of {state.topic}[{state.key.partition}], sent {_time(first.timestamp_ms)}; "
        f"{state.bounds.end - first.first_offset} offsets wait for {seconds} s. "
        f"End it: kafka-transactions.sh abort --topic {state.topic} --partition {state.key.partition} --start-offset "
        f"{first.first_offset}; or land undecided records too, with the option isolation=read_uncommitted"
    )


def _time(timestamp_ms: int) -> str:
    try:
        return datetime.datetime.fromtimestamp(timestamp_ms / 1000, tz=datetime.UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return f"at time {timestamp_ms}"
