"""One row per key: what a landed upsert table holds is what a replay of the events in a dict says; DuckDB is the reader."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest
from tests.simulation.loop import run_virtual
from tests.unit.landing.oracle import MergingOracle
from tests.unit.landing.world import World, auto_off

from frazil.catalogs.commit import Committer
from frazil.catalogs.rewrite import Rewriter, RewriteSettings
from frazil.catalogs.rowdelta import RowDelta
from frazil.catalogs.write import FileWriter
from frazil.kit.faultpoints import FaultPoints
from frazil.kit.tasks import spawn
from frazil.metadata.landings import LandingSpec, put_landing
from frazil.records import build_batch
from frazil.records.building import BatchOptions, Record

COLUMNS = ("id long", "region string", "v long")


def spec(**options: str) -> LandingSpec:
    given = {name.replace("__", ".").replace("record_key", "record-key"): text for name, text in options.items()}
    return LandingSpec(
        table="lake.rows",
        topics=("changes",),
        columns=COLUMNS,
        metadata_columns=False,
        options={"mode": "upsert", "upsert.key": "id", **given},
    )


async def send(world: World, events: list[dict[str, Any] | None], keys: list[bytes] | None = None, *, partition: int = 0) -> None:
    now = world.clock.now_ms()
    records = [
        Record(
            key=keys[at] if keys else b"k",
            value=None if event is None else json.dumps(event).encode(),
            timestamp_ms=now + at,
        )
        for at, event in enumerate(events)
    ]
    await world.append("changes", partition, bytes(build_batch(records, options=BatchOptions())))


async def rows(world: World) -> dict[int, Any]:
    found = MergingOracle(world.bucket.objects).merged(await world.location("lake.rows"))
    assert len({row["id"] for row in found}) == len(found), found
    return {row["id"]: row["v"] for row in found}


@pytest.mark.parametrize("write", ["positions", "equality", "copy"])
def test_the_last_event_of_a_key_is_its_row(write: str) -> None:
    async def main() -> None:
        world = World()
        chance = random.Random(7)
        await world.topics.create("changes", 1)
        await put_landing(world.store, spec(upsert__write=write, envelope="op:what"))
        expected: dict[int, int] = {}
        for turn in range(6):
            events: list[dict[str, Any] | None] = []
            for at in range(60):
                key, what = chance.randrange(25), chance.choice(["c", "u", "u", "d"])
                events.append({"id": key, "region": "r", "v": turn * 100 + at, "what": what})
                if what == "d":
                    expected.pop(key, None)
                else:
                    expected[key] = turn * 100 + at
            await send(world, events)
            await world.land(3, auto_off())
            assert await rows(world) == expected

    run_virtual(main())


@pytest.mark.parametrize("write", ["positions", "equality", "copy"])
def test_rewrites_between_commits_change_no_row(write: str) -> None:
    """Folds of everything after every commit, and one that meets deletes that came while it was writing (F51)."""

    async def main() -> None:
        world = World(3)
        chance = random.Random(11)
        await world.topics.create("changes", 1)
        await put_landing(world.store, spec(upsert__write=write, envelope="op:what"))
        expected: dict[int, int] = {}
        lake = rewriting(world)
        folded = 0
        for turn in range(8):
            events: list[dict[str, Any] | None] = []
            for at in range(40):
                key, what = chance.randrange(60), chance.choice(["c", "u", "u", "d"])
                events.append({"id": key, "region": "r", "v": turn * 100 + at, "what": what})
                if what == "d":
                    expected.pop(key, None)
                else:
                    expected[key] = turn * 100 + at
            await send(world, events)
            landing = spawn("land", world.land(3, auto_off()))
            if turn % 2:
                report = await lake.pass_once("lake.rows")  # runs beside the commit of this turn
                folded += report.folded + report.merged
            await landing
            assert await rows(world) == expected
        await lake.pass_once("lake.rows")
        assert await rows(world) == expected
        oracle = MergingOracle(world.bucket.objects)
        assert not oracle.deletes(await world.location("lake.rows"))
        assert folded
        assert sorted(row["id"] for row in oracle.rows(await world.location("lake.rows"))) == sorted(expected)

    run_virtual(main())


def rewriting(world: World) -> Rewriter:
    deps = world._catalog_deps(FaultPoints(), world.objects)
    committer = Committer(world.catalog(), deps)
    eager = RewriteSettings(dead_share=0.0, dead_rows_min=0, equality_rows_max=0, cheap_files=2)
    return Rewriter(committer, RowDelta(committer, FileWriter(deps)), eager)


def debezium(what: str, before: object, after: object, *, wrapped: bool = False) -> dict[str, Any]:
    event = {"before": before, "after": after, "op": what, "ts_ms": 1, "source": {"snapshot": "true", "lsn": 5}, "transaction": None}
    return {"schema": {"type": "struct"}, "payload": event} if wrapped else event


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("wrapped", [True, False])
def test_f19_debezium_events_are_applied_and_what_says_no_operation_is_a_dead_letter(declared: bool, wrapped: bool) -> None:
    async def main() -> None:
        world = World()
        await world.topics.create("changes", 1)
        given = spec(envelope="debezium", upsert__deletes="op,tombstone", upsert__record_key="json")
        await put_landing(world.store, given if declared else replace(given, columns=()))
        row = {"region": "r", "n": 1.10}
        events = [
            debezium("r", None, {"id": 1, "v": 1, **row}, wrapped=wrapped),
            debezium("c", None, {"id": 2, "v": 2, **row}, wrapped=wrapped),
            debezium("u", {"id": 1, "v": 1}, {"id": 1, "v": 3, **row}, wrapped=wrapped),
            debezium("d", {"id": 2}, None, wrapped=wrapped),
            None,
            debezium("c", None, {"id": 4, "v": 4, **row}, wrapped=wrapped),
            debezium("t", None, None, wrapped=wrapped),
            debezium("x", None, {"id": 5}, wrapped=wrapped),
            debezium("d", None, None, wrapped=wrapped),
            {"before": None, "after": {"id": 6, "v": 6}},
            None,
        ]
        keys = [json.dumps({"id": at}).encode() for at in (1, 2, 1, 2, 2, 4, 0, 5, 0, 6, 4)]
        await send(world, events, keys)
        await world.land(3, auto_off())
        assert await rows(world) == {1: 3}
        dead = await world.rows("lake.rows_dead")
        assert sorted((letter["offset"], letter["code"]) for letter in dead) == [
            (6, "operation"), (7, "operation"), (8, "no-row"), (9, "no-operation"),
        ]  # fmt: skip

    run_virtual(main())


@pytest.mark.parametrize("declared", [True, False])
def test_f19_an_append_table_keeps_every_event_with_its_operation(declared: bool) -> None:
    async def main() -> None:
        world = World()
        await world.topics.create("changes", 1)
        given = LandingSpec(table="lake.rows", topics=("changes",), columns=COLUMNS if declared else (), options={"envelope": "debezium"})
        await put_landing(world.store, given)
        await send(
            world,
            [
                debezium("c", None, {"id": 1, "region": "a", "v": 1}),
                debezium("u", {"id": 1}, {"id": 1, "region": "a", "v": 2}),
                debezium("d", {"id": 1, "region": "a", "v": 2}, None),
                None,
            ],
        )
        await world.land(3, auto_off())
        found = sorted(await world.rows("lake.rows"), key=lambda row: row["_offset"])
        assert [(row["id"], row["v"], row["_op"]) for row in found] == [(1, 1, "c"), (1, 2, "u"), (1, 2, "d"), (None, None, None)]
        await send(world, [debezium("r", None, {"id": 3, "region": "b", "v": 3})])
        await world.land(3, auto_off())
        assert len(await world.rows("lake.rows")) == 5

    run_virtual(main())
