"""A Hive metastore by thrift. A table's parameters name its metadata file; the metastore compares the old one when it is changed.

The comparison is HIVE-26882 (Hive 2.3.10, 4.0.0 and later): without it one writer could overwrite another's commit, so a metastore that
ignores it is refused before anything is committed there. Hive's lock is taken too, for writers that know nothing else.
"""

from __future__ import annotations

import contextlib
import getpass
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from hive_metastore.ttypes import (
    Database,
    EnvironmentContext,
    FieldSchema,
    GetTableRequest,
    GetTablesRequest,
    SerDeInfo,
    StorageDescriptor,
    Table,
)

from frazil.catalogs.metastores.columns import Limits, shown_columns
from frazil.catalogs.metastores.hiveapi import HiveApi
from frazil.catalogs.metastores.hivelocks import HiveLocks
from frazil.catalogs.metastores.places import MetastorePlaces
from frazil.catalogs.metastores.properties import HiveProperties, hive_properties
from frazil.catalogs.pointers import PointerCatalog, Pointers
from frazil.catalogs.port import Catalog, CatalogDeps, JsonObject, split_ident
from frazil.kit.clock import Clock
from frazil.kit.errors import Conflict, Missing, OutcomeUnknown, Refused

_NAME: Final = re.compile(r"[a-z0-9_]{1,128}")
_POINTER: Final = "metadata_location"
_BEFORE: Final = "previous_metadata_location"
_KIND: Final = "table_type"
_NEVER: Final = "frazil-asks-whether-this-is-compared"
_LIMITS: Final = Limits(comment=255, name=128, type_text=4_000, total=200_000, zoned="timestamp with local time zone")
_CHUNK: Final = 200
_FOREVER_S: Final = 2**31 - 1


