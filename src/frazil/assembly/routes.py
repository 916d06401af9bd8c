"""What the table verbs know of routes: the tables a route feeds, the route that feeds a table."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from frazil.admin.port import FedTable
from frazil.catalogs.port import Catalog, LoadedTable
from frazil.kit.errors import FrazilError, Missing
from frazil.landing.identity import ROUTE_PROPERTY
from frazil.landing.routing import OPTION
from frazil.metadata.landings import LandingSpec, dead_table, get_landing
from frazil.metadata.port import MetadataStore
from frazil.metadata.routes import RouteTable, list_route_tables

_AT_ONCE: Final = 16
_COUNTED_MAX: Final = 200
"""Tables whose rows are asked of the catalog; the others are only named."""


async def is_route(store: MetadataStore, table: str) -> bool:
    """Whether the landing of this name is a route. Raises RetryLater."""
    spec = await get_landing(store, table)
    return spec is not None and OPTION in spec.options


async def feeder(store: MetadataStore, table: str) -> LandingSpec | None:
    """The route that feeds a table. Raises RetryLater."""
    for fed in await list_route_tables(store):
        if fed.table == table:
            return await get_landing(store, fed.route)
    return None


async def count_fed(catalog: Catalog, feeds: Sequence[RouteTable]) -> tuple[FedTable, ...]:
    """The tables with their rows."""
    turns = asyncio.Semaphore(_AT_ONCE)

    async def count(table: str) -> int | None:
        async with turns:
            try:
                return _rows((await catalog.load(table)).metadata)
            except FrazilError:
                return None

    counts: list[int | None] = list(await asyncio.gather(*(count(fed.table) for fed in feeds[:_COUNTED_MAX])))
    counts += [None] * (len(feeds) - len(counts))
    return tuple(FedTable(table=fed.table, value=fed.value, rows=rows) for fed, rows in zip(feeds, counts, strict=True))


async def made_by_route(catalog: Catalog, route: str, feeds: Sequence[RouteTable]) -> tuple[str, ...]:
    """The tables that are there and were made by the route, its home among them. Raises RetryLater."""
    found = []
    for ident in (dead_table(route), *(fed.table for fed in feeds)):
        try:
            table: LoadedTable = await catalog.load(ident)
        except Missing:
            continue
        if table.metadata.get("properties", {}).get(ROUTE_PROPERTY) == route:
            found.append(ident)
    return tuple(found)


def _rows(metadata: Any) -> int:  # noqa: ANN401 - table metadata as JSON
    head = metadata.get("current-snapshot-id")
    return sum(
        int(snapshot.get("summary", {}).get("total-records", "0"))
        for snapshot in metadata.get("snapshots", [])
        if snapshot["snapshot-id"] == head
    )
