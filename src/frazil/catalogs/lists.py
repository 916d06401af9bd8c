"""Manifest lists of snapshots, kept in memory: immutable, so each is read at most once and those we wrote never."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from frazil.catalogs.locations import Locations
from frazil.catalogs.manifests import Manifest, decode_manifest_list
from frazil.catalogs.port import JsonObject
from frazil.kit.errors import Corrupt, Missing
from frazil.objects.port import ObjectStore

LISTS_MAX: Final = 512


class ManifestLists:
    """Lines per manifest list location, least recently used dropped first."""

    def __init__(self, objects: ObjectStore, locations: Locations) -> None:
        self._objects = objects
        self._locations = locations
        self._kept: OrderedDict[str, tuple[Manifest, ...]] = OrderedDict()

    async def lines(self, snapshot: JsonObject | None) -> tuple[Manifest, ...]:
        """The manifests of a snapshot; none for no snapshot. Raises Corrupt when the list is missing or damaged, RetryLater."""
        if snapshot is None:
            return ()
        location = str(snapshot["manifest-list"])
        found = self._kept.get(location)
        if found is None:
            try:
                data = await self._objects.get(self._locations.key_of(location))
            except Missing as error:
                raise Corrupt("manifest list of a kept snapshot does not exist", where=location) from error
            found = decode_manifest_list(data, location)
        self.remember(location, found)
        return found

    def remember(self, location: str, lines: tuple[Manifest, ...]) -> None:
        """Keeps the lines of a list that was just written or read."""
        self._kept[location] = lines
        self._kept.move_to_end(location)
        if len(self._kept) > LISTS_MAX:
            self._kept.popitem(last=False)
