"""Routes: each record once, in its table, whoever dies, lies or hangs; one bad table and many tables (R07, F26, F70)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from tests.simulation.loop import run_virtual
from tests.unit.landing.routes import HOME, ROUTE, Selective, Sent, event, home_mark, own_mark, rows_of, spec, started
from tests.unit.landing.test_landing_chaos import RATES, Shaky
from tests.unit.landing.world import FAST, Killed, World, auto_off

from frazil.catalogs.faulty import FaultPlan
from frazil.kit.errors import Missing, Refused, RetryLater
from frazil.kit.faultpoints import FaultPoints
from frazil.kit.tasks import spawn
from frazil.metadata.landings import put_landing
from frazil.metadata.routes import list_route_tables

OFF = auto_off()
SMALL = auto_off(replace(FAST, slice_bytes_max=400))
KINDS = ["a", "b", "!a", "a", "c", "?", "b"]


@pytest.mark.parametrize("passage", [1, 3])
@pytest.mark.parametrize("point", ["P1", "P2", "P3", "P4", "P5", "P6", "P7"])
def test_r07_a_route_killed_at_any_point_or_between_tables_leaves_each_record_once_in_its_table(point: str, passage: int) -> None:
    async def work() -> None:
        world = World()
        await started(world, partitions=2)
        sent = Sent(world)
        for number in range(4):
            await sent.send(KINDS, partition=number % 2)
        assert await world.land_until_killed(point, passage, settings=SMALL), f"{point} was not reached {passage} times"
        await sent.send(["d", "b"])
        await world.land(6, SMALL)
        await sent.check()
        assert (await home_mark(world), await home_mark(world, partition=1)) == (16, 14)

    run_virtual(work())


def test_r07_the_first_record_of_a_new_table_outlives_a_kill_between_the_tables() -> None:
    """The scenario of the rule: the old table has committed, the new one is not made yet. Progress of the old one is not the route's."""

    async def work() -> None:
        world = World()
        await started(world)
        sent = Sent(world)
        await sent.send(["a"])
        await world.land(4, OFF)
        await sent.send(["a"] * 98 + ["b"])
        hook = Doomed()
        catalog: Any = Selective(world.catalog(), lambda call, ident: hook.die() if (call, ident) == ("create", "lake.e_b") else None)
        landing = world.landing(replace(OFF, route_tables_at_once=1), catalogs={"default": catalog})
        task = spawn("doomed", landing.run())
        await asyncio.wait({task}, timeout=20)
        assert isinstance(task.exception(), Killed)
        assert await home_mark(world) == 1
        await world.land(6, OFF)
        await sent.check()

    run_virtual(work())


class Doomed:
    def die(self) -> None:
        raise Killed


def test_r07_tables_ahead_of_the_home_mark_take_nothing_twice() -> None:
    """The naive way, without a look at the tables' own progress, lands 0 to 98 again."""

    async def work() -> None:
        world = World()
        await started(world)
        sent = Sent(world)
        await sent.send(["a", "b"] * 20)
        catalog: Any = Selective(world.catalog(), lambda call, ident: Doomed().die() if (call, ident) == ("commit", HOME) else None)
        task = spawn("doomed", world.landing(OFF, catalogs={"default": catalog}).run())
        await asyncio.wait({task}, timeout=20)
        assert isinstance(task.exception(), Killed)
        assert (await home_mark(world), await own_mark(world, "lake.e_a")) == (None, 39 + 1)
        await sent.send(["a", "b"])
        await world.land(6, OFF)
        await sent.check()

    run_virtual(work())


def refusing(table: str, *calls: str) -> Any:
    def before(call: str, ident: str) -> None:
        if ident == table and call in calls:
            raise Refused("C-403: not allowed to commit")

    return before


