"""Runs the tasks of one process until it should stop, and ends them in order."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from frazil.kit.errors import Bug

Task = asyncio.Task[None]


async def first_of(waiting: asyncio.Task[bool], tasks: Iterable[Task]) -> None:
    """Returns when ``waiting`` is done; raises what ended a task before it, since every task must outlive the process."""
    running = set(tasks)
    done, _ = await asyncio.wait({waiting, *running}, return_when=asyncio.FIRST_COMPLETED)
    if waiting in done:
        return
    waiting.cancel()
    for task in running & done:
        error = task.exception()
        for other in running - done:
            other.cancel()
        if error is not None:
            raise error
        raise Bug(f"task {task.get_name()!r} ended by itself")


async def finish(tasks: Iterable[Task], *, keep_name: str) -> None:
    """Waits for the task that stops by itself, then cancels the others."""
    for task in tasks:
        if task.get_name() == keep_name:
            await task
    await cancel(task for task in tasks if not task.done())


async def cancel(tasks: Iterable[Task]) -> None:
    """Cancels tasks and waits for their end."""
    ending = list(tasks)
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)
