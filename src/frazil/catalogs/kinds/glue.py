"""The AWS Glue Data Catalog by its own API. A table's entry names its metadata file; versions of the entry decide between writers.

UpdateTable names the version that was read (``VersionId``): of two writers Glue refuses one. Old versions are not archived
(``SkipArchive``), or a table would run into Glue's limit of versions after some thousand commits (F60).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from frazil.catalogs.metastores.columns import Limits, shown_columns
from frazil.catalogs.metastores.glueapi import GlueApi
from frazil.catalogs.metastores.places import MetastorePlaces
from frazil.catalogs.metastores.properties import glue_properties
from frazil.catalogs.pointers import PointerCatalog, Pointers
from frazil.catalogs.port import Catalog, CatalogDeps, JsonObject, split_ident
from frazil.catalogs.rest.http import HttpxHttp
from frazil.kit.errors import Conflict, Missing, OutcomeUnknown, Refused

_NAME: Final = re.compile(r"[a-z0-9_]{1,252}")
_POINTER: Final = "metadata_location"
_BEFORE: Final = "previous_metadata_location"
_KIND: Final = "table_type"
_LIMITS: Final = Limits(comment=255, name=255, type_text=100_000, total=200_000)
_KEPT: Final = ("Description", "Owner", "Retention", "PartitionKeys", "TableType", "LastAccessTime", "TargetTable")
"""Members of an entry that an update must repeat, or Glue would drop them."""
_PAGES_MAX: Final = 10_000


class GluePointers(Pointers):
    """Entries of the Glue Data Catalog."""

    def __init__(self, api: GlueApi) -> None:
        self._api = api

    async def read(self, ident: str) -> str | None:
        """See ``Pointers.read``. Raises Refused for an entry that is no Iceberg table."""
        entry = await self._entry(ident)
        return None if entry is None else _pointer(ident, entry)

    async def swap(self, ident: str, old: str | None, new: str, table: JsonObject) -> bool:
        """See ``Pointers.swap``: one CreateTable, or one UpdateTable of the version that was read, decides."""
        if old is None:
            return await self._create(ident, new, table)
        entry = await self._entry(ident)
        if entry is None or _pointer(ident, entry) != old:
            return False
        version = entry.get("VersionId")
        if not version:
            raise Refused(f"table {ident}: Glue gives no VersionId of it, so a commit could overwrite another writer's")
        database, _ = _names(ident)
        body = {"DatabaseName": database, "TableInput": _input(ident, entry, old, new, table), "SkipArchive": True, "VersionId": version}
        try:
            await self._api.call("UpdateTable", body, what=f"committing to table {ident}", applying=True)
        except Conflict:
            return False
        return True

    async def names(self, namespace: str) -> tuple[str, ...]:
        """See ``Pointers.names``. Entries of other kinds of tables are left out."""
        found: list[str] = []
        body: dict[str, Any] = {"DatabaseName": namespace}
        for _ in range(_PAGES_MAX):
            try:
                page = await self._api.call("GetTables", body, what=f"listing tables of {namespace}")
            except Missing:
                return ()
            found += [f"{namespace}.{entry['Name']}" for entry in page.get("TableList") or () if _is_iceberg(entry)]
            if not page.get("NextToken"):
                return tuple(sorted(found))
            body["NextToken"] = page["NextToken"]
        raise Refused(f"listing tables of {namespace}: Glue gives more than {_PAGES_MAX} pages")

    async def forget(self, ident: str) -> bool:
        """See ``Pointers.forget``."""
        database, name = _names(ident)
        try:
            await self._api.call("DeleteTable", {"DatabaseName": database, "Name": name}, what=f"dropping table {ident}", applying=True)
        except Missing:
            return False
        return True

    async def close(self) -> None:
        """See ``Pointers.close``."""
        await self._api.close()

    async def location_of(self, database: str) -> str:
        """Where the database's tables go by its own word; empty when it says nothing or does not exist."""
        try:
            answer = await self._api.call("GetDatabase", {"Name": database}, what=f"asking for database {database}")
        except Missing:
            return ""
        return str(answer["Database"].get("LocationUri") or "")

    async def _entry(self, ident: str) -> Mapping[str, Any] | None:
        database, name = _names(ident)
        try:
            answer = await self._api.call("GetTable", {"DatabaseName": database, "Name": name}, what=f"loading table {ident}")
        except Missing:
            return None
        entry: Mapping[str, Any] = answer["Table"]
        return entry

    async def _create(self, ident: str, new: str, table: JsonObject) -> bool:
        database, _ = _names(ident)
        body = {"DatabaseName": database, "TableInput": _input(ident, {}, None, new, table)}
        what = f"creating table {ident}"
        try:
            try:
                await self._api.call("CreateTable", body, what=what, applying=True)
            except Missing:
                await self._make_database(database)
                await self._api.call("CreateTable", body, what=what, applying=True)
        except Conflict:
            return False
        except OutcomeUnknown:
            found = await self.read(ident)
            if found is None:
                raise
            return found == new
        return True

    async def _make_database(self, database: str) -> None:
        body = {"DatabaseInput": {"Name": database}}
        try:
            await self._api.call("CreateDatabase", body, what=f"creating database {database}", applying=True)
        except Conflict:
            return


