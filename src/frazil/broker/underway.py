"""Requests that were taken and are not answered, and have no task that could be waited for."""

from __future__ import annotations

import asyncio

from frazil.broker.connection import Exchange


class Underway:
    """Counts them, so that a clean stop can wait."""

    def __init__(self) -> None:
        self._open: dict[Exchange, None] = {}
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def busy(self) -> bool:
        """Some have no answer yet."""
        return bool(self._open)

    def begin(self, exchange: Exchange) -> None:
        """One more."""
        self._open[exchange] = None
        self._idle.clear()

    def end(self, exchange: Exchange) -> None:
        """It is answered, or somebody else takes care of it; one that is not here is no matter."""
        self._open.pop(exchange, None)
        if not self._open:
            self._idle.set()

    async def idle(self) -> None:
        """Returns when every one is answered."""
        await self._idle.wait()
