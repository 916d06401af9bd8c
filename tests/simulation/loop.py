"""An asyncio event loop with virtual time: when nothing is ready, the clock jumps to the next timer.

No sockets, no threads, no signals; the order of callbacks is a function of the program alone, so a seed replays exactly.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Owner(Protocol):
    """Whose callbacks these are: a simulated process that may be stopped (SIGSTOP) or dead (SIGKILL)."""

    stopped: bool

    def park(self, handle: asyncio.Handle) -> None:
        """Takes a callback that must not run now: kept for later, or never run."""
        ...


OWNER: contextvars.ContextVar[Owner | None] = contextvars.ContextVar("owner", default=None)
"""Set in the context of a process; tasks, timers and callbacks inherit it, so whatever a process set in motion is known as its own."""


class Deadlock(Exception):
    """Nothing is ready, no timer is set, and the main task is not done."""


class VirtualLoop(asyncio.BaseEventLoop):
    """Time moves only when every ready callback has run."""

    def __init__(self) -> None:
        super().__init__()
        self._virtual_now = 0.0
        self.slow_callback_duration = 1e9
        self._clock_resolution = 1e-9
        self.steps = 0
        self.stopped_owners = 0
        """How many owners are stopped or dead; while there are none, nobody is asked."""

    def time(self) -> float:
        return self._virtual_now

    def _run_once(self) -> None:
        scheduled = self._scheduled
        while scheduled and scheduled[0]._cancelled:
            handle = heapq.heappop(scheduled)
            handle._scheduled = False
            self._timer_cancelled_count -= 1
        if not self._ready and not self._stopping:
            if not scheduled:
                raise Deadlock("nothing is ready and no timer is set")
            self._virtual_now = max(self._virtual_now, scheduled[0]._when)
        while scheduled and scheduled[0]._when <= self._virtual_now:
            handle = heapq.heappop(scheduled)
            handle._scheduled = False
            if handle._cancelled:
                self._timer_cancelled_count -= 1
            else:
                self._ready.append(handle)
        for _ in range(len(self._ready)):
            handle = self._ready.popleft()
            if handle._cancelled:
                continue
            if self.stopped_owners:
                owner = handle._context.get(OWNER)
                if owner is not None and owner.stopped:
                    owner.park(handle)
                    continue
            self.steps += 1
            handle._run()
        handle = None  # type: ignore[assignment] # breaks a reference cycle, as the stock loop does

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def _process_events(self, event_list: Any) -> None:
        return None

    def _write_to_self(self) -> None:
        return None


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Runs ``main`` to its end in virtual time; every other task is cancelled then."""
    loop = VirtualLoop()
    asyncio.set_event_loop(None)
    try:
        task = loop.create_task(main, name="main")
        result = loop.run_until_complete(task)
    finally:
        for _ in range(3):  # a task may swallow one cancellation; none may keep the world alive
            pending = sorted(asyncio.all_tasks(loop), key=lambda t: t.get_name())
            if not pending:
                break
            for other in pending:
                other.cancel()
            loop.run_until_complete(asyncio.wait(pending, timeout=10.0))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
    return result
