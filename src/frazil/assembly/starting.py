"""Waiting, at the start of a process, for stores that do not answer yet: a crash loop would only add load (F86)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from frazil.kit.errors import RetryLater

T = TypeVar("T")

_LOG: Final = logging.getLogger("frazil.start")
_FIRST_PAUSE_S: Final = 0.5
_PAUSE_MAX_S: Final = 10.0


async def patiently(what: str, work: Callable[[], Awaitable[T]], stop: asyncio.Event | None) -> T:
    """The result of ``work``, which is repeated, ever more slowly, while it raises RetryLater; each failure is told.

    Raises the last RetryLater once ``stop`` is set; at once when there is no ``stop``: a command has a person who waits.
    """
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            return await work()
        except RetryLater as error:
            if stop is None or stop.is_set():
                raise
            _LOG.warning("%s: %s; trying again in %.1f s", what, error, pause_s)
            if await _stopped_within(stop, pause_s):
                raise
        pause_s = min(_PAUSE_MAX_S, pause_s * 2)


async def _stopped_within(stop: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return False
    return True
