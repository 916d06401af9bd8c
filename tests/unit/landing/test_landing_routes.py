"""Routes: one topic → many tables, each record in one of them exactly once, whatever dies when (R07)."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tests.simulation.loop import run_virtual
from tests.unit.landing.world import World, auto_off

from frazil.metadata.landings import LandingSpec, put_landing
from frazil.metadata.routes import list_route_tables

ROUTE = "lake.events"
HOME = "lake.events_dead"


def event(number: int, kind: object, **more: object) -> bytes:
    return json.dumps({"n": number, "type": kind, **more}).encode()


def spec(*, topics: Sequence[str] = ("t",), value: str = "json", **options: str) -> LandingSpec:
    given = {"route": "field:type", "route.table": "lake.e_{}"} | {name.replace("__", "."): text for name, text in options.items()}
    return LandingSpec(table=ROUTE, topics=tuple(topics), value=value, commit_interval_ms=1_000, options={k: v for k, v in given.items() if v})


async def started(world: World, landing: LandingSpec | None = None, *, partitions: int = 1) -> None:
    await world.topics.create("t", partitions=partitions)
    await put_landing(world.store, landing or spec())


def test_r07_records_go_to_the_table_of_their_field() -> None:
    async def work() -> None:
        world = World()
        await started(world)
        await world.produce("t", [event(n, "ab"[n % 2]) for n in range(10)] + [b"{", b'{"n": 1}', None])
        await world.land(5, auto_off())
        assert await world.offsets("lake.e_a") == [0, 2, 4, 6, 8]
        assert await world.offsets("lake.e_b") == [1, 3, 5, 7, 9]
        letters = {row["offset"]: (row["code"], row["target_name"]) for row in await world.rows(HOME)}
        assert letters == {10: ("not-json", ROUTE), 11: ("route-none", ROUTE), 12: ("route-none", ROUTE)}
        assert (await world.status(ROUTE)).state == "idle"
        assert [(one.table, one.value) for one in await list_route_tables(world.store, ROUTE)] == [("lake.e_a", "a"), ("lake.e_b", "b")]

    run_virtual(work())
