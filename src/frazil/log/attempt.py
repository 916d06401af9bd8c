"""Which pieces of the waiting flushes go into the next transaction: in order, within the limits of a transaction (R03, R10, R11)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from frazil.log.commitrecord import DELTA_BYTES, FIXED_BYTES, ROW_BYTES, SECTION_BYTES, TOPIC_BYTES
from frazil.log.flush import Flush, Group
from frazil.log.head import PARTITION_BYTES, head_bytes
from frazil.log.head import TOPIC_BYTES as HEAD_TOPIC_BYTES
from frazil.log.sequence import Piece
from frazil.log.state import Shard

OPERATIONS_MAX: Final = 96
BYTES_MAX: Final = 440 * 1024
"""Estimated before packing; the port's limits are 100 and 512 KiB."""
GROUPS_MAX: Final = 1024
_KEY_BYTES: Final = 64


class Attempt:
    """The undecided pieces of some flushes, and what was learnt while trying."""

    def __init__(self, flushes: Sequence[Flush], *, deadline_ms: float) -> None:
        self.deadline_ms = deadline_ms
        self.pending: list[Piece] = [piece for flush in flushes for piece in _pieces(flush)]
        self.fresh = False
        """True once the index was refreshed after the flushes were cut."""
        self.losses = 0
        self.alone: dict[int, None] = {}
        """Contended shards, which get transactions of their own after all others (R11)."""

    def undecided(self) -> list[Flush]:
        """Flushes with something pending, in cut order."""
        return list({id(piece.flush): piece.flush for piece in self.pending}.values())

    def done(self, pieces: Sequence[Piece]) -> None:
        """These pieces are decided."""
        decided = {id(piece.groups) for piece in pieces}
        self.pending = [piece for piece in self.pending if id(piece.groups) not in decided]

    def choose(self, shards: Sequence[Shard]) -> list[Piece]:
        """The pieces of the next transaction, at least one. A shard's pieces keep their order."""
        chosen: list[Piece] = []
        full: set[int] = set()
        heads: set[int] = set()
        flushes: set[int] = set()
        size = 0
        for piece in self._candidates():
            if piece.shard in full:
                continue
            extra = _piece_bytes(piece, shards[piece.shard])
            extra += head_bytes(shards[piece.shard].nexts) if piece.shard not in heads else 0
            extra += FIXED_BYTES + _KEY_BYTES if id(piece.flush) not in flushes else 0
            operations = len(heads | {piece.shard}) + len(flushes | {id(piece.flush)}) + 1
            if chosen and (size + extra > BYTES_MAX or operations > OPERATIONS_MAX):
                full.add(piece.shard)
                continue
            chosen.append(piece)
            heads.add(piece.shard)
            flushes.add(id(piece.flush))
            size += extra
        return chosen

    def _candidates(self) -> list[Piece]:
        calm = [piece for piece in self.pending if piece.shard not in self.alone]
        if calm:
            return calm
        first = self.pending[0].shard
        return [piece for piece in self.pending if piece.shard == first]


def _pieces(flush: Flush) -> Iterator[Piece]:
    for shard, groups in flush.groups.items():
        for at in range(0, len(groups), GROUPS_MAX):
            yield Piece(flush, shard, groups[at : at + GROUPS_MAX])


def _piece_bytes(piece: Piece, shard: Shard) -> int:
    """An upper bound of what the piece adds to commit record and head."""
    size = SECTION_BYTES
    for group in piece.groups:
        size += _group_bytes(group)
        known = shard.nexts.get(group.key.topic_id)
        if known is None or group.key.partition not in known:
            size += PARTITION_BYTES + HEAD_TOPIC_BYTES
    return size


def _group_bytes(group: Group) -> int:
    if group.by_batch:
        return TOPIC_BYTES + group.batches * (ROW_BYTES + DELTA_BYTES)
    return TOPIC_BYTES + ROW_BYTES * len(group.parts)
