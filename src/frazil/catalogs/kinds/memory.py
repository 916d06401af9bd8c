"""A catalog in memory: for tests, simulation and one-process trials. Its metadata files are real objects; only the names are not kept."""

from __future__ import annotations

import asyncio

from frazil.catalogs.pointers import PointerCatalog, Pointers
from frazil.catalogs.port import Catalog, CatalogDeps, JsonObject
from frazil.kit.errors import Refused


class MemoryPointers(Pointers):
    """The "server": several catalogs over one are several processes of one cluster."""

    def __init__(self) -> None:
        self._locations: dict[str, str] = {}

    async def read(self, ident: str) -> str | None:
        """See ``Pointers.read``."""
        await asyncio.sleep(0)  # every call is a point where others may run, as with a real catalog
        return self._locations.get(ident)

    async def swap(self, ident: str, old: str | None, new: str, table: JsonObject) -> bool:
        """See ``Pointers.swap``."""
        await asyncio.sleep(0)
        if self._locations.get(ident) != old:
            return False
        self._locations[ident] = new
        return True

    async def names(self, namespace: str) -> tuple[str, ...]:
        """See ``Pointers.names``."""
        await asyncio.sleep(0)
        return tuple(sorted(ident for ident in self._locations if ident.rpartition(".")[0] == namespace))

    async def forget(self, ident: str) -> bool:
        """See ``Pointers.forget``."""
        await asyncio.sleep(0)
        return self._locations.pop(ident, None) is not None


def open_catalog(url: str, deps: CatalogDeps) -> Catalog:
    """A new, empty catalog for ``memory:``. Share ``MemoryPointers`` to open the same one twice."""
    if url.rstrip("/") != "memory:":
        raise Refused(f"catalog url {url!r}: the memory catalog takes no path; write memory:")
    return PointerCatalog(MemoryPointers(), deps)
