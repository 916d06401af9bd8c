"""Who waits for changes under which prefix: the in-process half of ``watch`` (R20: hints only)."""

from __future__ import annotations

import asyncio
import itertools
import weakref
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Final

from frazil.metadata.port import RangeDelete, Write

IDLE_SECONDS: Final = 1.0
"""A watcher gets a hint at least this often, so a lost one costs at most this long."""


class Hints(AsyncIterator[None]):
    """The hints of one watcher. The first comes at once, so a change before it is not missed.

    Unlike a generator it survives a cancelled ``anext``, so it may be used with a timeout. It ends with ``aclose`` only;
    one that is dropped without it is forgotten.
    """

    def __init__(self, prefix: str, waits: Callable[[int], None]) -> None:
        self.prefix = prefix
        self._waits = waits
        self._event = asyncio.Event()
        self._event.set()
        self._closed = False

    def give(self) -> None:
        """One hint; several before the next wait are one."""
        self._event.set()

    async def __anext__(self) -> None:
        if self._closed:
            raise StopAsyncIteration
        await asyncio.sleep(0)  # hints without end must not keep the loop from others
        self._waits(+1)
        try:
            async with asyncio.timeout(IDLE_SECONDS):  # not wait_for, which in Python 3.11 can swallow a cancellation
                await self._event.wait()
        except TimeoutError:
            return  # a hint without a change
        finally:
            self._waits(-1)
        self._event.clear()

    async def aclose(self) -> None:
        """Ends the watch."""
        self._closed = True


class HintBoard:
    """Watchers of one store handle (or of one shared in-memory state) on one event loop."""

    def __init__(self, *, on_wait: Callable[[], None] | None = None) -> None:
        """``on_wait`` is called whenever a watcher begins to wait."""
        self._on_wait = on_wait
        self._numbers = itertools.count()
        self._watchers: dict[int, weakref.ref[Hints]] = {}  # in order of arrival: the order of wake-ups must not depend on hashes
        self._waiting = 0

    @property
    def waiting(self) -> bool:
        """True while somebody waits for a hint."""
        return self._waiting > 0

    def changed(self, writes: Iterable[Write], range_deletes: Iterable[RangeDelete]) -> None:
        """Wakes whoever watches a changed key."""
        if not self._watchers:
            return
        keys = [write.key for write in writes]
        ranges = list(range_deletes)
        for watcher in self._living():
            prefix = watcher.prefix
            if any(key.startswith(prefix) for key in keys) or any(_touches(gone, prefix) for gone in ranges):
                watcher.give()

    def changed_somewhere(self) -> None:
        """Wakes every watcher: something changed and nobody knows what."""
        for watcher in self._living():
            watcher.give()

    def follow(self, prefix: str) -> Hints:
        """A new watcher."""
        number = next(self._numbers)
        hints = Hints(prefix, self._count)
        self._watchers[number] = weakref.ref(hints, lambda _: self._watchers.pop(number, None))
        return hints

    def _living(self) -> list[Hints]:
        return [watcher for reference in list(self._watchers.values()) if (watcher := reference()) is not None]

    def _count(self, step: int) -> None:
        self._waiting += step
        if step > 0 and self._on_wait is not None:
            self._on_wait()


def _touches(gone: RangeDelete, prefix: str) -> bool:
    return gone.start.startswith(prefix) or gone.start <= prefix < gone.end