@pytest.mark.parametrize("calls", [("commit",), ("create", "load")])
def test_f26_one_bad_table_of_a_route_is_loud_and_the_others_keep_their_latency(calls: tuple[str, ...]) -> None:
    async def work() -> None:
        world = World()
        await started(world)
        sent = Sent(world)
        bad: Any = Selective(world.catalog(), refusing("lake.e_b", *calls))
        landing = world.landing(SMALL, catalogs={"default": bad})
        task = spawn("landing", landing.run())
        for number in range(10):
            await sent.send(["a", "b", "c", "!c", "?"] * 3)
            await asyncio.sleep(3)
            assert len(await rows_of(world, "lake.e_a")) == 3 * (number + 1)
            assert len(await rows_of(world, "lake.e_c")) == 3 * (number + 1)
            status = await world.status(ROUTE)
            assert status.state == "failed" and status.stage == ("commit" if "commit" in calls else "discover")
            assert f"table lake.e_b: C-403: not allowed to commit; {3 * (number + 1)} records wait" in status.reason
        await sent.check(missing_from=["lake.e_b"])
        assert await home_mark(world) == 1, "the home mark stands before the first record that is in no table"
        bad._before = lambda call, ident: None
        await asyncio.sleep(40)
        await sent.check()
        assert await home_mark(world) == 150
        assert (await world.status(ROUTE)).state == "idle"
        landing.stop()
        await task

    run_virtual(work())


def test_f26_a_route_that_restarts_while_a_table_is_bad_reads_again_and_doubles_nothing() -> None:
    async def work() -> None:
        world = World()
        await started(world)
        sent = Sent(world)
        for _ in range(4):
            await sent.send(["a", "b", "c", "!b", "?"] * 5)
            bad: Any = Selective(world.catalog(), refusing("lake.e_b", "commit"))
            await world.land(5, SMALL, catalogs={"default": bad})
            await sent.check(missing_from=["lake.e_b"]) if len(await rows_of(world, "lake.e_b")) else None
        await world.land(10, SMALL)
        await sent.check()
        assert await home_mark(world) == 100

    run_virtual(work())


def test_f26_a_table_whose_commit_hangs_is_left_behind_and_no_other_waits_for_it() -> None:
    async def work() -> None:
        world = World()
        await started(world)
        sent = Sent(world)
        hanging = True

        def before(call: str, ident: str) -> Any:
            return asyncio.sleep(300) if hanging and (call, ident) == ("commit", "lake.e_b") else None

        landing = world.landing(OFF, catalogs={"default": Selective(world.catalog(), before)})
        task = spawn("landing", landing.run())
        await sent.send(["a", "b", "c"])
        await asyncio.sleep(8)
        for number in range(2, 6):
            await sent.send(["a", "b", "c"])
            await asyncio.sleep(3)
            assert len(await rows_of(world, "lake.e_a")) == number == len(await rows_of(world, "lake.e_c"))
        status = await world.status(ROUTE)
        assert status.state == "stalled" and "table lake.e_b" in status.reason
        hanging = False
        await asyncio.sleep(400)
        await sent.check()
        assert (await world.status(ROUTE)).state == "idle"
        landing.stop()
        await task

    run_virtual(work())


def test_f26_several_bad_tables_come_back_one_by_one() -> None:
    async def work() -> None:
        world = World(3)
        await started(world, partitions=3)
        sent = Sent(world)
        down = {"lake.e_b", "lake.e_d"}

        def before(call: str, ident: str) -> None:
            if call == "commit" and ident in down:
                raise RetryLater("503") if ident == "lake.e_d" else Refused("C-403")

        settings = replace(SMALL, route_patience_ms=500)
        landing = world.landing(settings, catalogs={"default": Selective(world.catalog(), before)})
        task = spawn("landing", landing.run())
        for number in range(12):
            await sent.send([world.chance.choice("abcde") for _ in range(9)], partition=number % 3)
            await asyncio.sleep(2)
            if number == 5:
                down.discard("lake.e_b")
            if number == 6:
                down.add("lake.e_e")
        assert {one for one in ("lake.e_d", "lake.e_e") if one in (await world.status(ROUTE)).reason} == {"lake.e_d", "lake.e_e"}
        await sent.check(missing_from=sorted(down))
        down.clear()
        await asyncio.sleep(60)
        await sent.check()
        assert [await home_mark(world, partition=one) for one in range(3)] == [36] * 3
        assert (await world.status(ROUTE)).state == "idle"
        landing.stop()
        await task

    run_virtual(work())


