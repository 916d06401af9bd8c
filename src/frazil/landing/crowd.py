"""Many jobs side by side, so many at once, where a few that hang must not hold up the others (F26, F70)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from frazil.kit.tasks import spawn

T = TypeVar("T")
_ALONE: Final = 6
"""While nobody has finished it may be the matter of all: patience is so many times longer."""


@dataclass(slots=True, kw_only=True)
class Crowd(Generic[T]):
    """What became of the jobs, by name. ``slow``: still running when nobody had finished for too long."""

    done: dict[str, T] = field(default_factory=dict)
    failed: dict[str, Exception] = field(default_factory=dict)
    slow: dict[str, asyncio.Task[T]] = field(default_factory=dict)


async def run_crowd(jobs: Mapping[str, Callable[[], Awaitable[T]]], *, at_once: int, patience_ms: float) -> Crowd[T]:
    """Every job is done, failed, or slow: no job finished for ``patience_ms`` while it ran. Slow ones give their places to others.

    Cancelled, or when a job ends the process, it ends them all.
    """
    crowd: Crowd[T] = Crowd()
    queue = deque(jobs)
    active: dict[asyncio.Task[T], str] = {}
    try:
        while queue or active:
            while queue and len(active) < at_once:
                name = queue.popleft()
                active[spawn(name, _await(jobs[name]))] = name
            patience = patience_ms if crowd.done or crowd.failed else _ALONE * patience_ms
            finished, _ = await asyncio.wait(active, timeout=patience / 1000, return_when=asyncio.FIRST_COMPLETED)
            if not finished:
                crowd.slow |= {name: task for task, name in active.items()}
                active.clear()
            for task in finished:
                _note(crowd, active.pop(task), task)
    except BaseException:
        await end_tasks([*active, *crowd.slow.values()])
        raise
    return crowd


async def _await(job: Callable[[], Awaitable[T]]) -> T:
    return await job()


def _note(crowd: Crowd[T], name: str, task: asyncio.Task[T]) -> None:
    try:
        crowd.done[name] = task.result()
    except Exception as error:  # noqa: BLE001 - the seam between jobs: what one raises is told, and harmless to the others
        crowd.failed[name] = error


async def end_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancels tasks and waits for their end; what they raise then is nobody's matter."""
    ending = list(tasks)
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)
