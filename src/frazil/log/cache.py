"""Bytes of objects in memory, bounded: whole small objects, read once for everybody who wants them (R12)."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from frazil.kit.errors import Corrupt
from frazil.kit.shares import ByteShares
from frazil.objects.port import ObjectStore
from frazil.records import Batch, patch
from frazil.records.batches import patch_in_place


class Block:
    """The bytes ``[start, start + len(data))`` of one object, or the ``whole`` of it. ``checked`` keeps what a check of a run found.

    The offsets of runs are written into a block once, however often they are fetched (R31): it then has its own copy of the
    bytes, in place of those it was made of, which the store may share.
    """

    __slots__ = ("_patched", "checked", "data", "start", "whole")

    def __init__(self, data: bytes, start: int, *, whole: bool = False) -> None:
        self.data: bytes | bytearray = data
        self._patched: dict[tuple[int, int], int] = {}
        self.start = start
        self.whole = whole
        self.checked: dict[tuple[int, int], list[Batch]] = {}

    def view(self, position: int, length: int, *, where: str) -> memoryview:
        """Bytes of the object at ``position``. Raises Corrupt when the object is too short for them."""
        at = position - self.start
        if at < 0 or at + length > len(self.data):
            raise Corrupt(f"{length} bytes at {position} are not in the {len(self.data)} read from {self.start}", where=where)
        return memoryview(self.data)[at : at + length]

    def patched(self, position: int, length: int, base: int, *, where: str) -> memoryview:
        """The run at ``position`` with offsets from ``base`` on, read-only and not copied. Raises Corrupt."""
        known = self._patched.get((position, length))
        if known is None:
            if isinstance(self.data, bytes):
                self.data = bytearray(self.data)
            patch_in_place(self.view(position, length, where=where), base)
            self._patched[position, length] = base
        elif known != base:  # never seen in a sound log; whoever holds the other view must not see it change
            return memoryview(patch(self.view(position, length, where=where), base)).toreadonly()
        return self.view(position, length, where=where).toreadonly()


class BlockCache:
    """Whole objects of up to ``whole_bytes_max`` bytes, least recently used out first, ``bytes_max`` bytes in all."""

    def __init__(self, bytes_max: int, *, whole_bytes_max: int = 8 * 1024 * 1024) -> None:
        self.whole_bytes_max = min(whole_bytes_max, bytes_max)
        self._bytes_max = bytes_max
        self._blocks: OrderedDict[str, Block] = OrderedDict()
        self._loading: dict[str, asyncio.Task[Block]] = {}
        self._arriving = ByteShares(max(bytes_max // 2, 1))
        self.held_bytes = 0

    def keep(self, key: str, data: bytes) -> None:
        """Puts an object just written here, so that the tail is read from memory."""
        if len(data) <= self.whole_bytes_max:
            self._put(key, Block(data, 0, whole=True))

    def find(self, key: str) -> Block | None:
        """The whole object if it is here."""
        block = self._blocks.get(key)
        if block is not None:
            self._blocks.move_to_end(key)
        return block

    async def whole(self, objects: ObjectStore, key: str, size: int) -> Block:
        """The whole object of ``size`` bytes; callers at the same time share one read. Raises what ``get`` raises.

        Objects on their way in take at most half of the bound, and older ones make room for them first.
        """
        block = self.find(key)
        if block is not None:
            return block
        task = self._loading.get(key)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._load(objects, key, size), name=f"log-load-{key}")
            self._loading[key] = task
            task.add_done_callback(_retrieve)
        return await asyncio.shield(task)

    async def _load(self, objects: ObjectStore, key: str, size: int) -> Block:
        try:
            async with self._arriving.share(size):
                self._make_room()
                block = Block(await objects.get(key), 0, whole=True)
            self._put(key, block)
            return block
        finally:
            del self._loading[key]

    def forget(self, key: str) -> None:
        """Drops an object whose bytes turned out to be wrong."""
        block = self._blocks.pop(key, None)
        if block is not None:
            self.held_bytes -= len(block.data)

    def _put(self, key: str, block: Block) -> None:
        if len(block.data) > self._bytes_max:
            return
        self.forget(key)
        self._blocks[key] = block
        self.held_bytes += len(block.data)
        self._make_room()

    def _make_room(self) -> None:
        """Lets the oldest go until what is here and what is arriving fits."""
        while self._blocks and self.held_bytes + self._arriving.held_bytes > self._bytes_max:
            _, old = self._blocks.popitem(last=False)
            self.held_bytes -= len(old.data)


def _retrieve(task: asyncio.Task[Block]) -> None:
    """Marks an error as seen: every caller may have been cancelled meanwhile."""
    if not task.cancelled():
        task.exception()
