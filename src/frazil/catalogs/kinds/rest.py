"""Any catalog that speaks the Iceberg REST protocol. Its server keeps the metadata files; requirements and updates go to it as they are.

Where a table's files are is the server's decision, and how they are reached may be too (vended credentials), so this catalog has an
object store of its own, see ``objects``. A commit whose answer is lost is reported as unknown and never repeated here: deciding about
it is the committer's (R16).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from frazil.catalogs.locations import canonical, hex_of
from frazil.catalogs.pointers import DEFAULT_PROPERTIES
from frazil.catalogs.port import OWNS_LOCATION, Catalog, CatalogDeps, CreateTable, JsonObject, LoadedTable, split_ident
from frazil.catalogs.rest.client import COMMIT_ENDPOINT, CREATE_ENDPOINT, CREDENTIALS_ENDPOINT, Call, RestClient
from frazil.catalogs.rest.http import HttpxHttp
from frazil.catalogs.rest.properties import RestProperties, rest_properties
from frazil.catalogs.rest.vended import DELEGATION, accesses_of
from frazil.catalogs.schema import new_schema
from frazil.catalogs.storeaccess import store_opener
from frazil.catalogs.tablestore import OpenStore, TableObjects
from frazil.kit.errors import Conflict, Missing, OutcomeUnknown, Refused, RetryLater
from frazil.objects.port import ObjectStore

_LOG: Final = logging.getLogger("frazil.catalogs")
CREATE_ID: Final = "frazil.create-id"
"""Table property: tells our own create whose answer was lost from somebody else's."""
_PAGES_MAX: Final = 10_000
_EMPTY: Final[Mapping[str, Any]] = {
    "properties": {},
    "snapshots": [],
    "snapshot-log": [],
    "metadata-log": [],
    "refs": {},
    "last-sequence-number": 0,
}


