"""Murmur3 (x86, 32 bits, seed 0) of whole columns: the hash behind Iceberg's bucket transform (table spec, appendix B). Pure.

Arithmetic of Arrow on unsigned 32 bits wraps, as the hash needs it.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from frazil.catalogs.arrow import ArrowArray

LONG_VALUE_BYTES: Final = 1_024
"""Longer values are hashed one by one: as many blocks in lock step would cost more, and a slice cannot hold many of them."""
_BLOCK: Final = 4
_MASK: Final = 0xFFFFFFFF
_C1: Final = 0xCC9E2D51
_C2: Final = 0x1B873593
_TAIL_MASKS: Final = pa.array([0, 0xFF, 0xFFFF, 0xFFFFFF], pa.uint32())
_compute: Any = pc


def hash_longs(values: ArrowArray) -> ArrowArray:
    """uint32 hashes of int64 values, eight bytes each, little-endian; null stays null."""
    bits = values.view(pa.uint64())
    low = _compute.bit_wise_and(bits, _u64(_MASK)).cast(pa.uint32())
    high = _compute.shift_right(bits, _u64(32)).cast(pa.uint32())
    start = pc.if_else(values.is_valid(), _u32(0), pa.scalar(None, pa.uint32()))
    return _finish(_mix(_mix(start, low), high), _u32(8))


def hash_bytes(data: pa.Buffer, starts: ArrowArray, lengths: ArrowArray) -> ArrowArray:
    """uint32 hashes of the stretches of ``data`` at ``starts`` (int64) of ``lengths`` (int64, no nulls)."""
    order = pc.sort_indices(lengths, sort_keys=[("", "descending")])
    starts, lengths = starts.take(order), lengths.take(order)
    long_ones = int(_compute.sum(_compute.greater(lengths, LONG_VALUE_BYTES)).as_py() or 0)
    view = memoryview(data)
    pairs = zip(starts.slice(0, long_ones).to_pylist(), lengths.slice(0, long_ones).to_pylist(), strict=True)
    long_hashes = pa.array([hash_one(view[start : start + length]) for start, length in pairs], pa.uint32())
    if long_ones == len(lengths):
        return long_hashes.take(pc.sort_indices(order))
    hashes = _lock_step(_Words(view), starts.slice(long_ones), lengths.slice(long_ones))
    return pa.concat_arrays([long_hashes, hashes]).take(pc.sort_indices(order))


class _Words:
    """The little-endian words that begin at each byte of a buffer, zeros behind its end."""

    def __init__(self, data: memoryview) -> None:
        self._each = len(data) // _BLOCK + 1
        whole = bytes(data) + bytes(2 * _BLOCK)
        size = self._each * _BLOCK
        joined = b"".join(whole[shift : shift + size] for shift in range(_BLOCK))
        self._words = pa.Array.from_buffers(pa.uint32(), _BLOCK * self._each, [None, pa.py_buffer(joined)])

    def at(self, places: ArrowArray) -> ArrowArray:
        rows = _compute.shift_right(places, 2)
        return self._words.take(_compute.add(_compute.multiply(_compute.bit_wise_and(places, 3), self._each), rows))


def _lock_step(words: _Words, starts: ArrowArray, lengths: ArrowArray) -> ArrowArray:
    """Hashes of stretches in falling order of length: those that still have a block are always the first ones."""
    blocks = _compute.shift_right(lengths, 2)
    state = pa.repeat(_u32(0), len(lengths))
    for at in range(blocks[0].as_py()):
        count = int(_compute.sum(_compute.greater(blocks, at)).as_py())
        word = words.at(_compute.add(starts.slice(0, count), at * _BLOCK))
        mixed = _mix(state.slice(0, count), word)
        state = mixed if count == len(state) else pa.concat_arrays([mixed, state.slice(count)])
    tail = words.at(_compute.add(starts, _compute.multiply(blocks, _BLOCK)))
    tail = _compute.bit_wise_and(tail, _TAIL_MASKS.take(_compute.bit_wise_and(lengths, 3)))
    return _finish(_compute.bit_wise_xor(state, _scrambled(tail)), lengths.cast(pa.uint32()))


def _scrambled(word: ArrowArray) -> ArrowArray:
    return _compute.multiply(_rotated(_compute.multiply(word, _u32(_C1)), 15), _u32(_C2))


def _mix(state: ArrowArray, word: ArrowArray) -> ArrowArray:
    mixed = _rotated(_compute.bit_wise_xor(state, _scrambled(word)), 13)
    return _compute.add(_compute.multiply(mixed, _u32(5)), _u32(0xE6546B64))


def _finish(state: ArrowArray, length: Any) -> ArrowArray:  # noqa: ANN401 - a scalar or an array
    state = _compute.bit_wise_xor(state, length)
    state = _compute.bit_wise_xor(state, _compute.shift_right(state, _u32(16)))
    state = _compute.multiply(state, _u32(0x85EBCA6B))
    state = _compute.bit_wise_xor(state, _compute.shift_right(state, _u32(13)))
    state = _compute.multiply(state, _u32(0xC2B2AE35))
    return _compute.bit_wise_xor(state, _compute.shift_right(state, _u32(16)))


def _rotated(word: ArrowArray, by: int) -> ArrowArray:
    return _compute.bit_wise_or(_compute.shift_left(word, _u32(by)), _compute.shift_right(word, _u32(32 - by)))


def _u32(value: int) -> Any:  # noqa: ANN401 - pyarrow-stubs have no unsigned scalars in arithmetic
    return pa.scalar(value, pa.uint32())


def _u64(value: int) -> Any:  # noqa: ANN401 - see above
    return pa.scalar(value, pa.uint64())


def hash_one(data: bytes | memoryview) -> int:
    """The hash of one value."""
    state = 0
    whole = len(data) // _BLOCK
    for (word,) in struct.iter_unpack("<I", data[: whole * _BLOCK]):
        state ^= _scrambled_one(word)
        state = (state << 13 | state >> 19) & _MASK
        state = (state * 5 + 0xE6546B64) & _MASK
    if len(data) % _BLOCK:
        state ^= _scrambled_one(int.from_bytes(data[whole * _BLOCK :], "little"))
    state ^= len(data)
    state = ((state ^ state >> 16) * 0x85EBCA6B) & _MASK
    state = ((state ^ state >> 13) * 0xC2B2AE35) & _MASK
    return state ^ state >> 16


def _scrambled_one(word: int) -> int:
    word = (word * _C1) & _MASK
    return ((word << 15 | word >> 17) & _MASK) * _C2 & _MASK
