"""What tests of routes share: a route over field ``type``, records for it, and the judgement that each record is where it belongs, once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.unit.landing.world import World

from frazil.catalogs.port import Catalog, CreateTable, JsonObject, LoadedTable
from frazil.catalogs.progress import read_progress
from frazil.kit.errors import Missing
from frazil.metadata.landings import LandingSpec, put_landing
from frazil.metadata.routes import list_route_tables

ROUTE = "lake.events"
HOME = "lake.events_dead"


def event(number: int, kind: object, **more: object) -> bytes:
    return json.dumps({"n": number, "type": kind, **more}).encode()


def spec(*, topics: Sequence[str] = ("t",), value: str = "json", **options: str) -> LandingSpec:
    """``route__map=…`` is the option ``route.map``; an empty text takes a default away."""
    given = {"route": "field:type", "route.table": "lake.e_{}"} | {name.replace("__", "."): text for name, text in options.items()}
    kept = {name: text for name, text in given.items() if text}
    return LandingSpec(table=ROUTE, topics=tuple(topics), value=value, commit_interval_ms=1_000, options=kept)


async def started(world: World, landing: LandingSpec | None = None, *, partitions: int = 1) -> None:
    for topic in (landing or spec()).topics:
        await world.topics.create(topic, partitions)
    await put_landing(world.store, landing or spec())


@dataclass
class Sent:
    """What was produced: (partition, offset) → the table it belongs in, empty: the dead letters."""

    world: World
    where: dict[tuple[int, int], str] = field(default_factory=dict)

    async def send(self, kinds: Sequence[str], *, partition: int = 0) -> None:
        """One batch with a record per kind; ``!x`` is a record that the table of ``x`` cannot take, ``?`` no JSON at all."""
        values = [_value(len(self.where) + at, kind) for at, kind in enumerate(kinds)]
        offsets = await self.world.produce("t", values, partition=partition)
        for kind, offset in zip(kinds, offsets, strict=True):
            self.where[partition, offset] = "" if kind[0] in "!?" else f"lake.e_{kind}"

    async def check(self, *, missing_from: Sequence[str] = ()) -> None:
        """Each record once, in its place; nothing anywhere else. ``missing_from``: tables of which nothing is asked but no doubles."""
        for table in {*self.where.values(), *(one.table for one in await list_route_tables(self.world.store, ROUTE))} - {""}:
            wanted = {at for at, place in self.where.items() if place == table}
            rows = Counter((row["_kafka_partition"], row["_offset"]) for row in await rows_of(self.world, table))
            assert max(rows.values(), default=1) == 1, (table, rows)
            assert set(rows) <= wanted, (table, sorted(set(rows) - wanted))
            if table not in missing_from:
                assert set(rows) == wanted, (table, sorted(wanted - set(rows)))
        dead = Counter((row["partition"], row["offset"]) for row in await rows_of(self.world, HOME))
        assert dead == Counter(at for at, place in self.where.items() if not place)


def _value(number: int, kind: str) -> bytes:
    if kind[0] == "?":
        return b"{" + kind.encode()
    return b'{"type":"%s","n":"no number"}' % kind[1:].encode() if kind[0] == "!" else event(number, kind)


async def rows_of(world: World, table: str) -> list[dict[str, Any]]:
    try:
        return await world.rows(table)
    except Missing:
        return []


async def home_mark(world: World, *, partition: int = 0) -> int | None:
    return await own_mark(world, HOME, partition=partition)


async def own_mark(world: World, table: str, *, partition: int = 0) -> int | None:
    progress = await read_progress(world.objects, await world.catalog().load(table))
    return next((offset for key, offset in progress.items() if key.partition == partition), None)


class Selective:
    """A catalog that asks ``before`` ahead of each call on a table: (call, table)."""

    def __init__(self, inner: Catalog, before: Callable[[str, str], Any]) -> None:
        self._inner, self._before = inner, before
        self.calls: Counter[tuple[str, str]] = Counter()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def _ask(self, call: str, ident: str) -> None:
        self.calls[call, ident] += 1
        found = self._before(call, ident)
        if found is not None:
            await found

    async def load(self, ident: str) -> LoadedTable:
        await self._ask("load", ident)
        return await self._inner.load(ident)

    async def create(self, ident: str, table: CreateTable) -> LoadedTable:
        await self._ask("create", ident)
        return await self._inner.create(ident, table)

    async def commit(self, ident: str, base: LoadedTable, requirements: Sequence[JsonObject], updates: Sequence[JsonObject]) -> LoadedTable:
        await self._ask("commit", ident)
        return await self._inner.commit(ident, base, requirements, updates)


def at_home(marks: Mapping[int, int | None]) -> bool:
    return all(at is not None for at in marks.values())
