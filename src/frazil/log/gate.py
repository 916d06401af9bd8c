"""A bound on bytes that were accepted and not yet answered; who comes later waits, first come, first served."""

from __future__ import annotations

import asyncio
from collections import deque


class Gate:
    """Lets bytes in up to ``bytes_max``; something larger passes alone, when nothing else is inside.

    Nobody overtakes: who comes while somebody waits, or was let in and has not run yet, waits behind them (R03).
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()
        self._entering = 0
        self.held_bytes = 0

    async def enter(self, size: int) -> None:
        """Returns when ``size`` bytes are inside; each entry needs one ``leave``."""
        if self.is_open(size):
            self.held_bytes += size
            return
        door: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((door, size))
        try:
            await door
        except asyncio.CancelledError:
            if door.done() and not door.cancelled():
                self._entering -= 1
                self.leave(size)
            else:
                door.cancel()
                self._admit()
            raise
        self._entering -= 1
        self._admit()

    def is_open(self, size: int) -> bool:
        """True when ``size`` bytes could enter without waiting."""
        return not self._waiting and not self._entering and self._fits(size)

    def pass_through(self, size: int) -> None:
        """Enters at once; right after ``is_open`` said so."""
        self.held_bytes += size

    def leave(self, size: int) -> None:
        """Gives ``size`` bytes back and lets in who fits now."""
        self.held_bytes -= size
        self._admit()

    def _admit(self) -> None:
        while self._waiting:
            door, wanted = self._waiting[0]
            if not door.done():
                if not self._fits(wanted):
                    return
                self.held_bytes += wanted
                self._entering += 1
                door.set_result(None)
            self._waiting.popleft()

    def _fits(self, size: int) -> bool:
        return not self.held_bytes or self.held_bytes + size <= self._bytes_max
