"""Where the tables of a metastore are: wherever their pointer says; new ones below their database's location or the warehouse."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from frazil.catalogs.locations import canonical
from frazil.catalogs.pointers import Places
from frazil.catalogs.port import CatalogDeps, JsonObject, split_ident
from frazil.catalogs.storeaccess import store_opener
from frazil.catalogs.tablestore import Access, TableObjects
from frazil.kit.errors import Refused
from frazil.objects.port import ObjectStore

LocationOf = Callable[[str], Awaitable[str]]
"""Database → its location, empty when it has none."""
_ELSEWHERE: Final = ("write.data.path", "write.metadata.path", "write.object-storage.path")
_SCHEMES: Final = ("s3", "file")


class MetastorePlaces(Places):
    """See ``Places``. A metastore lends no keys: all tables are reached with the same ``options``."""

    def __init__(self, deps: CatalogDeps, options: Mapping[str, str], *, warehouse: str, location_of: LocationOf) -> None:
        self._store = TableObjects(store_opener(deps), deps.clock, _nothing_newer)
        self._access = (Access(prefix="", options=options),)
        self._warehouse = warehouse.rstrip("/")
        self._location_of = location_of

    @property
    def objects(self) -> ObjectStore:
        """See ``Places.objects``."""
        return self._store

    async def new(self, ident: str) -> str:
        """See ``Places.new``."""
        database, _ = split_ident(ident)
        location = (await self._location_of(database)).rstrip("/")
        if not location and not self._warehouse:
            raise Refused(f"table {ident}: database {database} has no location and the catalog no warehouse; set one (s3://bucket/path)")
        place = canonical(location or f"{self._warehouse}/{database}.db")
        if place.partition("://")[0] not in _SCHEMES:
            raise Refused(f"table {ident}: tables are written to s3:// and file:// only, not to {place[:200]}; set the warehouse")
        return place

    def learn(self, ident: str, metadata_location: str, metadata: JsonObject | None) -> None:
        """See ``Places.learn``."""
        folder = canonical(metadata_location).rpartition("/")[0].removesuffix("/metadata")
        found = [folder]
        if metadata is not None:
            properties = metadata.get("properties", {})
            found = [str(metadata["location"]), *(str(properties[name]) for name in _ELSEWHERE if properties.get(name)), folder]
        self._store.learn(ident, tuple(dict.fromkeys(map(canonical, found))), self._access)

    def forget(self, ident: str) -> None:
        """See ``Places.forget``."""
        self._store.forget(ident)

    async def reading(self, location: str) -> Mapping[str, str]:
        """See ``Places.reading``."""
        return await self._store.reading(location)


async def _nothing_newer(ident: str) -> None:
    raise Refused(f"table {ident}: the keys to its files are not lent by the catalog and cannot be renewed there")
