"""Makes a snapshot ready to commit: writes its manifests, manifest list and progress object, and states requirements and updates.

Everything a commit needs is an object before the first request is sent, so that the same request can be sent again (R16). All names carry
the commit id; nothing is ever overwritten.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import crc32c

from frazil.catalogs.files import DataFile
from frazil.catalogs.lists import ManifestLists
from frazil.catalogs.locations import Locations, commit_id
from frazil.catalogs.manifests import (
    Manifest,
    ManifestCodec,
    ManifestSpec,
    assign_sequence,
    in_snapshot,
)
from frazil.catalogs.metadata_json import MAIN, check_writable, current_schema, partition_spec, ref_snapshot, snapshot_by_id
from frazil.catalogs.partition import schema_for_spec
from frazil.catalogs.port import CatalogDeps, JsonObject, LoadedTable
from frazil.catalogs.progress import (
    COMMIT_ID,
    LANDED_TAG,
    LAST_COMMIT,
    PROGRESS,
    RANGES,
    Move,
    Progress,
    ProgressObject,
    SourcePartition,
    encode_object,
    encode_ranges,
    encode_value,
    fits_inline,
    moved,
)
from frazil.catalogs.schema import SchemaChange
from frazil.catalogs.stored import check_data_file, put_checked
from frazil.kit.chance import UlidSource

_CHECKS_MAX: Final = 32
_INLINE_FILES: Final = 100
_TOTALS: Final = (
    "total-records",
    "total-data-files",
    "total-files-size",
    "total-delete-files",
    "total-position-deletes",
    "total-equality-deletes",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """One request, complete: it may be sent any number of times."""

    base: LoadedTable
    commit_id: str
    snapshot_id: int
    sequence: int
    asserted_head: int | None
    requirements: Sequence[JsonObject]
    updates: Sequence[JsonObject]
    progress: Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What a snapshot is about, before it has an identity."""

    operation: str
    files: Sequence[DataFile] = ()
    """Added files: data and deletes, of any partition spec."""
    removed: Sequence[DataFile] = ()
    """Files that are gone with this snapshot; ``rewritten`` says so."""
    sequence: int | None = None
    """Data sequence number of the added data files, when they stand for older ones (F51)."""
    snapshot_id: int | None = None
    """The snapshot's identity, when manifests that were written before name it."""
    rewritten: Sequence[Manifest] = ()
    """Manifests that are stored already and hold nothing but existing files."""
    replaced: frozenset[str] = frozenset()
    """Locations of the manifests that the rewritten ones stand for."""
    moves: Mapping[SourcePartition, Move] = field(default_factory=dict)
    change: SchemaChange | None = None
    summary: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    """Table properties that change with the snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Identity:
    commit_id: str
    snapshot_id: int
    sequence: int
    parent: JsonObject | None


class Snapshots:
    """Writes the objects of snapshots."""

    def __init__(self, deps: CatalogDeps, lists: ManifestLists, locations: Locations) -> None:
        self._deps = deps
        self._lists = lists
        self._locations = locations
        self._codec = ManifestCodec()
        self._ulids = UlidSource(deps.chance)

    async def prepare(self, base: LoadedTable, progress: Progress, draft: Draft) -> Prepared:
        """Writes manifests, list and progress of a snapshot on top of ``base``, whose progress is ``progress``.

        Raises Refused for a table of another format version, Corrupt when a data file is not whole in the store, RetryLater when an
        object could not be stored.
        """
        check_writable(base)
        await self._check_files(draft.files)
        identity = self._identify(base, draft.snapshot_id)
        reached = moved(progress, draft.moves)
        stored = await self._store_progress(base, identity, reached)
        lines = await self._manifests(base, identity, draft)
        list_location = f"{base.location}/metadata/snap-{identity.snapshot_id}-{identity.commit_id}.avro"
        parent_id = None if identity.parent is None else int(identity.parent["snapshot-id"])
        data = self._codec.manifest_list(
            list_location, lines, snapshot_id=identity.snapshot_id, parent_id=parent_id, sequence=identity.sequence
        )
        await put_checked(self._deps.objects, self._locations.key_of(list_location), data)
        self._lists.remember(list_location, lines)
        value = encode_value(identity.snapshot_id, identity.sequence, reached, stored)
        snapshot = self._snapshot(base, identity, draft, list_location)
        snapshot["summary"] = {**_summary(draft, identity), PROGRESS: value, COMMIT_ID: identity.commit_id}
        return Prepared(
            base=base,
            commit_id=identity.commit_id,
            snapshot_id=identity.snapshot_id,
            sequence=identity.sequence,
            asserted_head=parent_id,
            requirements=_requirements(base, parent_id, draft),
            updates=_updates(snapshot, draft, {**draft.properties, PROGRESS: value, LAST_COMMIT: identity.commit_id}),
            progress=reached,
        )

    def new_snapshot_id(self, base: LoadedTable) -> int:
        """An identity that no snapshot of the table has."""
        snapshot_id = self._deps.chance.getrandbits(63)
        while snapshot_id == 0 or snapshot_by_id(base.metadata, snapshot_id) is not None:
            snapshot_id = self._deps.chance.getrandbits(63)
        return snapshot_id

    async def _check_files(self, files: Sequence[DataFile]) -> None:
        """A slice over many partitions is thousands of files: a bounded number of requests is on its way at once (F72)."""
        waiting = iter(files)

        async def lane() -> None:
            for file in waiting:
                await check_data_file(self._deps.objects, self._locations, file)

        await asyncio.gather(*(lane() for _ in range(min(len(files), _CHECKS_MAX))))

    def _identify(self, base: LoadedTable, wanted: int | None) -> _Identity:
        sequence = int(base.metadata["last-sequence-number"]) + 1
        snapshot_id = wanted or self.new_snapshot_id(base)
        return _Identity(
            commit_id=commit_id(sequence, self._ulids.next(self._deps.clock.now_ms())),
            snapshot_id=snapshot_id,
            sequence=sequence,
            parent=snapshot_by_id(base.metadata, ref_snapshot(base.metadata, MAIN)),
        )

    async def _store_progress(self, base: LoadedTable, identity: _Identity, progress: Progress) -> ProgressObject | None:
        if fits_inline(progress):
            return None
        data = encode_object(progress)
        name = self._locations.side_name(f"metadata/frazil-progress-{identity.commit_id}.bin")
        await put_checked(self._deps.objects, self._locations.key_of(f"{base.location}/{name}"), data)
        return ProgressObject(name=name, length=len(data), crc=crc32c.crc32c(data))

    async def _manifests(self, base: LoadedTable, identity: _Identity, draft: Draft) -> tuple[Manifest, ...]:
        schema = draft.change.schema if draft.change else current_schema(base.metadata)
        fresh: list[Manifest] = []
        groups: dict[tuple[int, int], list[DataFile]] = {}
        for file in draft.files:
            kind = 1 if file.content else 0
            groups.setdefault((kind, file.spec_id), []).append(file)  # never under the table's present spec: that would mislabel them
        for (kind, spec_id), files in sorted(groups.items()):
            spec = partition_spec(base.metadata, spec_id)
            common = ManifestSpec(schema=schema_for_spec(base.metadata, spec, schema), spec=spec, content=kind)
            location = f"{base.location}/metadata/{identity.commit_id}-m{len(fresh)}.avro"
            sequence = None if kind else draft.sequence
            make = partial(self._codec.added, location, files, common, snapshot_id=identity.snapshot_id, sequence=sequence)
            # Thousands of files are seconds of encoding, in which other tables go on; a few are done before a thread has begun.
            data, line = await self._deps.offload.run(make) if len(files) > _INLINE_FILES else make()
            await put_checked(self._deps.objects, self._locations.key_of(location), data)
            fresh.append(assign_sequence(line, identity.sequence))
        fresh += [assign_sequence(in_snapshot(line, identity.snapshot_id), identity.sequence) for line in draft.rewritten]
        before = await self._lists.lines(identity.parent)
        return (*fresh, *(line for line in before if line.manifest_path not in draft.replaced))

    def _snapshot(self, base: LoadedTable, identity: _Identity, draft: Draft, list_location: str) -> dict[str, object]:
        schema = draft.change.schema if draft.change else current_schema(base.metadata)
        snapshot: dict[str, object] = {
            "snapshot-id": identity.snapshot_id,
            "sequence-number": identity.sequence,
            "timestamp-ms": max(self._deps.clock.now_ms(), int(base.metadata["last-updated-ms"])),  # never before its parent (F59)
            "manifest-list": list_location,
            "schema-id": schema["schema-id"],
        }
        if identity.parent is not None:
            snapshot["parent-snapshot-id"] = identity.parent["snapshot-id"]
        return snapshot


def _requirements(base: LoadedTable, parent_id: int | None, draft: Draft) -> list[JsonObject]:
    return [
        {"type": "assert-table-uuid", "uuid": base.uuid},
        {"type": "assert-ref-snapshot-id", "ref": MAIN, "snapshot-id": parent_id},
        *(draft.change.requirements() if draft.change else ()),
    ]


def _updates(snapshot: Mapping[str, object], draft: Draft, properties: Mapping[str, str]) -> list[JsonObject]:
    snapshot_id = snapshot["snapshot-id"]
    return [
        *(draft.change.updates() if draft.change else ()),
        {"action": "add-snapshot", "snapshot": snapshot},
        {"action": "set-snapshot-ref", "ref-name": MAIN, "type": "branch", "snapshot-id": snapshot_id},
        {"action": "set-snapshot-ref", "ref-name": LANDED_TAG, "type": "tag", "snapshot-id": snapshot_id},
        {"action": "set-properties", "updates": dict(properties)},
    ]


def _summary(draft: Draft, identity: _Identity) -> dict[str, str]:
    before = identity.parent.get("summary", {}) if identity.parent is not None else dict.fromkeys(_TOTALS, "0")
    totals = {name: str(before[name]) for name in _TOTALS if name in before}
    added, removed = _Sizes(draft.files), _Sizes(draft.removed)
    for name in totals:
        totals[name] = str(int(totals[name]) + added.total(name) - removed.total(name))
    summary = {"operation": draft.operation, **added.changes("added", "added"), **removed.changes("deleted", "removed")}
    if draft.rewritten:
        summary |= {"manifests-created": str(len(draft.rewritten)), "manifests-replaced": str(len(draft.replaced))}
    if draft.moves:
        summary[RANGES] = encode_ranges(draft.moves)
    return {**summary, **totals, **draft.summary}


class _Sizes:
    """What a snapshot adds or takes away, by the names of the specification's summary fields."""

    def __init__(self, files: Sequence[DataFile]) -> None:
        data, position, equality = ([file for file in files if file.content == content] for content in range(3))
        self._of = {
            "data-files": len(data),
            "records": _rows(data),
            "files-size": sum(file.size_bytes for file in files),
            "delete-files": len(position) + len(equality),
            "position-delete-files": len(position),
            "position-deletes": _rows(position),
            "equality-delete-files": len(equality),
            "equality-deletes": _rows(equality),
        }

    def total(self, name: str) -> int:
        return self._of[name.removeprefix("total-")]

    def changes(self, data_verb: str, verb: str) -> dict[str, str]:
        """Only what there is: an absent field is 0. Data files and records are "deleted", all others "removed"."""
        return {f"{data_verb if name in _DATA else verb}-{name}": str(count) for name, count in self._of.items() if count}


_DATA: Final = frozenset({"data-files", "records"})


def _rows(files: Sequence[DataFile]) -> int:
    return sum(file.record_count for file in files)
