"""A catalog made of a table of pointers: all that a back-end has to add is one atomic compare-and-swap of a metadata location.

A commit writes the next ``metadata.json`` as a new object, then swaps the pointer. Whoever reads the pointer therefore always finds a
complete file; a swap that loses leaves an object that ``care`` collects.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from frazil.catalogs.locations import Locations, hex_of, metadata_key, metadata_version, uuid_of
from frazil.catalogs.metadata_json import apply_updates, check_requirements, laid_out, new_metadata
from frazil.catalogs.port import OWNS_LOCATION, Catalog, CatalogDeps, CreateTable, JsonObject, LoadedTable, split_ident
from frazil.catalogs.schema import new_schema
from frazil.kit.errors import Conflict, Corrupt, Missing, OutcomeUnknown, RetryLater
from frazil.objects.port import ObjectStore

DEFAULT_PROPERTIES: Final[Mapping[str, str]] = {
    "write.metadata.previous-versions-max": "20",
    "write.parquet.compression-codec": "zstd",
}
"""Twenty entries of metadata log keep every commit small; foreign writers keep to both."""
_SWAPS_MAX: Final = 5
_FOLDER_BYTES_MAX: Final = 200


class Pointers(Protocol):
    """Names and the metadata location each points at."""

    async def read(self, ident: str) -> str | None:
        """Where ``ident`` points, None when there is no such table. Raises RetryLater."""
        ...

    async def swap(self, ident: str, old: str | None, new: str, table: JsonObject) -> bool:
        """Points ``ident`` at ``new`` if it points at ``old`` (None: does not exist). False when it does not.

        ``table`` is the metadata at ``new``, for stores of pointers that show columns. Raises RetryLater when surely nothing changed,
        OutcomeUnknown otherwise, Refused for a name or a size that this store cannot hold.
        """
        ...

    async def names(self, namespace: str) -> tuple[str, ...]:
        """Idents of the namespace, in order."""
        ...

    async def forget(self, ident: str) -> bool:
        """Removes the name; False when there was none."""
        ...

    async def close(self) -> None:
        """Ends connections, if there are any."""
        return


class Places(Protocol):
    """Where tables' files are, for a catalog whose tables may be anywhere."""

    @property
    def objects(self) -> ObjectStore:
        """One store over all locations; its keys are locations."""
        ...

    async def new(self, ident: str) -> str:
        """Where a new table may be: a location below which its own folder is made. Raises Refused, RetryLater."""
        ...

    def learn(self, ident: str, metadata_location: str, metadata: JsonObject | None) -> None:
        """A table's files are about to be used; ``metadata`` is None while only the place of its metadata file is known."""
        ...

    def forget(self, ident: str) -> None:
        """The table is gone."""
        ...

    async def reading(self, location: str) -> Mapping[str, str]:
        """See ``Catalog.reading``."""
        ...


