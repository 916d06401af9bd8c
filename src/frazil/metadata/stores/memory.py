"""Metadata in memory: for tests, simulation and one-process trials. Nothing survives the process.

``MemoryState`` is the "server": several ``MemoryMetadata`` handles over one state are several processes of one cluster.
All handles of one state live on one event loop.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from frazil.kit.clock import Clock
from frazil.kit.errors import Conflict, Refused
from frazil.metadata.hints import HintBoard
from frazil.metadata.limits import check_transaction
from frazil.metadata.port import START, Check, Committed, Entry, MetadataStore, Moved, Range, RangeDelete, Revision, Write

_JOURNAL_SLACK = 1000


@dataclass(frozen=True, slots=True)
class _Row:
    value: bytes
    version: int
    lease: int | None


@dataclass(slots=True)
class _Lease:
    ttl_ms: int
    ends_ms: int


class MemoryState:
    """What all handles share: rows in key order, a journal in version order, leases, watchers."""

    def __init__(self) -> None:
        self.hints = HintBoard()
        self.revision = 0
        self._rows: dict[str, _Row] = {}
        self._keys: list[str] = []
        self._journal: list[tuple[int, str]] = []
        self._leases: dict[int, _Lease] = {}
        self._last_lease = 0

    def read(self, start: str, end: str, after: int) -> Range:
        """Entries of ``[start, end)`` newer than ``after``."""
        if after > 0:
            tail = self._journal[bisect_right(self._journal, (after, "\U0010ffff")) :]
            keys = sorted(key for version, key in tail if start <= key < end and self._is_version(key, version))
        else:
            keys = self._keys[bisect_left(self._keys, start) : bisect_left(self._keys, end)]
        return Range(entries=tuple(self.entry(key) for key in keys), revision=Revision(self.revision))

    def entry(self, key: str) -> Entry:
        """The key as it is now."""
        row = self._rows.get(key)
        if row is None:
            return Entry(key=key, value=b"", version=Revision(0))
        return Entry(key=key, value=row.value, version=Revision(row.version))

    def apply(self, writes: Sequence[Write], range_deletes: Sequence[RangeDelete]) -> None:
        """One transaction: a new revision, the changes, the hints."""
        for write in writes:
            if write.lease is not None and write.lease not in self._leases:
                raise Conflict(f"lease {write.lease} of {write.key!r} has ended")
        self.revision += 1
        for gone in range_deletes:
            for key in self._keys[bisect_left(self._keys, gone.start) : bisect_left(self._keys, gone.end)]:
                self._drop(key)
        for write in writes:
            if write.value is None:
                self._drop(write.key)
            else:
                self._set(write.key, _Row(bytes(write.value), self.revision, write.lease))
        if len(self._journal) > 2 * len(self._rows) + _JOURNAL_SLACK:
            self._journal = [(version, key) for version, key in self._journal if self._is_version(key, version)]
        self.hints.changed(writes, range_deletes)

    def end_leases(self, now_ms: int) -> None:
        """Drops ended leases and, as one transaction, the keys under them."""
        ended = {lease for lease, state in self._leases.items() if state.ends_ms <= now_ms}
        if not ended:
            return
        for lease in ended:
            del self._leases[lease]
        keys = [key for key in self._keys if self._rows[key].lease in ended]
        if keys:
            self.apply([Write(key=key, value=None) for key in keys], ())

    def grant(self, ttl_ms: int, now_ms: int) -> int:
        """A new lease."""
        self._last_lease += 1
        self._leases[self._last_lease] = _Lease(ttl_ms, now_ms + ttl_ms)
        return self._last_lease

    def renew(self, lease: int, now_ms: int) -> bool:
        """Moves the end of a lease that still runs."""
        state = self._leases.get(lease)
        if state is None:
            return False
        state.ends_ms = now_ms + state.ttl_ms
        return True

    def _is_version(self, key: str, version: int) -> bool:
        row = self._rows.get(key)
        return row is not None and row.version == version

    def _set(self, key: str, row: _Row) -> None:
        if key not in self._rows:
            insort(self._keys, key)
        self._rows[key] = row
        self._journal.append((row.version, key))

    def _drop(self, key: str) -> None:
        if self._rows.pop(key, None) is not None:
            del self._keys[bisect_left(self._keys, key)]


class MemoryMetadata(MetadataStore):
    """One handle on a shared ``MemoryState``."""

    def __init__(self, state: MemoryState, clock: Clock) -> None:
        self._state = state
        self._clock = clock

    async def range(self, start: str, end: str, *, after: Revision = START) -> Range:
        """See ``MetadataStore.range``."""
        await self._turn()
        return self._state.read(start, end, after)

    async def commit(
        self, checks: Sequence[Check], writes: Sequence[Write], range_deletes: Sequence[RangeDelete] = ()
    ) -> Committed | Moved:
        """See ``MetadataStore.commit``."""
        check_transaction(checks, writes, range_deletes)
        await self._turn()
        state = self._state
        moved = [found for check in checks if (found := state.entry(check.key)).version != check.version]
        if moved:
            return Moved(entries=tuple(moved))
        if writes or range_deletes:
            state.apply(writes, range_deletes)
        return Committed(revision=Revision(state.revision))

    def watch(self, prefix: str) -> AsyncIterator[None]:
        """See ``MetadataStore.watch``."""
        return self._state.hints.follow(prefix)

    async def grant_lease(self, ttl_ms: int) -> int:
        """See ``MetadataStore.grant_lease``."""
        await self._turn()
        return self._state.grant(ttl_ms, self._clock.now_ms())

    async def renew_lease(self, lease: int) -> bool:
        """See ``MetadataStore.renew_lease``."""
        await self._turn()
        return self._state.renew(lease, self._clock.now_ms())

    async def close(self) -> None:
        """Nothing to release; the state lives on for other handles."""

    async def _turn(self) -> None:
        await asyncio.sleep(0)  # every call is a point where others may run, as with a real store
        self._state.end_leases(self._clock.now_ms())


def open_store(url: str, clock: Clock) -> MetadataStore:
    """A new, empty store for ``memory:``. Share ``MemoryState`` to open the same one twice."""
    if url.rstrip("/") != "memory:":
        raise Refused(f"metadata url {url!r}: the memory store takes no path; write memory:")
    return MemoryMetadata(MemoryState(), clock)
