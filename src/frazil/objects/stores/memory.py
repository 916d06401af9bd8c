"""Objects in memory: for tests, simulation and one-process trials. Nothing survives the process.

``MemoryBucket`` is the "server": several ``MemoryObjects`` over one bucket are several processes of one cluster.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, insort
from collections.abc import AsyncIterator, Callable, Sequence

from frazil.kit.clock import Clock
from frazil.kit.errors import Conflict, Missing, Refused
from frazil.objects.keys import Data, buffers, check_key, check_prefix
from frazil.objects.opening import ObjectDeps
from frazil.objects.port import ObjectInfo, ObjectStore

MidPut = Callable[[str], None]


class MemoryBucket:
    """The stored objects: bytes and time of storing, keys in order."""

    def __init__(self) -> None:
        self.objects: dict[str, tuple[bytes, int]] = {}
        self.keys: list[str] = []


class MemoryObjects(ObjectStore):
    """One handle on a bucket. ``mid_put`` is called with the key between the two halves of a put; if it raises, nothing is stored."""

    def __init__(self, bucket: MemoryBucket, clock: Clock, *, mid_put: MidPut | None = None) -> None:
        self._bucket = bucket
        self._clock = clock
        self._mid_put = mid_put

    def uri(self, key: str) -> str:
        """``memory:///{key}``: means something only inside this process."""
        check_key(key)
        return f"memory:///{key}"

    async def put_if_absent(self, key: str, data: Data) -> None:
        """See ``ObjectStore.put_if_absent``."""
        check_key(key)
        stored = data if isinstance(data, bytes) else b"".join(buffers(data))
        await asyncio.sleep(0)  # every call is a point where others may run, as with a real store
        if self._mid_put is not None:
            self._mid_put(key)
        if key in self._bucket.objects:
            raise Conflict(f"object {key} exists")
        self._bucket.objects[key] = (stored, self._clock.now_ms())
        insort(self._bucket.keys, key)

    async def get(self, key: str, *, start: int = 0, end: int | None = None) -> bytes:
        """See ``ObjectStore.get``."""
        check_key(key)
        if start < 0 or (end is not None and end < start):
            raise Refused(f"object {key}: no byte range [{start}, {end})")
        await asyncio.sleep(0)
        found = self._bucket.objects.get(key)
        if found is None:
            raise Missing(f"no object {key}")
        return found[0][start:end]

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        """See ``ObjectStore.list``."""
        check_prefix(prefix)
        await asyncio.sleep(0)
        keys = self._bucket.keys
        after = prefix
        while True:
            at = bisect_left(keys, after)
            if at == len(keys) or not keys[at].startswith(prefix):
                return
            key = keys[at]
            data, modified_ms = self._bucket.objects[key]
            yield ObjectInfo(key=key, size_bytes=len(data), modified_ms=modified_ms)
            after = key + "\0"

    async def delete(self, keys: Sequence[str]) -> None:
        """See ``ObjectStore.delete``."""
        for key in keys:
            check_key(key)
        await asyncio.sleep(0)
        for key in keys:
            if self._bucket.objects.pop(key, None) is not None:
                del self._bucket.keys[bisect_left(self._bucket.keys, key)]


def open_store(url: str, deps: ObjectDeps) -> ObjectStore:
    """A new, empty store for ``memory:``. Share a ``MemoryBucket`` to open the same one twice."""
    if url.rstrip("/") != "memory:":
        raise Refused(f"objects url {url!r}: the memory store takes no path; write memory:")
    return MemoryObjects(MemoryBucket(), deps.clock, mid_put=deps.mid_put)