class RestCatalog(Catalog):
    """See ``Catalog``. P4 is reached when a commit is about to be sent, P5 when its answer is there."""

    def __init__(self, client: RestClient, deps: CatalogDeps, open_store: OpenStore) -> None:
        self._client = client
        self._deps = deps
        self._objects = TableObjects(open_store, deps.clock, self._renew_access)
        self._locations: dict[str, tuple[str, ...]] = {}
        self._configs: dict[str, Any] = {}
        """``config`` of each table's last load: an answer with credentials alone does not repeat it."""

    @property
    def objects(self) -> ObjectStore:
        """See ``Catalog.objects``."""
        return self._objects

    async def load(self, ident: str) -> LoadedTable:
        """See ``Catalog.load``."""
        path = await self._client.table_path(ident)
        call = Call(method="GET", path=path, headers=self._delegation(), what=f"loading table {ident}")
        try:
            result = await self._client.send(call)
        except Missing:
            self._objects.forget(ident)
            raise
        return await self._take(ident, result)

    async def create(self, ident: str, table: CreateTable) -> LoadedTable:
        """See ``Catalog.create``. The catalog chooses the location."""
        namespace, name = split_ident(ident)
        await self._check_offered(CREATE_ENDPOINT, f"creating table {ident}")
        create_id = hex_of(self._deps.chance, 64)
        body = {
            "name": name,
            "schema": new_schema(table.schema),
            "partition-spec": table.partition_spec,
            "write-order": table.sort_order,
            "stage-create": False,
            "properties": {"format-version": "2", **DEFAULT_PROPERTIES, **table.properties, CREATE_ID: create_id},
        }
        path = f"{await self._client.namespace_path(namespace)}/tables"
        call = Call(method="POST", path=path, body=body, headers=self._delegation(), what=f"creating table {ident}")
        try:
            made = await self._made(ident, call, create_id)
        except (Missing, Conflict) as error:
            # Nessie says 409 of a namespace that is not there.
            if isinstance(error, Conflict) and await self._found(ident) is not None:
                raise
            await self._make_namespace(namespace)
            made = await self._made(ident, call, create_id)
        return await self._own(made)

    async def commit(self, ident: str, base: LoadedTable, requirements: Sequence[JsonObject], updates: Sequence[JsonObject]) -> LoadedTable:
        """See ``Catalog.commit``."""
        namespace, name = split_ident(ident)
        await self._check_offered(COMMIT_ENDPOINT, f"committing to table {ident}")
        body = {
            "identifier": {"namespace": namespace.split("."), "name": name},
            "requirements": list(requirements),
            "updates": list(updates),
        }
        path = await self._client.table_path(ident)
        self._deps.faults.reach("P4")
        result = await self._client.send(Call(method="POST", path=path, body=body, what=f"committing to table {ident}"))
        self._deps.faults.reach("P5")
        try:
            return _loaded(ident, result)
        except Refused as error:  # applied, but not told as the protocol has it
            raise OutcomeUnknown(str(error)) from error

    async def list(self, namespace: str) -> tuple[str, ...]:
        """See ``Catalog.list``."""
        path = f"{await self._client.namespace_path(namespace)}/tables"
        names: list[str] = []
        token = ""
        for _ in range(_PAGES_MAX):
            query = {"pageToken": token} if token else {}
            try:
                page = await self._client.send(Call(method="GET", path=path, query=query, what=f"listing tables of {namespace}"))
            except Missing:
                return ()
            names += [f"{'.'.join(item['namespace'])}.{item['name']}" for item in page.get("identifiers") or ()]
            token = str(page.get("next-page-token") or "")
            if not token:
                return tuple(sorted(name for name in names if name.rpartition(".")[0] == namespace))
        raise Refused(f"listing tables of {namespace}: the catalog gives more than {_PAGES_MAX} pages")

    async def drop(self, ident: str) -> None:
        """See ``Catalog.drop``."""
        path = await self._client.table_path(ident)
        await self._client.send(Call(method="DELETE", path=path, query={"purgeRequested": "false"}, what=f"dropping table {ident}"))
        self._objects.forget(ident)

    async def unfit(self) -> str:
        """See ``Catalog.unfit``."""
        return _without(COMMIT_ENDPOINT) if (await self._client.config()).lacks(COMMIT_ENDPOINT) else ""

    async def reading(self, table: LoadedTable) -> Mapping[str, str]:
        """See ``Catalog.reading``."""
        return await self._objects.reading(table.metadata_location)

    async def close(self) -> None:
        """See ``Catalog.close``."""
        await self._client.close()

    async def _check_offered(self, endpoint: str, what: str) -> None:
        """Raises Refused when the catalog says that it does not offer this (F67)."""
        if (await self._client.config()).lacks(endpoint):
            raise Refused(f"{what}: {_without(endpoint)}")

    # --- making tables -----------------------------------------------------------------------------------------------

    async def _made(self, ident: str, call: Call, create_id: str) -> LoadedTable:
        """The table, also when the answer was lost but the table is there with our mark."""
        try:
            return await self._take(ident, await self._client.send(call))
        except OutcomeUnknown:
            found = await self._found(ident)
            if found is None or found.metadata["properties"].get(CREATE_ID) != create_id:
                raise
            return found

    async def _found(self, ident: str) -> LoadedTable | None:
        try:
            return await self.load(ident)
        except (Missing, RetryLater):
            return None

    async def _make_namespace(self, namespace: str) -> None:
        """The namespace and those above it; one that is there already is fine."""
        levels = namespace.split(".")
        for depth in range(1, len(levels) + 1):
            body = {"namespace": levels[:depth], "properties": {}}
            what = f"creating namespace {'.'.join(levels[:depth])}"
            try:
                await self._client.send(Call(method="POST", path="namespaces", body=body, what=what))
            except Conflict:
                continue

    async def _own(self, made: LoadedTable) -> LoadedTable:
        """Notes in the table that its location is its own, if nothing else is there.

        Catalogs reuse locations: of a table that was dropped without its files, or one that was renamed and lives on. Where other files
        are found, care never judges files that no metadata names.
        """
        if not await self._alone(made):
            return made
        update = {"action": "set-properties", "updates": {OWNS_LOCATION: made.location}}
        try:
            return await self.commit(made.ident, made, [{"type": "assert-table-uuid", "uuid": made.uuid}], [update])
        except RetryLater:
            return await self.load(made.ident)  # whether it was set is seen there; without it the table only keeps more files

    async def _alone(self, made: LoadedTable) -> bool:
        """Whether nothing but the table's first metadata file (and Hadoop's checksum of it, on a disk) is in its location."""
        first = canonical(made.metadata_location)
        folder, _, name = first.rpartition("/")
        known = (first, f"{folder}/.{name}.crc")
        try:
            async for info in self._objects.list(f"{made.location.rstrip('/')}/"):
                if info.key not in known:
                    _LOG.warning(
                        "table %s: its location %s holds other files; old files of it are never deleted", made.ident, made.location
                    )
                    return False
        except (Refused, RetryLater) as error:
            _LOG.warning("table %s: its location cannot be listed, so old files of it are never deleted: %s", made.ident, error)
            return False
        return True

    # --- loading -----------------------------------------------------------------------------------------------------

    def _delegation(self) -> Mapping[str, str]:
        return DELEGATION if self._client.properties.vended else {}

    async def _take(self, ident: str, result: Mapping[str, Any]) -> LoadedTable:
        lacks = (await self._client.config()).lacks(COMMIT_ENDPOINT)
        table = replace(_loaded(ident, result), read_only=_without(COMMIT_ENDPOINT) if lacks else "")
        properties = table.metadata["properties"]
        others = (properties.get(name) for name in ("write.data.path", "write.metadata.path", "write.object-storage.path"))
        self._locations[ident] = (table.location, *(str(place) for place in others if place))
        self._configs[ident] = result.get("config")
        await self._learn(ident, result)
        return table

    async def _learn(self, ident: str, result: Mapping[str, Any]) -> None:
        locations = self._locations[ident]
        accesses = accesses_of(result, locations[0], (await self._client.config()).storage)
        if self._objects.learn(ident, locations, accesses):
            secrets = (text for access in accesses for name, text in access.options.items() if _secret(name))
            self._client.words.hide(f"table {ident}", *secrets)

    async def _renew_access(self, ident: str) -> None:
        """New credentials: from the endpoint for them where the catalog has it, else with the table itself."""
        config = await self._client.config()
        if CREDENTIALS_ENDPOINT not in config.endpoints:
            await self.load(ident)
            return
        path = f"{await self._client.table_path(ident)}/credentials"
        call = Call(method="GET", path=path, headers=self._delegation(), what=f"asking for access to the files of {ident}")
        await self._learn(ident, {"config": self._configs.get(ident), **await self._client.send(call)})


