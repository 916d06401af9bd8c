"""The metadata port: a small ordered key-value store with compare-and-swap transactions (DESIGN D6, R20).

Every write transaction gets one revision; revisions grow in commit order and a reader at revision r sees every
transaction up to r. ``version`` of an entry is the revision that last wrote it; 0 stands for "does not exist".
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final, NewType, Protocol

Revision = NewType("Revision", int)
START: Final = Revision(0)
"""Before the first transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One key as read. A missing key reads as ``value=b""`` with ``version=0``."""

    key: str
    value: bytes
    version: Revision


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Holds when ``key`` was last written at ``version``; version 0: the key does not exist."""

    key: str
    version: Revision


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Sets ``key``, or deletes it when ``value`` is None. With ``lease`` the key vanishes when the lease ends."""

    key: str
    value: bytes | None
    lease: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeDelete:
    """Deletes every key in ``[start, end)``."""

    start: str
    end: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The entries of one range as of one revision."""

    entries: tuple[Entry, ...]
    revision: Revision


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """The transaction was applied as ``revision``."""

    revision: Revision


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """Nothing was applied; ``entries`` are the current state of every checked key that did not match (R11)."""

    entries: tuple[Entry, ...]


class MetadataStore(Protocol):
    """Ordered keys, atomic transactions, change hints, leases."""

    async def range(self, start: str, end: str, *, after: Revision = START) -> Range:
        """Entries of ``[start, end)`` with ``version > after``, in key order, read linearizably at one revision.

        ``range(key, key + "\\0")`` reads one key. Deleted keys are not reported. Raises RetryLater.
        """
        ...

    async def commit(
        self, checks: Sequence[Check], writes: Sequence[Write], range_deletes: Sequence[RangeDelete] = ()
    ) -> Committed | Moved:
        """Applies all writes and deletes if every check holds. At most 100 operations and 512 KiB (R10).

        Without writes and deletes it only checks and makes no revision. Raises RetryLater when surely not applied,
        OutcomeUnknown when the answer was lost (R02: then read what it would have created), Conflict when a write names a lease
        that has ended, Refused above 512 KiB, Bug for a malformed transaction (``metadata.limits``).
        """
        ...

    def watch(self, prefix: str) -> AsyncIterator[None]:
        """Yields whenever something under ``prefix`` may have changed: hints only, coalesced, at least every second (R20).

        The first hint comes at once, so ``async for _ in watch(p): read(p)`` misses nothing. A cancelled ``anext`` does not
        end the iterator, so one may wait with a timeout.
        """
        ...

    async def grant_lease(self, ttl_ms: int) -> int:
        """A new lease that ends ``ttl_ms`` after its last renewal."""
        ...

    async def renew_lease(self, lease: int) -> bool:
        """Renews; False when the lease has ended."""
        ...

    async def close(self) -> None:
        """Releases files, threads and connections of this handle. Running watchers end or go on with periodic hints only."""
        ...