@pytest.mark.parametrize("word", ["C-401", "C-5xx/a", "C-409/a", "C-late(3)", "C-hang"])
def test_f15_f16_every_answer_of_the_catalog_ends_in_each_record_once_in_its_table(word: str) -> None:
    async def work() -> None:
        world = World()
        await started(world)
        sent = Sent(world)
        for _ in range(3):
            await sent.send(KINDS)
        catalog = world.faulty_catalog(FaultPlan(script=(word, "ok", word, "ok", "ok", word)))
        await world.land(300, SMALL, catalogs={"default": catalog})
        await catalog.settle()
        assert catalog.met.count(word) == 3
        await sent.check()
        assert await home_mark(world) == 21

    run_virtual(work())


@pytest.mark.parametrize("seed", range(2))
def test_f13_two_processes_on_one_route_do_no_harm(seed: int) -> None:
    async def work() -> None:
        world = World(seed)
        await started(world, partitions=2)
        sent = Sent(world)
        both = [world.landing(SMALL), world.landing(SMALL)]
        tasks = [spawn(f"landing {n}", landing.run()) for n, landing in enumerate(both)]
        for number in range(4):
            await sent.send(KINDS, partition=number % 2)
            await asyncio.sleep(world.chance.random() * 3)
        await asyncio.sleep(15)
        for landing in both:
            landing.stop()
        await asyncio.gather(*tasks)
        await sent.check()

    run_virtual(work())


async def one_life(world: World, bad: set[str]) -> None:
    """A process that lives a while, or dies at a random passage of a random point, with a catalog that lies."""
    doom, left = world.chance.choice(["P1", "P3", "P4", "P5", "P6", "P7", ""]), world.chance.randrange(1, 12)

    def hook(name: str) -> None:
        nonlocal left
        left -= name == doom
        if name == doom and left == 0:
            raise Killed

    def before(call: str, ident: str) -> None:
        if call == "commit" and ident in bad:
            raise Refused("C-403")

    faulty = world.faulty_catalog(FaultPlan(rates=RATES, load_failures=0.02), FaultPoints(hook))
    settings = replace(SMALL, call_deadline_ms=3_000, route_patience_ms=2_000)
    catalogs: Any = {"default": Selective(faulty, before)}
    landing = world.landing(settings, faults=FaultPoints(hook), catalogs=catalogs, objects=Shaky(world))
    task = spawn("life", landing.run())
    await asyncio.wait({task}, timeout=world.chance.random() * 25)
    if task.done():
        assert isinstance(task.exception(), Killed)
    elif world.chance.random() < 0.5:
        task.cancel()
    else:
        landing.stop()
    await asyncio.gather(task, return_exceptions=True)
    await faulty.settle()


@pytest.mark.parametrize("seed", range(3))
def test_each_record_is_landed_once_in_its_table_whatever_happens(seed: int) -> None:
    """Random routes, kills, lies, bad tables, two processes at once."""

    async def work() -> None:
        world = World(seed)
        await started(world, partitions=3)
        sent = Sent(world)
        names = [f"k{number}" for number in range(world.chance.randrange(2, 9))]
        bad: set[str] = set()
        await sent.send([names[0]])
        await world.land(4, SMALL)  # its numbers are numbers before one is not

        async def produce() -> None:
            for _ in range(30):
                kinds = [world.chance.choice([*names, "?", f"!{names[0]}"]) for _ in range(world.chance.randrange(1, 6))]
                await sent.send(kinds, partition=world.chance.randrange(3))
                bad.clear()
                if world.chance.random() < 0.4:
                    bad.add(f"lake.e_{world.chance.choice(names)}")
                await asyncio.sleep(world.chance.random())

        producer = spawn("producer", produce())
        while not producer.done():
            await asyncio.gather(*(one_life(world, bad) for _ in range(world.chance.randrange(1, 3))))
        await producer
        await world.land(30, SMALL)
        await sent.check()
        assert (await world.status(ROUTE)).state == "idle"

    run_virtual(work())