class PointerCatalog(Catalog):
    """See ``Catalog``. P4 is reached when a commit is about to be applied, P5 right after.

    Without ``places`` tables are in the process's own object store, below ``root``.
    """

    def __init__(self, pointers: Pointers, deps: CatalogDeps, *, root: str = "warehouse", places: Places | None = None) -> None:
        self._pointers = pointers
        self._deps = deps
        self._root = root
        self._places = places
        self._store = deps.objects if places is None else places.objects
        self._locations = Locations(self._store)
        self._newest: dict[str, LoadedTable] = {}
        self._texts: dict[str, dict[int, str]] = {}

    @property
    def objects(self) -> ObjectStore | None:
        """See ``Catalog.objects``."""
        return None if self._places is None else self._places.objects

    async def reading(self, table: LoadedTable) -> Mapping[str, str]:
        """See ``Catalog.reading``."""
        return {} if self._places is None else await self._places.reading(table.metadata_location)

    async def close(self) -> None:
        """See ``Catalog.close``."""
        await self._pointers.close()

    async def load(self, ident: str) -> LoadedTable:
        """See ``Catalog.load``."""
        split_ident(ident)
        location = await self._pointers.read(ident)
        if location is None:
            self._forget(ident)
            raise Missing(f"no table {ident}")
        return await self._read(ident, location)

    async def create(self, ident: str, table: CreateTable) -> LoadedTable:
        """See ``Catalog.create``."""
        split_ident(ident)
        if await self._pointers.read(ident) is not None:
            raise Conflict(f"table {ident} exists")
        chance = self._deps.chance
        key = await self._new_key(ident)
        location = self._locations.location(key)
        plain = new_metadata(
            table_uuid=uuid_of(chance),
            location=location,
            schema=new_schema(table.schema),
            properties={**DEFAULT_PROPERTIES, **table.properties, OWNS_LOCATION: location},
            now_ms=self._deps.clock.now_ms(),
        )
        metadata = laid_out(plain, table.partition_spec, table.sort_order)
        if self._places is not None:
            self._places.learn(ident, f"{location}/metadata/", metadata)
        written = await self._write(key, 0, metadata)
        if not await self._pointers.swap(ident, None, written, metadata):
            raise Conflict(f"table {ident} exists")
        return self._remember(ident, metadata, written)

    async def commit(self, ident: str, base: LoadedTable, requirements: Sequence[JsonObject], updates: Sequence[JsonObject]) -> LoadedTable:
        """See ``Catalog.commit``. When only something else moved meanwhile, the same request is applied to the newer metadata."""
        for _ in range(_SWAPS_MAX):
            pointer = await self._pointers.read(ident)
            if pointer is None:
                raise Missing(f"no table {ident}")
            current = base if pointer == base.metadata_location else await self._read(ident, pointer)
            check_requirements(current.metadata, requirements)
            metadata = apply_updates(
                current.metadata, updates, previous_location=current.metadata_location, now_ms=self._deps.clock.now_ms()
            )
            location = await self._write(
                self._locations.key_of(current.location), metadata_version(current.metadata_location) + 1, metadata
            )
            self._deps.faults.reach("P4")
            if await self._pointers.swap(ident, pointer, location, metadata):
                self._deps.faults.reach("P5")
                return self._remember(ident, metadata, location)
        raise RetryLater(f"table {ident}: others committed {_SWAPS_MAX} times meanwhile", after_ms=50)

    async def list(self, namespace: str) -> tuple[str, ...]:
        """See ``Catalog.list``."""
        return await self._pointers.names(namespace)

    async def drop(self, ident: str) -> None:
        """See ``Catalog.drop``."""
        self._forget(ident)
        if not await self._pointers.forget(ident):
            raise Missing(f"no table {ident}")

    async def _new_key(self, ident: str) -> str:
        """A folder that no other table has or had: leftovers of one that was dropped may still be on their way out."""
        namespace, name = split_ident(ident)
        folder = f"{_folder(name)}-{hex_of(self._deps.chance, 32)}"
        if self._places is not None:
            return f"{(await self._places.new(ident)).rstrip('/')}/{folder}"
        return "/".join((self._root, *map(_folder, namespace.split(".")), folder))

    def _forget(self, ident: str) -> None:
        dropped = self._newest.pop(ident, None)
        if dropped is not None:
            self._texts.pop(dropped.uuid, None)
        if self._places is not None:
            self._places.forget(ident)

    async def _write(self, table_key: str, version: int, metadata: Mapping[str, Any]) -> str:
        key = metadata_key(table_key, version, self._deps.chance)
        data = self._encode(metadata)
        try:
            await self._store.put_if_absent(key, data)
        except OutcomeUnknown as error:
            # An object nobody names yet changes nothing: the commit as a whole surely did not happen.
            raise RetryLater(f"{key}: {error}", after_ms=error.after_ms) from error
        stored = await self._store.get(key, start=max(0, len(data) - 1), end=len(data) + 1)
        if stored != data[-1:]:
            raise RetryLater(f"{key}: the store kept other bytes than were sent")  # F61: never point at a short file
        return self._locations.location(key)

    def _encode(self, metadata: Mapping[str, Any]) -> bytes:
        """The metadata as JSON. Snapshots never change, so the text of each is made once: they are nine tenths of the file."""
        uuid = str(metadata["table-uuid"])
        before, texts = self._texts.get(uuid, {}), {}
        for snapshot in metadata.get("snapshots", ()):
            number = int(snapshot["snapshot-id"])
            texts[number] = before.get(number) or _compact(snapshot)
        self._texts[uuid] = texts
        rest = _compact({key: value for key, value in metadata.items() if key != "snapshots"})
        return f'{rest[:-1]},"snapshots":[{",".join(texts.values())}]}}'.encode()

    async def _read(self, ident: str, location: str) -> LoadedTable:
        newest = self._newest.get(ident)
        if newest is not None and newest.metadata_location == location:
            return newest
        if self._places is not None:
            self._places.learn(ident, location, None)
        key = self._locations.key_of(location)
        try:
            data = await self._store.get(key)
        except Missing as error:
            raise Corrupt(f"table {ident} points at a metadata file that does not exist", where=location) from error
        try:
            metadata = json.loads(data)
        except ValueError as error:
            raise Corrupt(f"metadata of {ident} is not JSON: {error}", where=location) from error
        return self._remember(ident, metadata, location)

    def _remember(self, ident: str, metadata: Mapping[str, Any], location: str) -> LoadedTable:
        table = LoadedTable(ident=ident, metadata=metadata, metadata_location=location)
        self._newest[ident] = table
        if self._places is not None:
            self._places.learn(ident, location, metadata)
        return table


def _folder(name: str) -> str:
    """A name as part of a location. A topic may have 249 characters, and a file name at most 255 bytes, suffixes included."""
    return name.encode()[:_FOLDER_BYTES_MAX].decode(errors="ignore")


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