def _names(ident: str) -> tuple[str, str]:
    """Database and table. Raises Refused for names that Glue's readers cannot use."""
    database, name = split_ident(ident)
    if not _NAME.fullmatch(database) or not _NAME.fullmatch(name):
        raise Refused(
            f"table {ident[:300]}: Glue takes database.table in lower-case letters, digits and '_', at most 252 characters each; "
            "give the topic a table of its own (frazil table create)"
        )
    return database, name


def _pointer(ident: str, entry: Mapping[str, Any]) -> str:
    if not _is_iceberg(entry):
        raise Refused(f"table {ident}: its entry in Glue is no Iceberg table; choose another name")
    return str(entry["Parameters"][_POINTER])


def _is_iceberg(entry: Mapping[str, Any]) -> bool:
    given = entry.get("Parameters") or {}
    return str(given.get(_KIND, "")).lower() == "iceberg" and bool(given.get(_POINTER))


def _input(ident: str, entry: Mapping[str, Any], old: str | None, new: str, table: JsonObject) -> dict[str, Any]:
    """The entry with the new pointer. What others wrote into it stays; progress and properties of the table are not copied (F60)."""
    _, name = _names(ident)
    kept = {member: entry[member] for member in _KEPT if member in entry}
    storage = {**(entry.get("StorageDescriptor") or {}), "Columns": _columns(table), "Location": table["location"]}
    pointers = {_KIND: "ICEBERG", _POINTER: new, **({_BEFORE: old} if old is not None else {})}
    return {
        "TableType": "EXTERNAL_TABLE",
        **kept,
        "Name": name,
        "Parameters": {**(entry.get("Parameters") or {}), **pointers},
        "StorageDescriptor": storage,
    }


def _columns(table: JsonObject) -> list[dict[str, Any]]:
    return [
        {
            "Name": column.name,
            "Type": column.type_text,
            **({"Comment": column.comment} if column.comment else {}),
            "Parameters": {
                "iceberg.field.id": str(column.field_id),
                "iceberg.field.optional": "false" if column.required else "true",
                "iceberg.field.current": "true",
            },
        }
        for column in shown_columns(table, _LIMITS)
    ]


def open_catalog(url: str, deps: CatalogDeps, properties: Mapping[str, str]) -> Catalog:
    """The Data Catalog of ``glue:`` (property ``glue.region``) or of ``glue+https://host``. Connects when it is first used.

    Raises Refused.
    """
    given = glue_properties(url, properties)
    pointers = GluePointers(GlueApi(given, HttpxHttp(ca_file=given.ca_file, proxy=given.proxy), offload=deps.offload))
    places = MetastorePlaces(deps, given.storage, warehouse=given.warehouse, location_of=pointers.location_of)
    return PointerCatalog(pointers, deps, places=places)
