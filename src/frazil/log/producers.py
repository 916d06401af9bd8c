"""What the log remembers of idempotent producers: per (partition, producer id) the epoch and the last five batches (KIP-98, R10, F85).

States are a fold of the deltas in commit records; a checkpoint per shard lets old commit records go. Nothing here does I/O.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple

from frazil.kit.errors import Corrupt
from frazil.kit.names import PartitionId, PartitionKey, TopicId

BATCHES_MAX: Final = 5
"""A client has at most five batches in flight, so an older one is not sent again."""
EXPIRY_MS: Final = 24 * 3600 * 1000
SEQUENCES: Final = 2**31
CHECKPOINT_BYTES_MAX: Final = 384 * 1024
FORMAT: Final = 1


class Seen(NamedTuple):
    """A batch that has its offset."""

    first_sequence: int
    last_sequence: int
    base_offset: int


class ProducerState:
    """One producer in one partition. Never changed, only replaced. Not a dataclass: one is made per idempotent batch (R32)."""

    __slots__ = ("batches", "epoch", "last_ms")

    def __init__(self, epoch: int, last_ms: int, batches: tuple[Seen, ...]) -> None:
        self.epoch = epoch
        self.last_ms = last_ms
        self.batches = batches


def after(state: ProducerState | None, epoch: int, seen: Seen, now_ms: int) -> ProducerState:
    """The state once the batch ``seen`` is in the log; ``state`` itself is left as it is."""
    if state is None or state.epoch != epoch:
        return ProducerState(epoch, now_ms, (seen,))
    return ProducerState(epoch, now_ms if now_ms > state.last_ms else state.last_ms, (*state.batches[1 - BATCHES_MAX :], seen))


def after_all(state: ProducerState | None, epoch: int, seen: Sequence[Seen], now_ms: int) -> ProducerState:
    """``after`` for several batches in a row, in one step (R32)."""
    if state is None or state.epoch != epoch:
        return ProducerState(epoch, now_ms, tuple(seen[-BATCHES_MAX:]))
    last_ms = now_ms if now_ms > state.last_ms else state.last_ms
    return ProducerState(epoch, last_ms, (*state.batches, *seen)[-BATCHES_MAX:])


class Verdict(Enum):
    """What to do with an idempotent batch."""

    ACCEPT = auto()
    DUPLICATE = auto()
    """Already in the log: answer the offset it has."""
    STALE_EPOCH = auto()
    GAP = auto()
    """Its sequence is not the next one."""
    FORGOTTEN = auto()
    """Older than the five batches remembered: surely in the log, at an offset nobody knows any more."""


def judge(state: ProducerState | None, epoch: int, first: int, last: int) -> tuple[Verdict, int]:
    """Verdict on a batch with sequences ``first``-``last``; for DUPLICATE also the offset it has, else -1.

    An unknown producer may start anywhere: its state may have expired (KIP-360). A new epoch starts at 0.
    """
    if state is None:
        return Verdict.ACCEPT, -1
    if epoch < state.epoch:
        return Verdict.STALE_EPOCH, -1
    if epoch > state.epoch:
        return (Verdict.ACCEPT if first == 0 else Verdict.GAP), -1
    for seen in state.batches:
        if seen.first_sequence == first and seen.last_sequence == last:
            return Verdict.DUPLICATE, seen.base_offset
    if first == next_sequence(state.batches[-1].last_sequence):
        return Verdict.ACCEPT, -1
    behind = (state.batches[0].first_sequence - first) % SEQUENCES
    # With fewer than five batches the window has dropped nothing, so a lower sequence was never in the log.
    if len(state.batches) == BATCHES_MAX and 0 < behind < SEQUENCES // 2:
        return Verdict.FORGOTTEN, -1
    return Verdict.GAP, -1


def next_sequence(last: int) -> int:
    """The sequence after ``last``; 2^31 - 1 is followed by 0."""
    return (last + 1) % SEQUENCES


def last_sequence(first: int, records: int) -> int:
    """The sequence of the last of ``records`` records."""
    return (first + records - 1) % SEQUENCES


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The producer states of one shard at its dense ``version``."""

    version: int
    states: tuple[tuple[PartitionKey, int, ProducerState], ...]


_FRONT: Final = struct.Struct("<BQ")
_STATE: Final = struct.Struct("<16siqhqB")
_SEEN: Final = struct.Struct("<iiq")


def encode_checkpoint(version: int, states: Iterable[tuple[PartitionKey, int, ProducerState]], *, now_ms: int) -> bytes:
    """The stored form: format u8, version u64, then zlib of the states.

    States idle for a day are left out (R10). If the rest does not fit, the longest idle give up first their older batches
    and then their place: a retry of theirs is then taken for new. Fitting needs no more than halving a few times.
    """
    kept = sorted((item for item in states if item[2].last_ms > now_ms - EXPIRY_MS), key=lambda item: (-item[2].last_ms, item[0], item[1]))
    full = len(kept)
    while True:
        packed = zlib.compress(b"".join(_pack_states(kept, full)), 6)
        if len(packed) <= CHECKPOINT_BYTES_MAX:
            return _FRONT.pack(FORMAT, version) + packed
        if full:
            full //= 2
        else:
            del kept[len(kept) // 2 :]


def _pack_states(kept: list[tuple[PartitionKey, int, ProducerState]], full: int) -> Iterator[bytes]:
    for at, (key, producer_id, state) in enumerate(kept):
        batches = state.batches if at < full else state.batches[-1:]
        yield _STATE.pack(key.topic_id, key.partition, producer_id, state.epoch, state.last_ms, len(batches))
        for seen in batches:
            yield _SEEN.pack(*seen)


def checkpoint_version(value: bytes, *, where: str) -> int:
    """The front only."""
    if len(value) < _FRONT.size or value[0] != FORMAT:
        raise Corrupt(f"not a producer checkpoint of format {FORMAT}", where=where)
    version: int = _FRONT.unpack_from(value)[1]
    return version


def decode_checkpoint(value: bytes, *, where: str) -> Checkpoint:
    """Raises Corrupt when the value is not a checkpoint of a known format."""
    version = checkpoint_version(value, where=where)
    try:
        data = zlib.decompress(value[_FRONT.size :])
        states = tuple(_unpack_states(data))
    except (struct.error, zlib.error) as error:
        raise Corrupt(f"producer checkpoint is damaged: {error}", where=where) from error
    return Checkpoint(version=version, states=states)


def _unpack_states(data: bytes) -> Iterator[tuple[PartitionKey, int, ProducerState]]:
    position = 0
    while position < len(data):
        topic, partition, producer_id, epoch, last_ms, count = _STATE.unpack_from(data, position)
        position += _STATE.size
        seen = tuple(Seen(*_SEEN.unpack_from(data, position + at * _SEEN.size)) for at in range(count))
        position += count * _SEEN.size
        yield PartitionKey(TopicId(topic), PartitionId(partition)), producer_id, ProducerState(epoch, last_ms, seen)
