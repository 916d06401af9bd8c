"""A second request when the first is slower than usual: it cuts the slowest twentieth at the price of a few more requests (R25)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from frazil.kit.clock import Clock
from frazil.kit.tasks import spawn

T = TypeVar("T")

_WINDOW: Final = 256
_QUANTILE: Final = 0.95
_SAVED_MAX: Final = 4.0
_MARGIN: Final = 1.1  # a store that always takes the same time is never asked twice


class Hedge:
    """Knows how long such requests take (the last 256), and lets at most ``share`` of them be sent twice."""

    def __init__(self, *, share: float = 0.05, least_ms: float = 5.0, enough: int = 32) -> None:
        """``least_ms``: never hedge sooner; below it the second request costs more than it saves. ``enough``: requests to time first."""
        self._share = share
        self._least_ms = least_ms
        self._enough = enough
        self._took_ms: list[float] = []
        self._next = 0
        self._saved = 1.0 if share > 0 else 0.0
        self._wait_ms: float | None = None
        self.requests = 0
        self.hedged = 0
        """Second requests sent."""
        self.won = 0
        """Of those, answered first."""

    def note(self, took_ms: float) -> None:
        """One request was answered after ``took_ms``."""
        self.requests += 1
        self._saved = min(_SAVED_MAX, self._saved + self._share)
        if len(self._took_ms) < _WINDOW:
            self._took_ms.append(took_ms)
        else:
            self._took_ms[self._next] = took_ms
            self._next = (self._next + 1) % _WINDOW
        if len(self._took_ms) >= self._enough and (self._wait_ms is None or self.requests % 16 == 0):
            ordered = sorted(self._took_ms)
            self._wait_ms = max(self._least_ms, _MARGIN * ordered[int(len(ordered) * _QUANTILE)])

    def wait_ms(self) -> float | None:
        """How long the first request may take before a second is sent; None while that is not known, or not allowed."""
        return self._wait_ms if self._share > 0 else None

    def take(self) -> bool:
        """True when a second request may be sent now; it is then counted."""
        if self._saved < 1.0:
            return False
        self._saved -= 1.0
        self.hedged += 1
        return True


async def hedged(hedge: Hedge, clock: Clock, attempt: Callable[[int], Coroutine[Any, Any, T]]) -> T:
    """The result of ``attempt(0)`` or, when that is slow, of ``attempt(1)``: whichever succeeds first; the other is cancelled.

    An attempt that fails before the other leaves it running; when both fail, the first attempt's error is raised.
    """
    started_ms = clock.monotonic_ms()
    wait_ms = hedge.wait_ms()
    if wait_ms is None:
        result = await attempt(0)
        hedge.note(clock.monotonic_ms() - started_ms)
        return result
    tasks = [spawn("attempt-0", attempt(0))]
    try:
        await asyncio.wait(tasks, timeout=wait_ms / 1000)
        if not tasks[0].done() and hedge.take():
            tasks.append(spawn("attempt-1", attempt(1)))
        winner = await _first_success(tasks)
    finally:
        await _end(tasks)
    hedge.note(clock.monotonic_ms() - started_ms)
    if winner is not tasks[0]:
        hedge.won += 1
    return winner.result()


async def _first_success(tasks: list[asyncio.Task[T]]) -> asyncio.Task[T]:
    """The first task that succeeds, in the order of ``tasks`` when several have; the first task when all failed."""
    while True:
        for task in tasks:
            if task.done() and not task.cancelled() and task.exception() is None:
                return task
        waiting = [task for task in tasks if not task.done()]
        if not waiting:
            return tasks[0]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)


async def _end(tasks: list[asyncio.Task[T]]) -> None:
    """Cancels what still runs and takes note of every error, so that none is reported as never looked at."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            task.exception()
