"""What a reader of the log needs to know of it, whoever knows: the index of a Frazil cluster, or a listing of a bucket (R27)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from frazil.kit.names import PartitionKey
from frazil.log.refs import Bounds, OffsetAt, Ref, Slice, Want


class LogView(Protocol):
    """Where records are. Everything but ``refresh`` answers from memory."""

    async def refresh(self) -> None:
        """Brings the view up to date. Raises RetryLater, Corrupt."""
        ...

    def bounds(self, key: PartitionKey) -> Bounds:
        """Start and end as known here; a partition nothing is known of is empty."""
        ...

    def end(self, key: PartitionKey) -> int:
        """The next offset as known here."""
        ...

    def refs(self, key: PartitionKey, offset: int, *, bytes_max: int) -> tuple[Ref, ...]:
        """Refs without a gap or overlap from the one with ``offset`` on, about ``bytes_max`` bytes; none where nothing is known."""
        ...

    def past_lost(self, key: PartitionKey, offset: int) -> int:
        """``offset``, or the first offset after the lost range it is in (R22)."""
        ...

    def runs(self, key: PartitionKey) -> Iterable[Ref]:
        """Every ref of the partition, in order, without lost ranges."""
        ...

    def trouble(self, key: PartitionKey) -> str | None:
        """Why the partition is not served to its end: offsets and reason; None when it is."""
        ...


class LogSource(Protocol):
    """The records themselves."""

    async def fetch(self, key: PartitionKey, offset: int, *, bytes_max: int) -> Slice:
        """Batches from the one that contains ``offset`` on; empty at the end. Raises OffsetOutOfRange, Corrupt, RetryLater."""
        ...

    async def read_many(self, wants: Sequence[Want]) -> tuple[Slice, ...]:
        """One slice per want, in order. Raises as ``fetch`` does, for the first want that cannot be served."""
        ...

    async def find_time(self, key: PartitionKey, timestamp_ms: int) -> OffsetAt | None:
        """The first record with a timestamp ≥ ``timestamp_ms``; None when there is none."""
        ...
