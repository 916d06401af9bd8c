"""A bound on bytes in memory that many tasks share: each waits in line for its part (BOUND)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class ByteShares:
    """Up to ``bytes_max`` bytes at once, first come, first served: a large share is not starved by small ones."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.held_bytes = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def share(self, size: int) -> AsyncIterator[None]:
        """Holds ``size`` bytes (at most the whole bound) for the time of the block; waits in line for them."""
        size = min(max(size, 1), self.bytes_max)
        await self._take(size)
        try:
            yield
        finally:
            self._give_back(size)

    async def _take(self, size: int) -> None:
        if not self._waiting and self.held_bytes + size <= self.bytes_max:
            self.held_bytes += size
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # the share came together with the cancellation
                self._give_back(size)
            else:
                self._waiting.remove((size, turn))
                self._serve()
            raise

    def _give_back(self, size: int) -> None:
        self.held_bytes -= size
        self._serve()

    def _serve(self) -> None:
        while self._waiting and self.held_bytes + self._waiting[0][0] <= self.bytes_max:
            size, turn = self._waiting.popleft()
            if not turn.done():
                self.held_bytes += size
                turn.set_result(None)