def _loaded(ident: str, result: Mapping[str, Any]) -> LoadedTable:
    metadata, location = result.get("metadata"), result.get("metadata-location")
    if not isinstance(metadata, Mapping) or not isinstance(location, str):
        raise Refused(f"table {ident}: the catalog's answer has no metadata or no metadata-location")
    return LoadedTable(ident=ident, metadata=normal(metadata), metadata_location=location)


def _without(endpoint: str) -> str:
    return f"this catalog is read-only for Iceberg clients: it does not offer {endpoint}; use one that takes commits"


def normal(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """Metadata without nulls and with the fields that the specification lets a server leave out; −1 as current snapshot is none."""
    given = {key: value for key, value in metadata.items() if value is not None}
    if given.get("current-snapshot-id") == -1:
        del given["current-snapshot-id"]
    return {**_EMPTY, **given}


def _secret(name: str) -> bool:
    return any(word in name for word in ("secret", "token", "access-key-id"))


def open_catalog(url: str, deps: CatalogDeps, properties: Mapping[str, str]) -> Catalog:
    """The catalog at ``rest+https://host/path`` (the part before ``/v1``). Connects when it is first used. Raises Refused."""
    given: RestProperties = rest_properties(url, properties)

    http = HttpxHttp(ca_file=given.ca_file, proxy=given.proxy)
    return RestCatalog(RestClient(given, http, clock=deps.clock, offload=deps.offload), deps, store_opener(deps))
