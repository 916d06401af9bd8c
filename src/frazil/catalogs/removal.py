"""Takes files out of a table: the manifests that name them, written again without them, ready for a commit."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from frazil.catalogs.commit import Committer
from frazil.catalogs.files import DataFile
from frazil.catalogs.live import Live, LiveFiles
from frazil.catalogs.manifests import Manifest, ManifestCodec, ManifestSpec
from frazil.catalogs.metadata_json import current_schema, partition_spec, snapshot_by_id
from frazil.catalogs.port import LoadedTable
from frazil.catalogs.stored import put_checked
from frazil.kit.chance import UlidSource

_DELETED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """Files that a snapshot removes. ``rewritten`` stand for the manifests ``replaced`` and name ``snapshot_id`` as who removed them."""

    snapshot_id: int
    files: tuple[DataFile, ...]
    rewritten: tuple[Manifest, ...]
    replaced: frozenset[str]


class Remover:
    """Writes such manifests. One that is never committed is nobody's, and care collects it."""

    def __init__(self, committer: Committer, files: LiveFiles) -> None:
        self._deps = committer.deps
        self._locations = committer.locations
        self._files = files
        self._codec = ManifestCodec()
        self._ulids = UlidSource(self._deps.chance)

    async def plan(self, table: LoadedTable, live: Live, paths: Collection[str]) -> Removal:
        """Removes the live files of these locations from the head that ``live`` was read of. Raises RetryLater, Corrupt."""
        gone = frozenset(paths)
        snapshot_id = self._deps.chance.getrandbits(62) + 1
        while snapshot_by_id(table.metadata, snapshot_id) is not None:
            snapshot_id = self._deps.chance.getrandbits(62) + 1
        lines = {live.holders[path].manifest_path: live.holders[path] for path in sorted(gone)}
        removed: list[DataFile] = []
        rewritten: list[Manifest] = []
        for line in lines.values():
            kept = [entry for entry in await self._files.entries(line) if entry.status != _DELETED]
            removed += [entry.file for entry in kept if entry.file.path in gone]
            common = ManifestSpec(
                schema=current_schema(table.metadata),
                spec=partition_spec(table.metadata, line.partition_spec_id),
                content=int(line.content),
            )
            # The name claims no sequence number: until the commit it is as good as another writer's file, with the long grace.
            location = f"{table.location}/metadata/rewritten-{self._ulids.next(self._deps.clock.now_ms())}.avro"
            data, made = await self._deps.offload.run(
                lambda location=location, kept=kept, common=common: self._codec.existing(  # type: ignore[misc]  # bound now
                    location, kept, common, snapshot_id=snapshot_id, removed=gone
                )
            )
            await put_checked(self._deps.objects, self._locations.key_of(location), data)
            rewritten.append(made)
        return Removal(snapshot_id=snapshot_id, files=tuple(removed), rewritten=tuple(rewritten), replaced=frozenset(lines))