class HivePointers(Pointers):
    """Tables of a Hive metastore."""

    def __init__(self, api: HiveApi, properties: HiveProperties, clock: Clock) -> None:
        self._api = api
        self._locks = HiveLocks(api, clock) if properties.locks else None
        self._warehouse = properties.warehouse.rstrip("/")
        self._clock = clock
        self._compares = False
        """It is known that the metastore compares the expected parameter."""

    async def read(self, ident: str) -> str | None:
        """See ``Pointers.read``. Raises Refused for a table that is no Iceberg table."""
        table = await self._table(ident)
        return None if table is None else _pointer(ident, table)

    async def swap(self, ident: str, old: str | None, new: str, table: JsonObject) -> bool:
        """See ``Pointers.swap``: create_table, or one alter_table that expects the old pointer, decides."""
        if old is None:
            return await self._create(ident, new, table)
        database, name = _names(ident)
        async with self._locks.held(database, name) if self._locks else contextlib.nullcontext():
            found = await self._table(ident)
            if found is None or _pointer(ident, found) != old:
                return False
            await self._make_sure(ident, found)
            changed = _changed(found, old, new, table)
            try:
                await self._alter(ident, changed, old, what=f"committing to table {ident}", applying=True)
            except (Conflict, Missing):
                return False
        return True

    async def names(self, namespace: str) -> tuple[str, ...]:
        """See ``Pointers.names``. Tables of other kinds are left out."""
        what = f"listing tables of {namespace}"
        try:
            names = await self._api.call(lambda client: client.get_all_tables(namespace), what=what)
        except Missing:
            return ()
        found: list[str] = []
        for at in range(0, len(names), _CHUNK):
            request = GetTablesRequest(dbName=namespace, tblNames=names[at : at + _CHUNK])
            answer = await self._api.call(_objects_of(request), what=what)
            found += [f"{namespace}.{table.tableName}" for table in answer.tables or () if _is_iceberg(table)]
        return tuple(sorted(found))

    async def forget(self, ident: str) -> bool:
        """See ``Pointers.forget``."""
        database, name = _names(ident)
        try:
            await self._api.call(lambda client: client.drop_table(database, name, False), what=f"dropping table {ident}", applying=True)  # noqa: FBT003
        except Missing:
            return False
        return True

    async def close(self) -> None:
        """See ``Pointers.close``."""
        await self._api.close()

    async def location_of(self, database: str) -> str:
        """Where the database's tables go by its own word. A missing database is made, for the metastore knows where it is then."""
        await self._make_database(database)
        found = await self._api.call(lambda client: client.get_database(database), what=f"asking for database {database}")
        return str(found.locationUri or "")

    async def _table(self, ident: str) -> Any:  # noqa: ANN401 - thrift has no types
        database, name = _names(ident)
        request = GetTableRequest(dbName=database, tblName=name)
        try:
            return (await self._api.call(lambda client: client.get_table_req(request), what=f"loading table {ident}")).table
        except Missing:
            return None

    async def _alter(self, ident: str, table: Any, expected: str, *, what: str, applying: bool) -> None:  # noqa: ANN401 - thrift has no types
        database, name = _names(ident)
        context = EnvironmentContext(
            properties={"expected_parameter_key": _POINTER, "expected_parameter_value": expected, "DO_NOT_UPDATE_STATS": "true"}
        )
        await self._api.call(
            lambda client: client.alter_table_with_environment_context(database, name, table, context), what=what, applying=applying
        )

    async def _make_sure(self, ident: str, found: Any) -> None:  # noqa: ANN401 - thrift has no types
        """Asks once, under the lock and with the table as it is: a wrong expectation must be refused."""
        if self._compares:
            return
        try:
            await self._alter(ident, found, _NEVER, what=f"asking how the metastore compares, with table {ident}", applying=False)
        except Conflict:
            self._compares = True
            return
        raise Refused(
            f"table {ident}: this metastore does not compare expected parameters (HIVE-26882), so a commit could overwrite another "
            "writer's; use Hive 2.3.10, 4.0.0 or later, or a REST catalog"
        )

    async def _create(self, ident: str, new: str, table: JsonObject) -> bool:
        given = _new_table(ident, new, table, now_s=self._clock.now_ms() // 1000)
        what = f"creating table {ident}"
        try:
            await self._api.call(lambda client: client.create_table(given), what=what, applying=True)
        except Conflict:
            return False
        except OutcomeUnknown:
            found = await self.read(ident)
            if found is None:
                raise
            return found == new
        return True

    async def _make_database(self, database: str) -> None:
        try:
            await self._api.call(lambda client: client.get_database(database), what=f"asking for database {database}")
            return
        except Missing:
            pass
        try:
            place = f"{self._warehouse}/{database}.db" if self._warehouse else None
            given = Database(name=database, locationUri=place, parameters={}, ownerName=getpass.getuser())
            await self._api.call(lambda client: client.create_database(given), what=f"creating database {database}", applying=True)
        except Conflict:
            return


def _objects_of(request: Any) -> Callable[[Any], Any]:  # noqa: ANN401 - thrift has no types
    return lambda client: client.get_table_objects_by_name_req(request)


def _names(ident: str) -> tuple[str, str]:
    database, name = split_ident(ident)
    if not _NAME.fullmatch(database) or not _NAME.fullmatch(name):
        raise Refused(
            f"table {ident[:300]}: a Hive metastore takes database.table in lower-case letters, digits and '_', at most 128 characters "
            "each; give the topic a table of its own (frazil table create)"
        )
    return database, name


def _pointer(ident: str, table: Any) -> str:  # noqa: ANN401 - thrift has no types
    if not _is_iceberg(table):
        raise Refused(f"table {ident}: it is no Iceberg table in the metastore; choose another name")
    return str(table.parameters[_POINTER])


def _is_iceberg(table: Any) -> bool:  # noqa: ANN401 - thrift has no types
    given = table.parameters or {}
    return str(given.get(_KIND, "")).lower() == "iceberg" and bool(given.get(_POINTER))


def _changed(found: Any, old: str, new: str, table: JsonObject) -> Any:  # noqa: ANN401 - thrift has no types
    """The table with the new pointer. What others wrote into it stays; properties of the Iceberg table are not copied (F60)."""
    found.parameters = {**(found.parameters or {}), _POINTER: new, _BEFORE: old}
    found.sd.cols = _columns(table)
    found.sd.location = table["location"]
    return found


def _columns(table: JsonObject) -> list[Any]:
    return [FieldSchema(name=column.name, type=column.type_text, comment=column.comment) for column in shown_columns(table, _LIMITS)]


def _new_table(ident: str, new: str, table: JsonObject, *, now_s: int) -> Any:  # noqa: ANN401 - thrift has no types
    database, name = _names(ident)
    storage = StorageDescriptor(
        cols=_columns(table),
        location=table["location"],
        inputFormat="org.apache.hadoop.mapred.FileInputFormat",
        outputFormat="org.apache.hadoop.mapred.FileOutputFormat",
        serdeInfo=SerDeInfo(serializationLib="org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"),
    )
    return Table(
        tableName=name,
        dbName=database,
        owner=getpass.getuser(),
        createTime=now_s,
        lastAccessTime=now_s,
        retention=_FOREVER_S,
        sd=storage,
        partitionKeys=[],
        parameters={"EXTERNAL": "TRUE", _KIND: "ICEBERG", _POINTER: new},
        tableType="EXTERNAL_TABLE",
    )


def open_catalog(url: str, deps: CatalogDeps, properties: Mapping[str, str]) -> Catalog:
    """The metastore at ``hive://host:9083``. Connects when it is first used. Raises Refused."""
    given = hive_properties(url, properties)
    pointers = HivePointers(HiveApi(given, deps.offload), given, deps.clock)
    places = MetastorePlaces(deps, given.storage, warehouse=given.warehouse, location_of=pointers.location_of)
    return PointerCatalog(pointers, deps, places=places)
