"""Stage commit: files and progress become one snapshot (R06), then the pin follows (R18)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from frazil.catalogs.commit import Committed, Landed, Lost
from frazil.catalogs.port import LoadedTable
from frazil.catalogs.progress import Move, SourcePartition
from frazil.kit.names import PartitionKey
from frazil.landing.lake import Lake, within
from frazil.landing.plan import Loss, describe_losses
from frazil.landing.upsertcommit import commit_upsert
from frazil.landing.write import Written
from frazil.log.pins import read_pin, set_pin
from frazil.metadata.port import MetadataStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One slice, ready to be committed on ``base``."""

    base: LoadedTable
    written: Written
    moves: Mapping[SourcePartition, Move]
    losses: Sequence[Loss]
    attempt: str


async def commit_slice(lake: Lake, work: Work) -> Committed | Lost:
    """The slice is in the table, or somebody else moved the progress and it must be planned again.

    Stays until the outcome is known (R16); may be cancelled at any time, which the next start repairs from the table.
    Raises Refused, Missing, and Corrupt when a data file is not what was written.
    """
    summary = {"frazil.attempt": work.attempt}
    if work.losses:
        summary["frazil.loss"] = describe_losses(work.losses)
    written = work.written
    landed = Landed(base=work.base, files=written.files, moves=work.moves, change=written.change, summary=summary)
    return await lake.committer.commit(landed) if written.touched is None else await commit_upsert(lake, landed, written.touched)


async def drop_orphans(lake: Lake, lost: Lost, *, deadline_ms: int) -> None:
    """Deletes the files of a lost slice, which the committer has shown to be in no snapshot and never to be."""
    if lost.orphans:
        await within(lake.objects.delete(lost.orphans), deadline_ms, "deleting files of a lost slice")


@dataclass(slots=True, kw_only=True)
class Pinner:
    """Keeps the table's pin: the lowest offset it still needs of each partition. May lag behind progress, never leads it (R18)."""

    store: MetadataStore | None
    """None: nobody removes what the table needs, or nobody would heed a pin."""
    table: str
    last: dict[PartitionKey, int] | None = None

    async def load(self) -> Mapping[PartitionKey, int]:
        """What the table has pinned, also in an earlier life of this process. Raises RetryLater, Corrupt."""
        if self.last is None:
            pin = None if self.store is None else await read_pin(self.store, self.table)
            self.last = {} if pin is None else dict(pin.offsets)
        return self.last

    async def pin(self, offsets: Mapping[PartitionKey, int], now_ms: int) -> None:
        """Writes the pin when it changed. Raises RetryLater."""
        if self.store is None or dict(offsets) == self.last:
            return
        await set_pin(self.store, self.table, dict(offsets), now_ms=now_ms)
        self.last = dict(offsets)
