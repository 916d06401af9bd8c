"""Keeps the marks of metadata and bucket together (R22, docs/formats/metadata.md), and refuses when they are not one history."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from frazil.kit.chance import Chance
from frazil.kit.errors import Conflict, Missing, Refused, RetryLater
from frazil.kit.names import PartitionId, PartitionKey
from frazil.log.index import LogIndex
from frazil.metadata import MetadataStore
from frazil.metadata.marks import (
    MARK_PREFIX,
    NO_MARK_OBJECT,
    Mark,
    MarkObject,
    check_mark,
    is_behind,
    mark_object_key,
    put_mark,
    read_mark,
    take_mark,
)
from frazil.objects import ObjectStore

_LOG = logging.getLogger("frazil.marks")
_TRIES = 20
_INTERVAL_S = 10.0


class Marks:
    """Any number of processes may do this at the same time."""

    def __init__(self, metadata: MetadataStore, objects: ObjectStore, chance: Chance) -> None:
        self._metadata = metadata
        self._objects = objects
        self._chance = chance

    async def check(self) -> tuple[Mark, MarkObject]:
        """Both newest marks, of one history. Raises Refused when they are not, RetryLater."""
        mark, found = await self.read()
        for _ in range(_TRIES):
            if not is_behind(mark, found):
                break
            mark, found = await self.read()
        check_mark(mark, found)
        return mark, found

    async def read(self) -> tuple[Mark, MarkObject]:
        """Both newest marks, unchecked. The bucket is read first: what it has, metadata had before."""
        found = await self._newest()
        return await read_mark(self._metadata), found

    async def advance(self, ends: Mapping[PartitionKey, int]) -> None:
        """Takes the next mark; ``ends`` are next offsets as known. Raises Refused as ``check``, RetryLater."""
        for _ in range(_TRIES):
            mark, found = await self.check()
            if found.number < mark.number:  # whoever took it has not stored it yet, or died before
                await self._store(mark, ends)
            taken = await take_mark(self._metadata, mark, self._token())
            if taken is not None:
                await self._store(taken, ends)
                await self._delete_below(taken.number)
                return
        raise RetryLater("marks are taken by others all the time")

    async def join(self, ends: Mapping[PartitionKey, int]) -> None:
        """Makes one history of the two, at the end of a restore. Nothing else may run. Raises RetryLater."""
        mark, found = await self.read()
        before = found.token if found.number >= mark.number else mark.token
        joined = Mark(number=max(mark.number, found.number) + 1, token=self._token(), before=before)
        if not await put_mark(self._metadata, mark, joined):
            raise Refused("another process took a mark while the restore ran; stop every process and restore again")
        await self._store(joined, ends)
        await self._delete_below(joined.number)

    async def _newest(self) -> MarkObject:
        while True:
            with _passing("reading marks"):
                keys = [info.key async for info in self._objects.list(MARK_PREFIX)]
                if not keys:
                    return NO_MARK_OBJECT
                try:
                    data = await self._objects.get(keys[-1])
                except Missing:
                    continue  # a newer one has replaced it
            return MarkObject.decode(data, where=keys[-1])

    async def _store(self, mark: Mark, ends: Mapping[PartitionKey, int]) -> None:
        key = mark_object_key(mark.number)
        try:
            with _passing("storing a mark"):
                await self._objects.put_if_absent(key, MarkObject(number=mark.number, token=mark.token, ends=ends).encode())
        except Conflict:
            try:
                there = MarkObject.decode(await self._objects.get(key), where=key)
            except Missing:
                return  # stored by somebody else and replaced already
            if there.token != mark.token:
                raise Refused(f"{key} is of another history: another process runs on this bucket with other metadata") from None

    async def _delete_below(self, number: int) -> None:
        limit = mark_object_key(number)
        with _passing("deleting old marks"):
            await self._objects.delete([info.key async for info in self._objects.list(MARK_PREFIX) if info.key < limit])

    def _token(self) -> str:
        return f"{self._chance.getrandbits(128):032x}"


@contextmanager
def _passing(what: str) -> Iterator[None]:
    """A store that refuses a call, a read-only file system say, says nothing about histories: no reason to end the process."""
    try:
        yield
    except Conflict:
        raise
    except Refused as error:
        raise RetryLater(f"{what}: {error}", after_ms=1000) from error


def ends_of(index: LogIndex) -> dict[PartitionKey, int]:
    """Next offsets of all partitions, as known in this process."""
    return {
        PartitionKey(topic_id, PartitionId(partition)): end
        for shard in index.state.shards
        for topic_id, partitions in shard.nexts.items()
        for partition, end in partitions.items()
    }


async def keep_marking(marks: Marks, index: LogIndex) -> None:
    """A mark now and then while there are commits, for ever: a copy of metadata older than the newest mark is known as old."""
    marked = -1
    while True:
        await asyncio.sleep(_INTERVAL_S)
        version = sum(shard.version for shard in index.state.shards)
        if version == marked:
            continue
        try:
            await marks.advance(ends_of(index))
            marked = version
        except RetryLater as error:
            _LOG.warning("no mark could be taken: %s", error)
