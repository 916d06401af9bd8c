"""What the current metadata of a table refers to. Deleting is decided by reachability alone, never by age or by a name's look (F55)."""

from __future__ import annotations

from frazil.catalogs.lists import ManifestLists
from frazil.catalogs.locations import Locations
from frazil.catalogs.manifests import Manifest
from frazil.catalogs.port import LoadedTable
from frazil.catalogs.progress import PROGRESS, named_object
from frazil.catalogs.scan import read_manifest
from frazil.objects.port import ObjectStore

_DELETED = 2


class Reach:
    """Reachable keys of one table as of one metadata file."""

    def __init__(self, objects: ObjectStore, locations: Locations, lists: ManifestLists) -> None:
        self._objects = objects
        self._locations = locations
        self._lists = lists

    async def metadata_keys(self, table: LoadedTable) -> set[str]:
        """Metadata files, manifest lists, manifests, statistics and progress objects. Raises Corrupt, RetryLater."""
        metadata = table.metadata
        found = {table.metadata_location, *(str(entry["metadata-file"]) for entry in metadata.get("metadata-log", ()))}
        for key in ("statistics", "partition-statistics"):
            found |= {str(item["statistics-path"]) for item in metadata.get(key, ())}
        summaries = [snapshot.get("summary", {}) for snapshot in metadata.get("snapshots", ())]
        for summary in [*summaries, {PROGRESS: text} if (text := metadata.get("properties", {}).get(PROGRESS)) else {}]:
            if name := named_object(summary):
                found.add(f"{table.location}/{name}")
        for snapshot in metadata.get("snapshots", ()):
            found.add(str(snapshot["manifest-list"]))
        found |= {line.manifest_path for line in await self._manifests(table)}
        return self._keys(found)

    async def data_keys(self, table: LoadedTable) -> set[str]:
        """Data and delete files of every kept snapshot. Reads every manifest. Raises Corrupt, RetryLater."""
        found: set[str] = set()
        for line in await self._manifests(table):
            entries = await read_manifest(self._objects, self._locations, line)
            found |= {entry.file.path for entry in entries if entry.status != _DELETED}
        return self._keys(found)

    async def _manifests(self, table: LoadedTable) -> list[Manifest]:
        by_path: dict[str, Manifest] = {}
        for snapshot in table.metadata.get("snapshots", ()):
            for line in await self._lists.lines(snapshot):
                by_path[line.manifest_path] = line
        return list(by_path.values())

    def _keys(self, locations: set[str]) -> set[str]:
        return {key for location in locations if (key := self._locations.key(location)) is not None}
