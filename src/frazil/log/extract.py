"""Bytes of refs → whole patched batches. The only place that turns stored bytes into something to show (R31, F81, F84). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from frazil.kit.errors import Corrupt
from frazil.log.cache import Block
from frazil.log.refs import Ref
from frazil.records import Batch, patch, split_batches
from frazil.segments.kfs import FOOTER_BYTES, read_segment

_LENGTH_AT = 8
_FRAME_OVERHEAD = 12
_REMEMBER_BYTES = 512
"""Headers of smaller batches would take more memory than the cache counts; they are read again."""


_SHARE_SHOWN = 8
"""A run that is at least this part of its block is shown, not copied."""


class Extract(NamedTuple):
    """Batches with offsets ``[base, end)``; empty ``data`` when not one fits the limit."""

    base: int
    end: int
    data: bytes | memoryview


def checked_batches(block: Block, ref: Ref, batch_bytes_max: int) -> list[Batch]:
    """The batches of ``ref``, positions from its start; checked once per block.

    Raises Corrupt when a CRC fails, or when the batches do not take exactly the offsets the ref claims.
    """
    place = (ref.position, ref.length)
    batches = block.checked.get(place)
    if batches is None:
        if block.whole and len(block.data) != ref.object_bytes:
            raise Corrupt(f"{len(block.data)} bytes, but {ref.object_bytes} were written", where=ref.object_key)
        if block.whole and ref.sealed:
            batches = list(read_segment(block.data, where=ref.object_key, batch_bytes_max=batch_bytes_max).batches)
        else:
            view = block.view(ref.position, ref.length, where=ref.object_key)
            batches = split_batches(view, batch_bytes_max=batch_bytes_max, where=f"{ref.object_key}+{ref.position}")
        _check_offsets(batches, ref)
        if ref.length >= _REMEMBER_BYTES * len(batches):
            block.checked[place] = batches
    return batches


def extract(block: Block, ref: Ref, batches: Sequence[Batch], offset: int, limit: int) -> Extract:
    """Whole batches of ``ref`` from the one with ``offset`` on, at most ``limit`` bytes; ``limit`` < 0: the first, however large.

    ``-limit`` is then the limit for what follows it.
    """
    base = end = ref.base
    start = stop = -1
    for batch in batches:
        if ref.sealed:
            end = batch.base_offset
        after = end + batch.last_offset_delta + 1
        if after > offset:
            if start < 0:
                start, stop, base = batch.position, batch.position, end
            size = batch.position + batch.length - start
            if size > abs(limit) and not (limit < 0 and stop == start):
                break
            stop = batch.position + batch.length
        end = after
    if start < 0 or stop == start:
        return Extract(base, base, b"")
    return Extract(base, end, _bytes_of(block, ref, (start, stop), base))


def _bytes_of(block: Block, ref: Ref, place: tuple[int, int], base: int) -> bytes | memoryview:
    """The batches at ``place`` of ``ref``, with offsets. A view keeps its whole block alive, so a small part is copied out."""
    start, stop = place
    copied = ref.length * _SHARE_SHOWN < len(block.data)
    if ref.sealed or copied:
        data = block.view(ref.position + start, stop - start, where=ref.object_key)
        if not ref.sealed:
            return bytes(patch(data, base))
        return bytes(data) if (stop - start) * _SHARE_SHOWN < len(block.data) else data.toreadonly()
    return block.patched(ref.position, ref.length, ref.base, where=ref.object_key)[start:stop]


def whole_frames(data: bytes) -> int:
    """How many bytes at the front of ``data`` are whole frames, by their length fields."""
    position = 0
    while position + _FRAME_OVERHEAD <= len(data):
        end = position + _FRAME_OVERHEAD + int.from_bytes(data[position + _LENGTH_AT : position + _FRAME_OVERHEAD], "big", signed=True)
        if end <= position or end > len(data):
            break
        position = end
    return position


def segment_end(ref: Ref) -> int:
    """Where the body of a sealed ref ends in its object."""
    return ref.object_bytes - FOOTER_BYTES


def _check_offsets(batches: Sequence[Batch], ref: Ref) -> None:
    if ref.sealed:
        found = (batches[0].base_offset, batches[-1].last_offset + 1) if batches else (ref.base, ref.base)
    else:
        found = (ref.base, ref.base + sum(batch.last_offset_delta + 1 for batch in batches))
    if found != (ref.base, ref.end):
        raise Corrupt(f"its batches take offsets {found}, metadata says {(ref.base, ref.end)}", where=f"{ref.object_key}+{ref.position}")
