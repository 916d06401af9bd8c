"""A catalog under other names: for suites whose namespaces have levels, on catalogs whose namespaces have none or are shared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from frazil.catalogs.port import Catalog, CreateTable, JsonObject, LoadedTable, split_ident
from frazil.objects.port import ObjectStore


class Flattened(Catalog):
    """``a.b.t`` is ``{prefix}a__b.t`` below. Wrong names pass as they are, to be refused there."""

    def __init__(self, inner: Catalog, prefix: str = "", separator: str = "__") -> None:
        self._inner = inner
        self._prefix = prefix
        self._separator = separator

    def _name(self, ident: str) -> str:
        namespace, name = split_ident(ident)
        return f"{self._space(namespace)}.{name}"

    def _space(self, namespace: str) -> str:
        return self._prefix + namespace.replace(".", self._separator)

    async def load(self, ident: str) -> LoadedTable:
        return replace(await self._inner.load(self._name(ident)), ident=ident)

    async def create(self, ident: str, table: CreateTable) -> LoadedTable:
        return replace(await self._inner.create(self._name(ident), table), ident=ident)

    async def commit(self, ident: str, base: LoadedTable, requirements: Sequence[JsonObject], updates: Sequence[JsonObject]) -> LoadedTable:
        below = replace(base, ident=self._name(ident))
        return replace(await self._inner.commit(self._name(ident), below, requirements, updates), ident=ident)

    async def list(self, namespace: str) -> tuple[str, ...]:
        below = self._space(namespace)
        return tuple(f"{namespace}.{ident.removeprefix(below + '.')}" for ident in await self._inner.list(below))

    async def drop(self, ident: str) -> None:
        await self._inner.drop(self._name(ident))

    @property
    def objects(self) -> ObjectStore | None:
        return self._inner.objects

    async def reading(self, table: LoadedTable) -> Mapping[str, str]:
        return await self._inner.reading(table)

    async def close(self) -> None:
        await self._inner.close()
