"""The read side: offsets → whole batches, bundle by bundle, from a bounded cache (R08, R12, R31, F84).

What is not there according to a view that may be old is looked up again after a linearizable refresh; only then is it an
answer. An object that is gone was sealed or retired meanwhile: refresh, resolve again.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from frazil.kit.errors import Corrupt, Missing
from frazil.kit.names import PartitionKey
from frazil.kit.tasks import Offload
from frazil.log.cache import Block, BlockCache
from frazil.log.extract import Extract, checked_batches, extract, whole_frames
from frazil.log.refs import Bounds, OffsetAt, OffsetOutOfRange, Pieces, Ref, Slice, Want
from frazil.log.timesearch import Place, TimeSearch
from frazil.log.view import LogView
from frazil.objects.port import ObjectStore
from frazil.records import Batch, split_batches
from frazil.segments.indexes import SparseIndex, index_of, parse_index
from frazil.segments.keys import parse_segment_key
from frazil.segments.kfs import read_segment
from frazil.segments.sidecars import read_sidecar

TRIES: Final = 4
GETS_MAX: Final = 8
COALESCE_GAP_BYTES: Final = 256 * 1024
INDEXES_MAX: Final = 64
_SLACK_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLimits:
    """What one batch may take, stored and unpacked."""

    batch_bytes_max: int = 256 * 1024 * 1024
    uncompressed_bytes_max: int = 32 * 1024 * 1024
    """A batch beyond this is not looked into by time: its first offset is the answer."""
    whole_objects: bool = True
    """Take small objects whole into the cache. Off for a reader that wants each byte once; it still looks into the cache."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """One ref of one want. ``limit`` as in ``extract``."""

    ref: Ref
    offset: int
    limit: int
    want: int
    at: int


class LogReader:
    """Serves fetch, landing and queries. Several may share one cache."""

    def __init__(
        self, objects: ObjectStore, index: LogView, cache: BlockCache, *, offload: Offload, limits: ReadLimits | None = None
    ) -> None:
        self._objects = objects
        self._index = index
        self._cache = cache
        self._limits = limits or ReadLimits()
        self._sparse: OrderedDict[str, SparseIndex] = OrderedDict()
        self._gets = asyncio.Semaphore(GETS_MAX)
        self._times = TimeSearch(offload, bytes_max=self._limits.uncompressed_bytes_max)

    async def fetch(self, key: PartitionKey, offset: int, *, bytes_max: int) -> Slice:
        """Batches from the one that contains ``offset`` on; empty at the end of the log.

        Raises OffsetOutOfRange after a linearizable refresh, Corrupt for damage or a hole, RetryLater.
        """
        return (await self.read_many([Want(key=key, offset=offset, bytes_max=bytes_max)]))[0]

    async def read_many(self, wants: Sequence[Want]) -> tuple[Slice, ...]:
        """One slice per want, in order. Every object is read once for all of them, in coalesced ranges (R12).

        Raises as ``fetch`` does, for the first want that cannot be served.
        """
        return tuple(pieces.joined() for pieces in await self.read_pieces(wants))

    async def read_pieces(self, wants: Sequence[Want]) -> tuple[Pieces, ...]:
        """``read_many`` for who passes the bytes on at once: large ones are not copied out of the cache."""
        for tried in range(TRIES):
            located = [await self._locate(want) for want in wants]
            try:
                return await self._read_located(wants, located)
            except Missing as error:
                if tried + 1 == TRIES:
                    raise Corrupt(f"an object in use is gone: {error}", where=str(wants[0].key)) from error
                await self._index.refresh()
        return ()

    def forget(self, object_key: str) -> None:
        """The object has changed or gone, which happens in a bucket that others write."""
        self._cache.forget(object_key)
        self._sparse.pop(object_key, None)

    async def bounds(self, key: PartitionKey) -> Bounds:
        """Start and end, read linearizably (R08)."""
        await self._index.refresh()
        return self._index.bounds(key)

    async def find_time(self, key: PartitionKey, timestamp_ms: int) -> OffsetAt | None:
        """The first record with a timestamp ≥ ``timestamp_ms``, by a linearizable view; None when there is none (R21)."""
        await self._index.refresh()
        for ref in self._all_refs(key):
            if ref.max_timestamp_ms >= timestamp_ms:
                found = await self._retry(key, ref, timestamp_ms)
                if found is not None:
                    return found
        return None

    async def max_time(self, key: PartitionKey) -> OffsetAt | None:
        """The record with the largest timestamp (the first of them), by a linearizable view; None in an empty log."""
        await self._index.refresh()
        refs = self._all_refs(key)
        return await self.find_time(key, max(ref.max_timestamp_ms for ref in refs)) if refs else None

    def _all_refs(self, key: PartitionKey) -> list[Ref]:
        return list(self._index.runs(key))

    async def _locate(self, want: Want) -> tuple[Ref, ...]:
        """The refs for ``want``. What the view cannot serve is believed only after a linearizable refresh (R08)."""
        refs = self._resolve(want)
        if refs is None:
            await self._index.refresh()
            refs = self._resolve(want)
        if refs is not None:
            return refs
        bounds = self._index.bounds(want.key)
        if bounds.start <= want.offset <= bounds.end:
            raise Corrupt(f"offset {want.offset} has no run, but the log is [{bounds.start}, {bounds.end})", where=str(want.key))
        raise OffsetOutOfRange(want.key, want.offset, bounds)

    def _resolve(self, want: Want) -> tuple[Ref, ...] | None:
        bounds = self._index.bounds(want.key)
        if bounds.start <= self._index.past_lost(want.key, want.offset) == bounds.end:
            return ()
        return self._index.refs(want.key, want.offset, bytes_max=want.bytes_max) or None

    async def read_refs(self, wants: Sequence[Want], located: Sequence[tuple[Ref, ...]]) -> tuple[Slice, ...]:
        """``read_many`` with refs the caller has resolved. Raises Missing when an object is gone."""
        return tuple(pieces.joined() for pieces in await self._read_located(wants, located))

    async def _read_located(self, wants: Sequence[Want], located: Sequence[tuple[Ref, ...]]) -> tuple[Pieces, ...]:
        by_object: dict[str, list[_Piece]] = {}
        for number, (want, refs) in enumerate(zip(wants, located, strict=True)):
            left = max(want.bytes_max, 1)
            for at, ref in enumerate(refs):
                piece = _Piece(ref, want.offset, -left if at == 0 else left, number, at)
                by_object.setdefault(ref.object_key, []).append(piece)
                left = max(left - ref.length, 0)
        found: dict[tuple[int, int], Extract] = {}
        tasks = [asyncio.ensure_future(self._read_object(pieces, found)) for pieces in by_object.values()]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
        return tuple(self._pieces(want, number, refs, found) for number, (want, refs) in enumerate(zip(wants, located, strict=True)))

    def _pieces(self, want: Want, number: int, refs: tuple[Ref, ...], found: dict[tuple[int, int], Extract]) -> Pieces:
        parts: list[bytes | memoryview] = []
        base = end = want.offset
        for at, ref in enumerate(refs):
            piece = found[number, at]
            if not piece.data:
                break
            base = piece.base if at == 0 else base
            end = piece.end
            parts.append(piece.data)
            if end < ref.end:
                break
        return Pieces(key=want.key, base=base, end=end, parts=tuple(parts), bounds=self._index.bounds(want.key))

    async def _read_object(self, pieces: list[_Piece], found: dict[tuple[int, int], Extract]) -> None:
        """All pieces of one object; its bytes are let go when they are cut out."""
        async with self._gets:
            first = pieces[0].ref
            if self._takes_whole(first):
                block = await self._cache.whole(self._objects, first.object_key, first.object_bytes)
                for piece in pieces:
                    found[piece.want, piece.at] = self._cut(block, piece)
            elif first.sealed:
                for piece in pieces:
                    found[piece.want, piece.at] = await self._part_of_segment(piece)
            else:
                for run in _coalesce(pieces):
                    start, end = run[0].ref.position, max(piece.ref.position + piece.ref.length for piece in run)
                    block = Block(await self._objects.get(first.object_key, start=start, end=end), start)
                    for piece in run:
                        found[piece.want, piece.at] = self._cut(block, piece)

    def _takes_whole(self, ref: Ref) -> bool:
        small = self._limits.whole_objects and ref.object_bytes <= self._cache.whole_bytes_max
        return small or self._cache.find(ref.object_key) is not None

    def _cut(self, block: Block, piece: _Piece) -> Extract:
        return extract(block, piece.ref, self._checked(block, piece.ref), piece.offset, piece.limit)

    def _checked(self, block: Block, ref: Ref) -> list[Batch]:
        """The batches of ``ref``; damaged bytes leave the cache, since the object itself may be whole."""
        try:
            return checked_batches(block, ref, self._limits.batch_bytes_max)
        except Corrupt:
            self._cache.forget(ref.object_key)
            raise

    async def _part_of_segment(self, piece: _Piece) -> Extract:
        """A range of a segment too large to take whole: from the indexed batch below the offset on."""
        ref = piece.ref
        end = ref.position + ref.length
        start = (await self._index_of(ref)).floor(piece.offset)
        size = abs(piece.limit) + _SLACK_BYTES
        while True:
            data = await self._objects.get(ref.object_key, start=start, end=min(start + size, end))
            if not data:
                raise Corrupt(f"ends before byte {start}", where=ref.object_key)
            data = data[: whole_frames(data)]
            batches = split_batches(data, batch_bytes_max=self._limits.batch_bytes_max, where=f"{ref.object_key}+{start}")
            part = _part(ref, start, batches)
            cut = extract(Block(data, start), part, batches, piece.offset, piece.limit)
            if cut.data or piece.limit > 0:
                return cut
            if start + size >= end:
                raise Corrupt(f"no whole batch with offset {piece.offset} up to byte {end}", where=f"{ref.object_key}+{start}")
            size *= 2

    async def _index_of(self, ref: Ref) -> SparseIndex:
        sparse = self._sparse.get(ref.object_key)
        if sparse is None:
            sparse = await self._load_index(ref)
            self._sparse[ref.object_key] = sparse
            if len(self._sparse) > INDEXES_MAX:
                self._sparse.popitem(last=False)
        return sparse

    async def _load_index(self, ref: Ref) -> SparseIndex:
        """The ``.index`` object; one that is lost or damaged is rebuilt from the segment (F81)."""
        index_key = ref.object_key.removesuffix(".kfs") + ".index"  # also under a prefix that is no namespace of ours
        try:
            return parse_index(await self._objects.get(index_key), where=index_key)
        except (Missing, Corrupt):
            self._sparse.pop(ref.object_key, None)
        data = await self._objects.get(ref.object_key)
        return index_of(read_segment(data, where=ref.object_key, batch_bytes_max=self._limits.batch_bytes_max).batches)

    async def _retry(self, key: PartitionKey, ref: Ref, timestamp_ms: int) -> OffsetAt | None:
        """Looks into one ref; when its object is gone, into what covers the same offsets now."""
        for _ in range(TRIES):
            covering = [ref, *(other for other in self._all_refs(key) if other.base < ref.end and other.end > ref.base)]
            for candidate in covering[1:]:
                try:
                    found = await self._find_in(candidate, timestamp_ms)
                except Missing:
                    await self._index.refresh()
                    break
                if found is not None:
                    return found
            else:
                return None
        raise Corrupt("an object in use is gone", where=ref.object_key)

    async def _find_in(self, ref: Ref, timestamp_ms: int) -> OffsetAt | None:
        """The first record of ``ref`` at or after the time: first batch whose max is, then the record inside it."""
        block, start = await self._block_for(ref, timestamp_ms)
        batches = self._checked(block, start)
        offset = start.base
        for batch in batches:
            offset = batch.base_offset if ref.sealed else offset
            if batch.max_timestamp_ms >= timestamp_ms and not batch.is_control:
                view = block.view(start.position + batch.position, batch.length, where=ref.object_key)
                place = Place(ref.object_key, start.position + batch.position)
                found = await self._times.find(batch, view, place, offset, timestamp_ms)
                if found is not None:
                    return found
            offset += batch.last_offset_delta + 1
        return None

    async def _block_for(self, ref: Ref, timestamp_ms: int) -> tuple[Block, Ref]:
        """Bytes to search, and the part of ``ref`` they are."""
        if self._takes_whole(ref):
            return await self._cache.whole(self._objects, ref.object_key, ref.object_bytes), ref
        start, end = ref.position, ref.position + ref.length
        if ref.sealed:
            start = await self._time_position(ref, timestamp_ms)
        data = await self._objects.get(ref.object_key, start=start, end=end)
        if not ref.sealed:
            return Block(data, start), ref
        batches = split_batches(data, batch_bytes_max=self._limits.batch_bytes_max, where=f"{ref.object_key}+{start}")
        return Block(data, start), _part(ref, start, batches)

    async def _time_position(self, ref: Ref, timestamp_ms: int) -> int:
        """Where in a large segment to begin, by its sidecar; at its front when that is lost."""
        key = parse_segment_key(ref.object_key)
        if key is None:
            return ref.position
        try:
            found = read_sidecar(await self._objects.get(key.sidecar()), where=key.sidecar()).find_time(timestamp_ms)
        except (Missing, Corrupt):
            return ref.position
        return ref.position if found is None else found.position


def _part(ref: Ref, start: int, batches: Sequence[Batch]) -> Ref:
    """The part of a sealed ref that begins at byte ``start`` of its object."""
    return Ref(
        base=batches[0].base_offset if batches else ref.base,
        end=batches[-1].last_offset + 1 if batches else ref.base,
        object_key=ref.object_key,
        position=start,
        length=sum(batch.length for batch in batches),
        first_timestamp_ms=ref.first_timestamp_ms,
        max_timestamp_ms=ref.max_timestamp_ms,
        sealed=True,
        object_bytes=ref.object_bytes,
        written_ms=ref.written_ms,
    )


def _coalesce(pieces: list[_Piece]) -> list[list[_Piece]]:
    """Pieces of one object in groups that are read with one request each (R12)."""
    groups: list[list[_Piece]] = []
    end = -1
    for piece in sorted(pieces, key=lambda piece: piece.ref.position):
        if groups and piece.ref.position - end <= COALESCE_GAP_BYTES:
            groups[-1].append(piece)
        else:
            groups.append([piece])
        end = max(end, piece.ref.position + piece.ref.length)
    return groups
