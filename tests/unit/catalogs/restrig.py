"""Our REST client against the strict double: real sockets, real time, a warehouse on the local disk."""

from __future__ import annotations

import asyncio
import pathlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from tests.standins.rest_catalog import DoubleRules, RestCatalogDouble, Vend
from tests.unit.catalogs.rig import IDENT, SCHEMA, Rig, make

from frazil.catalogs import Catalog, CatalogDeps, CreateTable, open_catalog
from frazil.kit.clock import SystemClock
from frazil.kit.faultpoints import FaultPoints
from frazil.kit.tasks import InlineOffload
from frazil.objects.opening import open_objects

RULES = DoubleRules(client_id="an-id", client_secret="a-secret-text", scope="all-apis", prefix="main")
PROPERTIES = {"credential": "an-id:a-secret-text", "scope": "all-apis"}


def deps(seed: int = 3) -> CatalogDeps:
    offload, clock = InlineOffload(), SystemClock()
    objects = open_objects("memory:", offload=offload, clock=clock)
    return CatalogDeps(objects=objects, offload=offload, clock=clock, chance=random.Random(seed), faults=FaultPoints())


@asynccontextmanager
async def opened(double: RestCatalogDouble, properties: Mapping[str, str] | None = None, *, seed: int = 3) -> AsyncIterator[Catalog]:
    """A client of the double."""
    catalog = open_catalog(f"rest+{double.uri}", deps(seed), PROPERTIES if properties is None else properties)
    try:
        yield catalog
    finally:
        await catalog.close()


@asynccontextmanager
async def rigged(double: RestCatalogDouble, *, seed: int = 3, properties: Mapping[str, str] | None = None) -> AsyncIterator[Rig]:
    """Committer and file writer on the double; the table is made when absent."""
    async with opened(double, properties, seed=seed) as catalog:
        mine = replace(deps(seed), objects=catalog.objects or deps().objects)
        if IDENT not in await catalog.list("lake"):
            await catalog.create(IDENT, CreateTable(schema=SCHEMA))
        yield make(mine, catalog, seed=seed)


def with_double(
    path: pathlib.Path, work: Callable[[RestCatalogDouble], Awaitable[Any]], rules: DoubleRules = RULES, *, vend: Vend | None = None
) -> Any:
    """Runs ``work`` on a plain loop beside a fresh double."""

    async def run() -> Any:
        with RestCatalogDouble(path / "warehouse", rules, vend=vend) as double:
            return await work(double)

    return asyncio.run(run())
