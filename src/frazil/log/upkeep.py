"""What sealing, retention and collection work with, and when they act."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from crc32c import crc32c

from frazil.kit.chance import Chance
from frazil.kit.clock import Clock
from frazil.kit.errors import Conflict, Corrupt, Missing, RetryLater
from frazil.kit.tasks import Offload
from frazil.log.cache import BlockCache
from frazil.log.index import LogIndex
from frazil.log.pause import pause
from frazil.metadata.port import MetadataStore
from frazil.metadata.topics import Topics
from frazil.objects.port import ObjectStore

T = TypeVar("T")
DAY_MS: Final = 24 * 3600 * 1000
PUT_TRIES: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepDeps:
    """``namespace`` is the first component of segment keys; ``cache`` the broker's, to look for bundles that are in memory."""

    store: MetadataStore
    objects: ObjectStore
    index: LogIndex
    topics: Topics
    clock: Clock
    chance: Chance
    offload: Offload
    cache: BlockCache
    namespace: str = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepPolicy:
    """Ages, sizes, graces."""

    seal_age_ms: int = 600_000
    """A bundle gets at most this old, whatever its partitions hold (R12)."""
    close_age_ms: int = 60_000
    """When sealing by age takes place, every bundle older than this is sealed with it and closed; younger ones stay as the tail."""
    segment_bytes: int = 64 * 1024 * 1024
    """Segments are cut at about this size; a partition with that much unsealed is sealed before its time."""
    memory_bytes: int = 256 * 1024 * 1024
    """Bytes one sealing step holds, each batch in the three shapes it takes; a segment larger than a third of it goes alone."""
    grace_ms: int = 600_000
    """How long an unreachable object is kept for readers that still have its ref."""
    orphan_interval_ms: int = 600_000
    """How often bundles are listed for such that were never committed."""
    pin_max_ms: int = 7 * DAY_MS
    """How long a pin may hold data that retention wants to remove (R18)."""
    interval_ms: int = 10_000
    """Between two passes."""


async def put_same(deps: UpkeepDeps, key: str, data: bytes) -> None:
    """Stores an object whose bytes are fixed; somebody may have stored the same before us (R05).

    Raises Corrupt when other bytes are there, RetryLater when the store does not answer.
    """
    for tried in range(PUT_TRIES):
        try:
            await deps.objects.put_if_absent(key, data)
            return
        except Conflict:
            if await _is_there(deps, key, data):
                return
            trouble = RetryLater(f"{key} is said to exist and cannot be read")
        except RetryLater as error:
            trouble = error
        if tried + 1 == PUT_TRIES:
            raise trouble
        await pause(trouble.after_ms, deps.chance)


async def gather_all(work: Sequence[Callable[[], Coroutine[Any, Any, T]]], *, at_once: int) -> list[T]:
    """Runs ``work``, ``at_once`` at a time; the first error is raised when all have ended."""
    places = asyncio.Semaphore(at_once)

    async def in_turn(one: Callable[[], Coroutine[Any, Any, T]]) -> T:
        async with places:
            return await one()

    results = await asyncio.gather(*(in_turn(one) for one in work), return_exceptions=True)
    done: list[T] = []
    for result in results:
        if isinstance(result, BaseException):
            raise result
        done.append(result)
    return done


async def _is_there(deps: UpkeepDeps, key: str, data: bytes) -> bool:
    try:
        found = await deps.objects.get(key)
    except Missing:
        return False
    if len(found) != len(data) or crc32c(found) != crc32c(data):
        raise Corrupt(f"{len(found)} bytes are there, but the plan says {len(data)} bytes with CRC-32C {crc32c(data):08x}", where=key)
    return True