def test_f70_a_round_over_200_tables_with_calls_of_2_s_takes_less_than_30_s() -> None:
    async def work() -> None:
        world = World()
        await started(world, replace(spec(), commit_interval_ms=30_000))
        calls = 0

        def slow(call: str, ident: str) -> Any:
            nonlocal calls
            calls += 1
            return asyncio.sleep(2)

        catalogs: Any = {"default": Selective(world.catalog(), slow)}
        landing = world.landing(replace(OFF, call_deadline_ms=30_000), catalogs=catalogs)
        await world.produce("t", [event(n, f"k{n % 200}") for n in range(400)])
        task = spawn("landing", landing.run())
        first_s = await until(world, 400)
        await asyncio.sleep(1)
        before = calls
        await world.produce("t", [event(n, f"k{n % 200}") for n in range(400)])
        begun_ms = world.clock.monotonic_ms()
        second_s = await until(world, 800)
        due_s = 30 - begun_ms / 1000 % 30
        print(f"F70: {first_s:.0f} s with 200 tables to make, then {second_s - due_s:.0f} s a round, {calls - before} calls")
        assert first_s <= 30
        assert second_s - due_s <= 20
        assert (await world.status(ROUTE)).state in ("idle", "running")
        landing.stop()
        await task
        assert len(await list_route_tables(world.store, ROUTE)) == 200

    run_virtual(work())


async def until(world: World, mark: int) -> float:
    """Seconds until the home mark is there."""
    begun_ms = world.clock.monotonic_ms()
    for _ in range(400):
        await asyncio.sleep(0.5)
        if await mark_of(world) == mark:
            return (world.clock.monotonic_ms() - begun_ms) / 1000
    raise AssertionError(await world.status(ROUTE))


async def mark_of(world: World) -> int | None:
    try:
        return await home_mark(world)
    except Missing:
        return None


def test_f70_a_round_that_takes_too_long_is_told_with_the_number_of_tables_that_fit() -> None:
    async def work() -> None:
        world = World()
        await started(world)
        catalogs: Any = {"default": Selective(world.catalog(), lambda call, ident: asyncio.sleep(2))}
        landing = world.landing(replace(OFF, route_tables_at_once=8), catalogs=catalogs)
        task = spawn("landing", landing.run())
        await world.produce("t", [event(n, f"k{n}") for n in range(100)])
        await asyncio.sleep(200)
        status = await world.status(ROUTE)
        assert (status.state, status.stage) == ("alert", "route")
        assert "a round over 100 tables takes" in status.reason and "tables fit into 30 s" in status.reason
        landing.stop()
        await task

    run_virtual(work())


def test_a_change_of_rules_restarts_the_route_from_its_mark() -> None:
    async def work() -> None:
        world = World()
        await started(world)
        sent = Sent(world)
        landing = world.landing(OFF)
        task = spawn("landing", landing.run())
        await sent.send(["a", "b"])
        await asyncio.sleep(4)
        await put_landing(world.store, spec(route__map="b:lake.other"))
        await asyncio.sleep(4)
        await sent.send(["a", "b"])
        await asyncio.sleep(4)
        landing.stop()
        await task
        assert (await world.offsets("lake.e_a"), await world.offsets("lake.e_b"), await world.offsets("lake.other")) == ([0, 2], [1], [3])

    run_virtual(work())
