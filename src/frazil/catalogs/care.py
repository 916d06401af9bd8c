"""Keeps a table light while it grows: merges manifests, expires snapshots, and lets unreachable objects go after a grace (R17, R24).

Every step is its own commit or deletion and none is on the way of an append. A pass may stop anywhere: what it left is found by the next
one, because everything is decided from the table's metadata and from listings, and what was condemned is an object.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from frazil.catalogs.commit import Committer
from frazil.catalogs.condemned import KEYS_MAX, PREFIX, Condemned, read_list, write_list
from frazil.catalogs.history import Keep, expired, keeps_everything
from frazil.catalogs.locations import claimed_sequence, metadata_version
from frazil.catalogs.manifests import Entry, Manifest, ManifestCodec, ManifestSpec
from frazil.catalogs.metadata_json import MAIN, partition_spec, ref_snapshot, snapshot_by_id
from frazil.catalogs.partition import schema_for_spec
from frazil.catalogs.port import OWNS_LOCATION, LoadedTable
from frazil.catalogs.reach import Reach
from frazil.catalogs.scan import read_manifest
from frazil.catalogs.snapshots import Draft
from frazil.catalogs.stored import put_checked
from frazil.kit.chance import UlidSource
from frazil.kit.errors import Conflict, OutcomeUnknown

_DELETED: Final = 2
_DATA_CONTENT: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CareSettings:
    """How light the table is kept."""

    keep: Keep = field(default_factory=Keep)
    expire_batch: int = 10
    """Snapshots are expired when so many are due: one commit for ten."""
    manifests_max: int = 50
    """Manifests of the head above which the smallest are merged."""
    manifest_entries_max: int = 5_000
    """Files of one merged manifest; manifests more than half full are left alone."""
    delete_grace_ms: int = 24 * 3_600_000
    """Data files, and anything another writer made, go so long after they were seen unreachable: longer than the longest query."""
    metadata_grace_ms: int = 600_000
    """The same for our metadata files, manifest lists and manifests: longer than a reader needs to plan."""
    data_sweep_interval_ms: int = 3_600_000
    """How often data files are listed and compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CareReport:
    """What one pass did."""

    merged: int = 0
    """Manifests merged away."""
    expired: int = 0
    """Snapshots."""
    condemned: int = 0
    deleted: int = 0


