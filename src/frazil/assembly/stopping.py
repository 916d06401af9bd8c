"""When a process should end: SIGTERM, SIGINT, or the end of the parent that supervises it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from frazil.kit.tasks import spawn

_PARENT_POLL_S = 0.5


@asynccontextmanager
async def stop_requested(*, supervised: bool) -> AsyncIterator[asyncio.Event]:
    """An event that is set when this process should end. ``supervised``: also when its parent is gone (killed, say)."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    watcher = spawn("watch parent", _watch_parent(stop)) if supervised else None
    try:
        yield stop
    finally:
        if watcher is not None:
            watcher.cancel()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


async def _watch_parent(stop: asyncio.Event) -> None:
    parent = os.getppid()
    while os.getppid() == parent:  # noqa: ASYNC110 - nobody sends an event when a parent is killed
        await asyncio.sleep(_PARENT_POLL_S)
    stop.set()
