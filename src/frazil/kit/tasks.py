"""Tasks with names, and the port by which blocking work leaves the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Offload(Protocol):
    """Runs blocking or CPU-bound work away from the loop."""

    async def run(self, work: Callable[[], T]) -> T:
        """The result of ``work()``; its exceptions pass through."""
        ...


class InlineOffload:
    """Runs work on the loop itself: for tests and simulation, where order must be a function of the seed."""

    async def run(self, work: Callable[[], T]) -> T:
        """The result of ``work()``."""
        return work()


class ThreadOffload:
    """Runs work in a bounded pool of named threads."""

    def __init__(self, name: str, *, threads_max: int = 4) -> None:
        self._pool = ThreadPoolExecutor(max_workers=threads_max, thread_name_prefix=name)

    async def run(self, work: Callable[[], T]) -> T:
        """The result of ``work()``, computed in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def close(self) -> None:
        """Waits for running work and ends the threads."""
        self._pool.shutdown(wait=True)


def spawn(name: str, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """A named task on the running loop. The caller keeps the task and awaits or cancels it."""
    return asyncio.get_running_loop().create_task(coroutine, name=name)
