"""Who waits for changes under which prefix: the in-process half of ``watch`` (R20: hints only)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Final

from frazil.metadata.port import RangeDelete, Write

IDLE_SECONDS: Final = 1.0
"""A watcher gets a hint at least this often, so a lost one costs at most this long."""


class HintBoard:
    """Watchers of one store handle (or of one shared in-memory state) on one event loop."""

    def __init__(self) -> None:
        self._watchers: dict[asyncio.Event, str] = {}

    @property
    def waiting(self) -> bool:
        """True while somebody watches and has no unread hint."""
        return any(not event.is_set() for event in self._watchers)

    def changed(self, writes: Iterable[Write], range_deletes: Iterable[RangeDelete]) -> None:
        """Wakes whoever watches a changed key."""
        if not self._watchers:
            return
        keys = [write.key for write in writes]
        ranges = list(range_deletes)
        for event, prefix in self._watchers.items():
            if any(key.startswith(prefix) for key in keys) or any(_touches(gone, prefix) for gone in ranges):
                event.set()

    def changed_somewhere(self) -> None:
        """Wakes every watcher: something changed and nobody knows what."""
        for event in self._watchers:
            event.set()

    async def follow(self, prefix: str) -> AsyncIterator[None]:
        """The hints of one watcher; the first comes at once, so a change before it is not missed."""
        event = asyncio.Event()
        event.set()
        self._watchers[event] = prefix
        try:
            while True:
                try:
                    await asyncio.wait_for(event.wait(), IDLE_SECONDS)
                except TimeoutError:
                    event.set()
                event.clear()
                yield None
        finally:
            del self._watchers[event]


def _touches(gone: RangeDelete, prefix: str) -> bool:
    return gone.start.startswith(prefix) or gone.start <= prefix < gone.end
