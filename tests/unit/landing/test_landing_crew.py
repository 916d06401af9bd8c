"""A huge topic shared by several processes under one committer: exactly once whoever dies, and nobody waits for the dead for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.simulation.loop import run_virtual
from tests.unit.landing.world import FAST, Killed, World, auto_off

import frazil.landing.hand
from frazil.catalogs.faulty import FaultPlan
from frazil.catalogs.files import DataFile
from frazil.catalogs.schema import SchemaChange
from frazil.kit.errors import Corrupt
from frazil.kit.faultpoints import FaultPoints
from frazil.kit.names import PartitionId, PartitionKey, TopicId
from frazil.kit.tasks import spawn
from frazil.landing.decode import Consumed
from frazil.landing.handover import Handover, decode_handover, encode_handover
from frazil.metadata.landings import LandingSpec, put_landing
from frazil.metadata.orders import ORDERS, TAKES, Order, take_order

SPEC = LandingSpec(table="lake.t", topics=("t",), commit_interval_ms=1_000)
SETTINGS = replace(auto_off(FAST), slice_bytes_max=900, help_patience_ms=4_000)
PARTITIONS, BATCHES = 6, 12


@pytest.fixture
def handed(monkeypatch: pytest.MonkeyPatch) -> list[Handover]:
    """What was handed over."""
    found: list[Handover] = []

    def encode(handover: Handover, table: Any) -> bytes:
        found.append(handover)
        return encode_handover(handover, table)

    monkeypatch.setattr(frazil.landing.hand, "encode_handover", encode)
    return found


async def filled(world: World, *, value: Callable[[int], bytes] = lambda at: b'{"n": %d}' % at) -> None:
    await world.topics.create("t", partitions=PARTITIONS)
    await put_landing(world.store, SPEC)
    await world.produce("t", [value(0)])  # so that the table is there
    await world.land(3, SETTINGS)
    for partition in range(PARTITIONS):
        for batch in range(BATCHES):
            await world.produce("t", [value(8 * batch + at) for at in range(8)], partition=partition)


async def whole(world: World, *, extra: int = 1, dead: int = 0) -> None:
    count = 0
    for partition in range(PARTITIONS):
        offsets = await world.offsets("lake.t", partition=partition)
        count += len(offsets)
        assert len(set(offsets)) == len(offsets)
        if not dead:
            assert offsets == list(range(8 * BATCHES + (extra if partition == 0 else 0)))
    assert count + dead == PARTITIONS * 8 * BATCHES + extra


async def nothing_left(world: World) -> None:
    for prefix in (ORDERS, TAKES, "landing-answers/"):
        assert not (await world.store.range(prefix, prefix[:-1] + "0")).entries


def test_others_work_on_parts_of_a_slice_and_the_owner_commits_all_of_it(handed: list[Handover]) -> None:
    async def work() -> None:
        world = World()
        await filled(world)
        landings = [world.landing(SETTINGS, share=name) for name in "abc"]
        tasks = [spawn("landing", landing.run()) for landing in landings]
        await asyncio.sleep(30)
        await whole(world)
        assert sum(one.rows for one in handed) > 8 * BATCHES, "others did a good part of it"
        assert len(await world.snapshots("lake.t")) < 2 + PARTITIONS * BATCHES // 2, "parts are committed together"
        for landing in landings:
            landing.stop()
        await asyncio.gather(*tasks)
        await nothing_left(world)

    run_virtual(work())


def test_new_columns_and_dead_letters_come_from_helpers_too(handed: list[Handover]) -> None:
    def value(at: int) -> bytes:
        return b"{" if at % 10 == 9 else b'{"n": %d, "c%d": true}' % (at, at % 4)

    async def work() -> None:
        world = World()
        await filled(world, value=value)
        landings = [world.landing(SETTINGS, share=name) for name in "ab"]
        tasks = [spawn("landing", landing.run()) for landing in landings]
        await asyncio.sleep(60)
        letters = await world.rows("lake.t_dead")
        assert len(letters) == len({(row["partition"], row["offset"]) for row in letters}) == PARTITIONS * 9
        assert any(one.letters for one in handed)
        await whole(world, dead=len(letters))
        for landing in landings:
            landing.stop()
        await asyncio.gather(*tasks)

    run_virtual(work())


@pytest.mark.parametrize("point", ["P1", "P3"])
@pytest.mark.parametrize("victim", ["a", "b"])
def test_whoever_dies_in_the_middle_of_shared_work_the_others_finish_it(point: str, victim: str) -> None:
    async def work() -> None:
        world = World()
        await filled(world)
        left = 3

        def hook(name: str) -> None:
            nonlocal left
            left -= name == point
            if name == point and left == 0:
                raise Killed

        landings = {name: world.landing(SETTINGS, share=name, faults=FaultPoints(hook) if name == victim else None) for name in "ab"}
        tasks = {name: spawn(f"landing {name}", landing.run()) for name, landing in landings.items()}
        await asyncio.sleep(60)
        await whole(world)
        for landing in landings.values():
            landing.stop()
        await asyncio.gather(*tasks.values(), return_exceptions=True)

    run_virtual(work())


def test_a_helper_that_takes_and_never_answers_costs_one_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        world = World()
        await filled(world)
        owner = world.landing(SETTINGS, share="a")
        first = spawn("owner", owner.run())
        await asyncio.sleep(0.5)

        async def asleep(*_: object) -> str:
            await asyncio.sleep(10_000)
            return ""

        monkeypatch.setattr(frazil.landing.hand.Hand, "_hand_over", asleep)
        helper = world.landing(SETTINGS, share="b")
        second = spawn("helper", helper.run())
        await asyncio.sleep(40)
        await whole(world)
        second.cancel()
        owner.stop()
        await asyncio.gather(first, second, return_exceptions=True)

    run_virtual(work())


def test_a_landing_dropped_while_its_order_is_taken_does_not_end_the_helper(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        world = World()
        await filled(world)
        owner, helper = world.landing(SETTINGS, share="a"), world.landing(SETTINGS, share="b")
        dropped: list[str] = []

        async def taken(store: Any, order: Order, process: str, *, lease: int) -> bool:
            done = await take_order(store, order, process, lease=lease)
            if done and not dropped:
                for each in (owner, helper):
                    monkeypatch.setattr(each, "_wanted", {})
                dropped.append(order.number)
            return done

        monkeypatch.setattr(frazil.landing.hand, "take_order", taken)
        tasks = [spawn("owner", owner.run()), spawn("helper", helper.run())]
        await asyncio.sleep(40)
        assert dropped and not any(task.done() for task in tasks)
        await whole(world)
        owner.stop()
        helper.stop()
        await asyncio.gather(*tasks, return_exceptions=True)

    run_virtual(work())


@pytest.mark.parametrize("seed", range(2))
def test_shared_work_over_a_catalog_that_lies_with_processes_that_come_and_go(seed: int) -> None:
    async def work() -> None:
        world = World(seed)
        await filled(world)
        rates = {"C-409": 0.05, "C-5xx/a": 0.05, "C-5xx/n": 0.05, "C-cut/a": 0.05, "C-late(3)": 0.05, "C-409/a": 0.05}
        lives: list[Any] = []
        for at in range(6):
            catalog = world.faulty_catalog(FaultPlan(rates=rates, load_failures=0.02))
            landing = world.landing(SETTINGS, share=f"p{at}", catalogs={"default": catalog})
            lives.append((landing, spawn("life", landing.run()), catalog))
            await asyncio.sleep(2 + world.chance.random() * 4)
            if len(lives) > 2:
                other, task, _ = lives.pop(world.chance.randrange(len(lives) - 1))
                if world.chance.random() < 0.6:
                    task.cancel()
                else:
                    other.stop()
                await asyncio.gather(task, return_exceptions=True)
        await asyncio.sleep(60)
        for landing, task, catalog in lives:
            landing.stop()
            await asyncio.gather(task, return_exceptions=True)
            await catalog.settle()
        await world.land(10, SETTINGS)
        await whole(world)

    run_virtual(work())


def test_a_damaged_handover_is_named() -> None:
    async def work() -> None:
        world = World()
        await filled(world)
        table = await world.catalog().load("lake.t")
        key = PartitionKey(TopicId(b"x" * 16), PartitionId(3))
        bounds = {1: b"\1"}
        file = DataFile(path="m:x/1.parquet", record_count=3, size_bytes=9, spec_id=0, lower_bounds=bounds, upper_bounds=bounds)
        schema = {"type": "struct", "schema-id": 5, "fields": table.metadata["schemas"][0]["fields"]}
        handover = Handover(
            base_schema_id=0,
            files=(file,),
            consumed=(Consumed(key=key, topic="t", first=2, end=5),),
            change=SchemaChange(schema=schema, base_schema_id=0, base_last_column_id=9),
            rows=3,
            letters=1,
        )
        data = encode_handover(handover, table)
        assert decode_handover(data, where="k") == handover
        for _ in range(200):
            at = world.chance.randrange(len(data))
            with pytest.raises(Corrupt):
                decode_handover(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], where="k")
            with pytest.raises(Corrupt):
                decode_handover(world.chance.randbytes(at % 100), where="k")

    run_virtual(work())
