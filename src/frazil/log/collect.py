"""Collection: commit records that are no longer needed, then the bundles themselves, then bundles that were never committed (R01).

Order is everything here. Producer states go into checkpoints before the commit records that built them go. Commit records go
only for closed bundles (at or below the horizon), because only then no further commit of them can come. The objects go a
grace later, for readers that still hold a ref. A bundle without any commit record goes only if it is closed, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from frazil.kit.chance import UlidSource, ulid_at
from frazil.kit.errors import Bug
from frazil.kit.names import PartitionKey
from frazil.log.condemned import Condemned, decode_condemned, encode_condemned
from frazil.log.horizon import raise_horizon, read_horizon
from frazil.log.producers import ProducerState, encode_checkpoint
from frazil.log.shards import COMMIT, CONDEMNED, producers_key
from frazil.log.upkeep import UpkeepDeps, UpkeepPolicy
from frazil.metadata import prefix_end
from frazil.metadata.port import Check, Entry, Moved, RangeDelete, Write
from frazil.segments.keys import bundle_key, bundle_ulid

RANGES_MAX: Final = 90
BUNDLES_MAX: Final = 5000
"""Bundles per transaction: their ULIDs must fit one condemned record."""
CHECKPOINT_ROUND_BYTES: Final = 400 * 1024
DELETE_KEYS_MAX: Final = 1000


@dataclass(slots=True)
class CollectReport:
    """What a pass did."""

    checkpoints: int = 0
    dropped_bundles: int = 0
    deleted_objects: int = 0
    orphans: int = 0


class Collector:
    """Any number of processes may collect at the same time."""

    def __init__(self, deps: UpkeepDeps, policy: UpkeepPolicy) -> None:
        if not deps.index.state.keeps_producers:
            raise Bug("an index without producers cannot write their checkpoint")
        self._deps = deps
        self._policy = policy
        self._ulids = UlidSource(deps.chance)
        self._orphans_at_ms = 0.0

    async def pass_once(self, *, orphans: bool | None = None) -> CollectReport:
        """Drops, deletes what was condemned long enough ago and, every ``orphan_interval_ms`` or when told, looks for orphans."""
        report = CollectReport()
        await self._deps.index.refresh()
        await self._drop(report)
        await self._delete_condemned(report)
        now = self._deps.clock.monotonic_ms()
        if orphans if orphans is not None else now >= self._orphans_at_ms:
            await self._delete_orphans(report)
            self._orphans_at_ms = now + self._policy.orphan_interval_ms
        return report

    async def _drop(self, report: CollectReport) -> None:
        """Commit records of closed bundles all of whose runs are sealed, below the log start, or of deleted topics."""
        closed = (await read_horizon(self._deps.store)).ulid
        await self._deps.index.refresh()  # after the horizon was read: no commit at or below it can come any more
        state = self._deps.index.state
        spent = sorted(ulid for ulid in state.spent if ulid <= closed)
        if not spent or not await self._checkpoint_all(report):
            return
        live = sorted(ulid for ulid in state.bundles if ulid <= closed)
        for at in range(0, len(spent), BUNDLES_MAX):
            await self._drop_some(spent[at : at + BUNDLES_MAX], live, report)
        await self._deps.index.refresh()

    async def _drop_some(self, spent: Sequence[str], live: Sequence[str], report: CollectReport) -> None:
        ranges = list(_ranges(spent, live))
        for at in range(0, len(ranges), RANGES_MAX):
            some = ranges[at : at + RANGES_MAX]
            ulids = tuple(ulid for first, last in some for ulid in spent if first <= ulid <= last)
            note = Condemned(since_ms=self._deps.clock.now_ms(), bundles=ulids)
            key = CONDEMNED + self._ulids.next(self._deps.clock.now_ms())
            deletes = [RangeDelete(start=f"{COMMIT}{first}/", end=f"{COMMIT}{last}0") for first, last in some]
            await self._deps.store.commit([], [Write(key=key, value=encode_condemned(note))], deletes)
            report.dropped_bundles += len(ulids)

    async def _checkpoint_all(self, report: CollectReport) -> bool:
        """A checkpoint of every shard that moved since its last one. False when somebody else wrote one meanwhile: next pass."""
        shards = [shard for shard in self._deps.index.state.shards if shard.version > shard.checkpoint]
        states = self._states({shard.number for shard in shards})
        now_ms = self._deps.clock.now_ms()
        checks: list[Check] = []
        writes: list[Write] = []
        size = 0
        values = [(shard, encode_checkpoint(shard.version, states[shard.number], now_ms=now_ms)) for shard in shards]
        for at, (shard, value) in enumerate(values):
            key = producers_key(shard.number)
            checks.append(Check(key=key, version=shard.checkpoint_entry))
            writes.append(Write(key=key, value=value))
            size += len(value)
            last = at + 1 == len(values)
            if last or len(writes) == RANGES_MAX or size + len(values[at + 1][1]) > CHECKPOINT_ROUND_BYTES:
                if isinstance(await self._deps.store.commit(checks, writes), Moved):
                    return False
                report.checkpoints += len(writes)
                checks, writes, size = [], [], 0
        return True

    def _states(self, shards: Iterable[int]) -> dict[int, list[tuple[PartitionKey, int, ProducerState]]]:
        """A copy of all producer states, by shard, as of now."""
        found: dict[int, list[tuple[PartitionKey, int, ProducerState]]] = {number: [] for number in shards}
        for partitions in self._deps.index.state.logs.values():
            for log in partitions.values():
                if log.shard in found:
                    found[log.shard] += [(log.key, producer_id, state) for producer_id, state in log.producers.items()]
        return found

    async def _delete_condemned(self, report: CollectReport) -> None:
        for entry in await self._condemned():
            record = decode_condemned(entry.value, where=entry.key)
            if record.since_ms + self._policy.grace_ms > self._deps.clock.now_ms():
                continue
            keys = [*map(bundle_key, record.bundles), *record.objects]
            for at in range(0, len(keys), DELETE_KEYS_MAX):
                await self._deps.objects.delete(keys[at : at + DELETE_KEYS_MAX])
            await self._deps.store.commit([Check(key=entry.key, version=entry.version)], [Write(key=entry.key, value=None)])
            report.deleted_objects += len(keys)

    async def _condemned(self) -> tuple[Entry, ...]:
        return (await self._deps.store.range(CONDEMNED, prefix_end(CONDEMNED))).entries

    async def _delete_orphans(self, report: CollectReport) -> None:
        """Bundles without a commit record, which can get none any more: R01's order is horizon, refs, delete."""
        closed = await self._close()
        await self._deps.index.refresh()
        state = self._deps.index.state
        kept = {*state.bundles, *state.spent}
        for entry in await self._condemned():
            kept.update(decode_condemned(entry.value, where=entry.key).bundles)
        orphans: list[str] = []
        async for info in self._deps.objects.list("bundles/"):
            ulid = bundle_ulid(info.key)
            if ulid is not None and ulid <= closed and ulid not in kept:
                orphans.append(info.key)
        for at in range(0, len(orphans), DELETE_KEYS_MAX):
            await self._deps.objects.delete(orphans[at : at + DELETE_KEYS_MAX])
        report.orphans += len(orphans)

    async def _close(self) -> str:
        """Raises the horizon: nobody can commit a bundle at or below it after this returns (R01)."""
        limit = ulid_at(max(self._deps.clock.now_ms() - min(self._policy.seal_age_ms, self._policy.close_age_ms), 0))
        return (await raise_horizon(self._deps.store, limit)).ulid


def _ranges(spent: Sequence[str], live: Sequence[str]) -> Iterable[tuple[str, str]]:
    """The fewest (first, last) that cover all of ``spent`` and nothing of ``live``; both sorted, and nothing else is closed."""
    at = 0
    first = last = ""
    for ulid in spent:
        while at < len(live) and live[at] < ulid:
            at += 1
            if first:
                yield first, last
                first = ""
        first = first or ulid
        last = ulid
    if first:
        yield first, last