class Care:
    """Care for tables of one committer's catalog. One pass at a time per table; passes may run beside commits."""

    def __init__(self, committer: Committer, settings: CareSettings | None = None) -> None:
        self._committer = committer
        self._settings = settings or CareSettings()
        self._deps = committer.deps
        self._reach = Reach(self._deps.objects, committer.locations, committer.lists)
        self._codec = ManifestCodec()
        self._ulids = UlidSource(self._deps.chance)
        self._data_swept_ms: dict[str, int] = {}

    async def pass_once(self, ident: str) -> CareReport:
        """One round: merge, expire, condemn, delete. Raises Missing, Corrupt, Refused; RetryLater: call again."""
        merged = await self.merge_manifests(ident)
        gone = await self.expire(ident)
        condemned, deleted = await self.sweep(ident)
        return CareReport(merged=merged, expired=gone, condemned=condemned, deleted=deleted)

    # --- manifests ---------------------------------------------------------------------------------------------------

    async def merge_manifests(self, ident: str) -> int:
        """Writes the smallest manifests of the head into few, as a REPLACE snapshot of their own. Returns how many were merged away.

        Files keep their sequence numbers and partition specs (F51). All reading and writing is done before the committer is asked.
        """
        table = await self._committer.catalog.load(ident)
        lines = await self._head_lines(table)
        groups = plan_merge(lines, self._settings)
        if not groups:
            return 0
        rewritten = [line for group in groups for line in await self._merge(table, group)]
        replaced = frozenset(line.manifest_path for group in groups for line in group)

        async def plan(newest: LoadedTable) -> Draft | None:
            present = {line.manifest_path for line in await self._head_lines(newest)}
            if newest.uuid != table.uuid or not replaced <= present:
                return None  # somebody rewrote them meanwhile; the next pass plans anew
            return Draft(operation="replace", rewritten=rewritten, replaced=replaced)

        committed = await self._committer.replace(ident, plan)
        return len(replaced) - len(rewritten) if committed is not None else 0

    async def _merge(self, table: LoadedTable, group: Sequence[Manifest]) -> list[Manifest]:
        entries: list[Entry] = []
        for line in group:
            read = await read_manifest(self._deps.objects, self._committer.locations, line)
            entries += [entry for entry in read if entry.status != _DELETED]
        if not entries:
            return []
        spec = partition_spec(table.metadata, group[0].partition_spec_id)
        common = ManifestSpec(schema=schema_for_spec(table.metadata, spec), spec=spec)
        # The name claims no sequence number: until the commit it is as good as another writer's file, with the long grace.
        location = f"{table.location}/metadata/merged-{self._ulids.next(self._deps.clock.now_ms())}.avro"
        data, line = await self._deps.offload.run(lambda: self._codec.existing(location, entries, common, snapshot_id=0))
        await put_checked(self._deps.objects, self._committer.locations.key_of(location), data)
        return [line]

    async def _head_lines(self, table: LoadedTable) -> tuple[Manifest, ...]:
        head = snapshot_by_id(table.metadata, ref_snapshot(table.metadata, MAIN))
        return await self._committer.lists.lines(head)

    # --- snapshots ---------------------------------------------------------------------------------------------------

    async def expire(self, ident: str) -> int:
        """Removes snapshots that are no longer kept from the metadata; their files stay for now. Returns how many."""
        table = await self._committer.catalog.load(ident)
        due = [] if keeps_everything(table.metadata) else expired(table.metadata, self._settings.keep)
        if len(due) < self._settings.expire_batch:
            return 0
        requirements = [{"type": "assert-table-uuid", "uuid": table.uuid}]
        updates = [{"action": "remove-snapshots", "snapshot-ids": due}]
        try:
            await self._committer.catalog.commit(ident, table, requirements, updates)
        except (Conflict, OutcomeUnknown):
            return 0  # the next pass sees what became of it
        return len(due)

    # --- objects -----------------------------------------------------------------------------------------------------

    async def sweep(self, ident: str) -> tuple[int, int]:
        """Condemns what is unreachable and deletes what still is after its grace. Returns (condemned, deleted).

        Only where the location was made for this table by us. Listed before the table is read: an object that appears later is not
        judged by an older table.
        """
        table = await self._committer.catalog.load(ident)
        if table.metadata.get("properties", {}).get(OWNS_LOCATION) != table.location or keeps_everything(table.metadata):
            return 0, 0  # made by somebody else, perhaps in a place that other tables share; or others than this metadata name its files
        prefix = self._committer.locations.key_of(table.location)
        listed = [info.key async for info in self._deps.objects.list(f"{prefix}/metadata/")]
        data_due = self._data_sweep_due(ident)
        data = [info.key async for info in self._deps.objects.list(f"{prefix}/data/")] if data_due else []
        lists = await self._condemned(listed)
        table = await self._committer.catalog.load(ident)
        if self._committer.locations.key_of(table.location) != prefix:
            return 0, 0  # re-created under our eyes
        # Decided once: a list that ripens while manifests are read must not be judged by what was read without it in mind.
        mature = [entry for entry in lists if self._mature(entry)]
        reachable = await self._reach.metadata_keys(table)
        if data_due or any(self._holds_data(entry, prefix) for entry in mature):
            reachable |= await self._reach.data_keys(table)
        reachable |= self._committer.held(ident)
        condemned = await self._condemn(table, prefix, [*listed, *data], lists, reachable)
        if data_due:
            self._data_swept_ms[ident] = self._deps.clock.now_ms()
        return condemned, await self._delete(mature, reachable)

    async def _condemned(self, listed: Iterable[str]) -> list[Condemned]:
        found = [await read_list(self._deps.objects, key) for key in listed if PREFIX in key.rpartition("/")[2]]
        return [entry for entry in found if entry is not None]

    async def _condemn(
        self, table: LoadedTable, prefix: str, listed: Sequence[str], lists: Sequence[Condemned], reachable: set[str]
    ) -> int:
        known = {key for entry in lists for key in entry.keys}
        now_ms = self._deps.clock.now_ms()
        due: dict[int, list[str]] = {}
        for key in listed:
            if key in reachable or key in known or PREFIX in key.rpartition("/")[2]:
                continue
            grace_ms = self._grace_ms(table, key, now_ms)
            if grace_ms is not None:
                due.setdefault(grace_ms, []).append(key)
        for grace_ms, keys in sorted(due.items()):
            for at in range(0, len(keys), KEYS_MAX):
                name = self._committer.locations.side_name(f"{prefix}/metadata/{PREFIX}{self._ulids.next(now_ms)}.json")
                part = keys[at : at + KEYS_MAX]
                await write_list(self._deps.objects, name, part, at_ms=now_ms, not_before_ms=now_ms + grace_ms)
        return sum(len(keys) for keys in due.values())

    def _grace_ms(self, table: LoadedTable, key: str, now_ms: int) -> int | None:
        """How long an unreachable object still stays; None: it may yet be committed."""
        sequence = claimed_sequence(key)
        if sequence is not None:
            return self._settings.metadata_grace_ms if sequence <= table.metadata["last-sequence-number"] else None
        version = metadata_version(key)
        if version >= 0:
            # Its swap expected the version before it to be current, which it is not any more.
            return self._settings.metadata_grace_ms if version <= metadata_version(table.metadata_location) else None
        return self._settings.delete_grace_ms

    async def _delete(self, mature: Sequence[Condemned], reachable: set[str]) -> int:
        deleted = 0
        for entry in mature:
            keys = sorted(entry.keys - reachable)
            await self._deps.objects.delete(keys)
            await self._deps.objects.delete([entry.key])  # last: a crash between leaves the list to be worked off again
            deleted += len(keys)
        return deleted

    def _mature(self, entry: Condemned) -> bool:
        return entry.not_before_ms <= self._deps.clock.now_ms()

    def _holds_data(self, entry: Condemned, prefix: str) -> bool:
        return any(not key.startswith(f"{prefix}/metadata/") for key in entry.keys)

    def _data_sweep_due(self, ident: str) -> bool:
        now_ms = self._deps.clock.now_ms()
        last_ms = self._data_swept_ms.setdefault(ident, now_ms)  # not at the first pass: every restart would list everything
        return now_ms - last_ms >= self._settings.data_sweep_interval_ms


def plan_merge(lines: Sequence[Manifest], settings: CareSettings) -> list[list[Manifest]]:
    """Groups of manifests to merge, each of one partition spec; none while the head has few enough.

    Smallest first, so that a file is rewritten a logarithmic number of times over a table's life.
    """
    data = [line for line in lines if int(line.content) == _DATA_CONTENT]
    if len(data) <= settings.manifests_max:
        return []
    small = [line for line in data if _files(line) * 2 <= settings.manifest_entries_max]
    wanted = len(data) - settings.manifests_max // 2
    groups: list[list[Manifest]] = []
    for line in sorted(small, key=_files)[:wanted]:
        _place(groups, line, settings.manifest_entries_max)
    return [group for group in groups if len(group) > 1]


def _place(groups: list[list[Manifest]], line: Manifest, entries_max: int) -> None:
    for group in groups:
        same = group[0].partition_spec_id == line.partition_spec_id
        if same and sum(_files(other) for other in group) + _files(line) <= entries_max:
            group.append(line)
            return
    groups.append([line])


def _files(line: Manifest) -> int:
    return (line.added_files_count or 0) + (line.existing_files_count or 0)
