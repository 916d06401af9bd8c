"""A table by name, and whether it still is the one it was: by uuid, by its manifest, by the route that feeds it (F58, R35, R07)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from frazil.catalogs.port import CreateTable, LoadedTable
from frazil.kit.errors import Conflict, Missing, Refused
from frazil.landing.lake import Lake, within
from frazil.landing.settings import LandingDeps, LandingSettings
from frazil.metadata.landedtables import get_table_uuid, put_table_uuid
from frazil.metadata.landings import LandingSpec

MANIFEST_PROPERTY: Final = "frazil.manifest"
"""Table property: the manifest whose landing made the table. Two that write one table are refused (R35), wherever they run."""
ROUTE_PROPERTY: Final = "frazil.route"
"""Table property: the route that made the table, and so who alone writes it (R07)."""
ROUTE_VALUE_PROPERTY: Final = "frazil.route-value"
"""Table property: the value whose records a route's pattern has named the table for."""
_WAYS: Final = "set the landing's option recreated=fill to fill a new table from the log start, or bring the old one back"


class NamedTable:
    """Loads and creates one table of a landing. ``marks``: properties that it is made with, and that say whose it is."""

    def __init__(
        self, ident: str, spec: LandingSpec, lake: Lake, deps: LandingDeps, settings: LandingSettings, *, marks: Mapping[str, str]
    ) -> None:
        self.ident = ident
        self._lake = lake
        self._deps = deps
        self._deadline_ms = settings.call_deadline_ms
        self._accepts_another = spec.options.get("recreated") == "fill"
        self._marks = dict(marks)
        if "manifest" in spec.options:
            self._marks[MANIFEST_PROPERTY] = spec.options["manifest"]
        self._uuid: str | None = None
        self._asked_uuid = False

    async def load(self) -> LoadedTable | None:
        """The table as it is now, None when it was never there. Raises Refused when it was dropped or exchanged, or is another's."""
        if not self._asked_uuid:
            self._uuid = await get_table_uuid(self._deps.store, self._deps.label + self.ident)
            self._asked_uuid = True
        try:
            table = await within(self._lake.catalog.load(self.ident), self._deadline_ms, "loading the table")
        except Missing:
            if self._uuid is None or self._accepts_another:
                return None
            raise Refused(f"table {self.ident} is gone ({self._uuid}); {_WAYS}") from None
        await self._recognise(table)
        return table

    async def create(self, creation: CreateTable) -> LoadedTable:
        """Makes the table, or takes the one somebody made meanwhile."""
        marked = replace(creation, properties={**creation.properties, **self._marks})
        try:
            table = await within(self._lake.catalog.create(self.ident, marked), self._deadline_ms, "creating the table")
        except Conflict:
            table = await within(self._lake.catalog.load(self.ident), self._deadline_ms, "loading the table")
        await self._recognise(table)
        return table

    async def _recognise(self, table: LoadedTable) -> None:
        properties = table.metadata.get("properties", {})
        route, ours = properties.get(ROUTE_PROPERTY, ""), self._marks.get(ROUTE_PROPERTY, "")
        if route and route != ours:
            raise Refused(
                f"table {self.ident} is fed by route {route}, and nobody else may write it; choose another table, or take the table's "
                f"property {ROUTE_PROPERTY} away"
            )
        value, wanted = properties.get(ROUTE_VALUE_PROPERTY), self._marks.get(ROUTE_VALUE_PROPERTY)
        if value is not None and wanted is not None and value != wanted:
            raise Refused(f"table {self.ident} holds the records of {value!r}, those of {wanted!r} may not join them")
        if table.uuid == self._uuid:
            return
        if self._uuid is not None and not self._accepts_another:
            raise Refused(f"table {self.ident} was made anew ({self._uuid} is now {table.uuid}); {_WAYS}")
        owner, manifest = properties.get(MANIFEST_PROPERTY, ""), self._marks.get(MANIFEST_PROPERTY, "")
        if owner and manifest and owner != manifest:
            raise Refused(
                f"table {self.ident} is written by manifest {owner}, and {manifest} would write it too (R35); choose another table, "
                f"or take the table's property {MANIFEST_PROPERTY} away"
            )
        await put_table_uuid(self._deps.store, self._deps.label + self.ident, table.uuid)
        self._uuid = table.uuid
