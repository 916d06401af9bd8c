"""F23–F30: silent stalls."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from tests.failures.registry import Case, Naive, Planted, failure, must
from tests.failures.stories import SMALL, TABLE, Running, exactly_once, fill, js, play, progress, status, values
from tests.unit.landing.test_landing_exactly_once import Unreadable
from tests.unit.landing.world import FAST, World

from frazil.catalogs.commit import Committer
from frazil.catalogs.faulty import FaultPlan
from frazil.kit.errors import FrazilError
from frazil.landing import pipeline, source
from frazil.landing.owner import Owner
from frazil.landing.plan import SlicePlan
from frazil.landing.read import SliceReader
from frazil.landing.status import Board
from frazil.log.pins import read_pins
from frazil.metadata.landings import LandingSpec, put_landing

LOUD_S = 5.5
"""Two intervals (at least four seconds), the owner's look and the publisher's."""

# --- F23 --------------------------------------------------------------------------------------------------------------


def never_overdue(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Board, "overdue", lambda self, now_ms: False)


@failure(
    "F23",
    title="Committed to 0 tables, for hours, and healthy",
    others="take a round that timed out for a normal event; nothing is ever overdue",
    promise="records that wait for two intervals make the table stalled, with stage, reason and the age of the oldest; it goes on by"
    " itself when the catalog answers again",
    prevented=("frazil.landing.status:Board", "frazil.landing.status:status_of", "frazil.assembly.health:landing_report"),
    wrong=Planted("nothing is ever overdue", never_overdue),
)
def test_f23_a_catalog_that_hangs_is_loud(case: Case) -> None:
    async def story(world: World) -> None:
        made = await fill(world)
        hanging = world.faulty_catalog(FaultPlan(rates={"C-hang": 1.0}))
        async with Running(world, catalogs={"default": hanging}):
            await asyncio.sleep(LOUD_S)
            found = await status(world)
            must(found.state == "stalled" and found.stage == "commit" and bool(found.reason), "LOUD", found)
            must(found.behind_records == 20 and found.freshness_ms >= 4_000, "LOUD", "how much waits, and how long")
            await asyncio.sleep(600)
            hanging._plan = FaultPlan()
            await asyncio.sleep(60)
            must((await status(world)).state == "idle", "LIVE", "within 60 s of the catalog's return")
        await exactly_once(world, made)

    play(story)


# --- F24 --------------------------------------------------------------------------------------------------------------


class Liar:
    """A catalog that answers yes and does nothing, so many times. The commit it shows is not the one its table has."""

    def __init__(self, world: World, times: int) -> None:
        self._world, self._inner, self.times = world, world.catalog(), times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def commit(self, ident: str, base: Any, requirements: Any, updates: Any) -> Any:
        pointers = self._world.pointers
        before = dict(pointers._locations)
        table = await self._inner.commit(ident, base, requirements, updates)
        if self.times:
            self.times -= 1
            pointers._locations.clear()
            pointers._locations.update(before)
        return table


def believing(patch: pytest.MonkeyPatch) -> None:
    original = Committer._settle

    async def settle(self: Committer, prepared: Any) -> Any:
        try:
            return True, await self._request(prepared), True
        except (FrazilError, TimeoutError):
            return await original(self, prepared)

    patch.setattr(Committer, "_settle", settle)


@failure(
    "F24",
    title="The catalog says yes and the table does not move",
    others="take success from an intermediate step; nobody reads back",
    promise="after a yes the table is loaded and must show the commit, before progress is published and the pin moves; else it is sent"
    " again and the table is stalled, with these words",
    prevented=("frazil.catalogs.commit:Committer", "frazil.catalogs.commit:_judge"),
    wrong=Planted("a yes is believed", believing),
)
def test_f24_a_yes_is_not_believed(case: Case) -> None:
    async def story(world: World) -> None:
        made = await fill(world, batches=1)
        await world.land()
        made |= await fill(world, batches=2)
        liar: Any = Liar(world, times=1_000_000)
        async with Running(world, catalogs={"default": liar}):
            await asyncio.sleep(LOUD_S)
            held = (await read_pins(world.store))[TABLE].offsets[world.key("t")]
            must(held <= (await progress(world)).get(0, 0), "EO", "the pin is ahead of what the table has: retention may remove the rest")
            found = await status(world)
            must(found.state == "stalled" and "said yes" in found.reason, "LOUD", found)
            liar.times = 0
            await asyncio.sleep(60)
        await exactly_once(world, made)

    play(story)


# --- F25 --------------------------------------------------------------------------------------------------------------


def all_or_none(patch: pytest.MonkeyPatch) -> None:
    original = source.plan_slice

    def plan(states: Any, budget: Any, **options: Any) -> SlicePlan:
        found = original(states, budget, **options)
        return found if all(state.lag for state in states) else replace(found, wants=())

    patch.setattr(source, "plan_slice", plan)


@failure(
    "F25",
    title="Idle partitions hold up everyone",
    others="wait in each round for an answer of every task, also of those that got no record",
    promise="a record is visible within the interval whatever the other partitions do; nothing new makes no snapshot",
    prevented=("frazil.landing.plan:plan_slice", "frazil.landing.owner:Owner"),
    wrong=Planted("a slice waits until every partition has something", all_or_none),
)
def test_f25_one_busy_partition_of_eight(case: Case) -> None:
    async def story(world: World) -> None:
        await world.topics.create("t", 8)
        async with Running(world):
            for number in range(3):
                await world.produce("t", [js(n=number)], partition=3)
                await asyncio.sleep(6)
                must(len(await values(world, "n")) == number + 1, "LIVE", "visible within the interval and five seconds")
                await asyncio.sleep(4)
        must(len(await world.snapshots(TABLE)) == 3, "RULE", "no snapshot without rows")

    play(story)


# --- F26 --------------------------------------------------------------------------------------------------------------


def one_round(patch: pytest.MonkeyPatch) -> None:
    original, turn = Owner._try_step, asyncio.Lock()

    async def step(self: Owner) -> bool:
        async with turn:
            return await original(self)

    patch.setattr(Owner, "_try_step", step)


@failure(
    "F26",
    title="One bad table stops the others, or loses its own",
    others="commit all tables in one round with one offset",
    promise="every table has its own task and its own progress: the others keep their latency, the bad one is loud and loses nothing",
    prevented=("frazil.landing.owner:Owner", "frazil.landing.process:Landing"),
    wrong=Planted("tables take turns in one round", one_round),
)
def test_f26_the_neighbours_of_a_broken_table(case: Case) -> None:
    async def story(world: World) -> None:
        for name in ("a", "b", "c"):
            await world.topics.create(name, 1)
        await put_landing(world.store, LandingSpec(table="x.b", topics=("b",), options={"catalog": "bad"}))
        bad = world.faulty_catalog(FaultPlan(rates={"C-401": 1.0}))
        async with Running(world, catalogs={"default": world.catalog(), "bad": bad}):
            for number in range(4):
                for name in ("a", "b", "c"):
                    await world.produce(name, [js(n=number)])
                await asyncio.sleep(2)
                for name in ("a", "c"):
                    must(len(await values(world, "n", f"default.{name}")) == number + 1, "LIVE", f"{name} keeps its latency")
            found = await status(world, "x.b")
            must(found.state == "stalled" and found.topic == "b" and "C-401" in found.reason, "LOUD", found)
        await world.land(catalogs={"default": world.catalog(), "bad": world.catalog()})
        must(await values(world, "n", "x.b") == [0, 1, 2, 3], "EO", "b has everything when its permission is back")

    play(story)


# --- F27 --------------------------------------------------------------------------------------------------------------


def swallow(throttled: range, count: int) -> list[int]:
    """A per-table exception is logged; the round completes and offsets advance."""
    table: list[int] = []
    for record in range(count):
        try:
            if record in throttled:
                raise RuntimeError("ThrottlingException")
            table.append(record)
        except RuntimeError:
            pass  # logged
    return table


def hold_on(throttled: range, count: int) -> list[int]:
    found: list[int] = []

    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        busy = world.faulty_catalog(FaultPlan())
        async with Running(world, catalogs={"default": busy}):
            for record in range(count):
                busy._plan = FaultPlan(rates={"C-429": 1.0}, load_failures=0.5) if record in throttled else FaultPlan()
                await world.produce("t", [js(n=record)])
                await asyncio.sleep(3)
            await asyncio.sleep(60)
        found.extend(await values(world, "n"))

    play(story)
    return found


@failure(
    "F27",
    title="A catalog's error is swallowed, and the batch with it",
    others="log an exception per table and complete the round all the same",
    promise="progress is in the commit that did not happen, so there is nothing to swallow: it is tried again, with growing pauses",
    prevented=("frazil.catalogs.commit:Committer", "frazil.landing.owner:Owner"),
    wrong=Naive("a table's exception is logged and the round completes", swallow, hold_on),
)
def test_f27_a_throttle_costs_no_row(case: Case) -> None:
    found = case.way(range(5, 35), 40)
    must(found == list(range(40)), "EO", f"{len(found)} of 40 rows")


# --- F28 --------------------------------------------------------------------------------------------------------------


def lenient(patch: pytest.MonkeyPatch) -> None:
    original = pipeline.prepare

    async def prepare(*arguments: Any) -> Any:
        return replace(await original(*arguments), letters=())

    patch.setattr(pipeline, "prepare", prepare)


@failure(
    "F28",
    title="A poison record stops the topic, or vanishes",
    others="know only failing for ever and skipping",
    promise="the record is in the dead-letter table with all its bytes, place and reason before progress passes it",
    prevented=("frazil.landing.deadletter:Graveyard", "frazil.landing.convert:convert"),
    wrong=Planted("bad records are counted and dropped", lenient),
)
def test_f28_a_poison_record_is_a_dead_letter(case: Case) -> None:
    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        records: list[bytes | None] = [js(id=n) for n in range(10)]
        records[4] = b'{"id":'
        made = {(0, offset) for offset in await world.produce("t", records)}
        await world.land()
        await exactly_once(world, made)
        (letter,) = await world.rows(TABLE + "_dead")
        told = (letter["topic"], letter["partition"], letter["offset"], letter["key"], letter["value"])
        must(told == ("t", 0, 4, b"k", b'{"id":') and bool(letter["reason"]), "EO", letter)
        must(await progress(world) == {0: 10} and (await status(world)).rows_rejected == 1, "LOUD", "progress and counter")

    play(story)


# --- F29 --------------------------------------------------------------------------------------------------------------


class Mute:
    """A catalog whose next calls of some kinds never come back."""

    def __init__(self, inner: Any, **calls: int) -> None:
        self._inner, self._left = inner, calls

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name not in self._left:
            return found

        async def call(*arguments: Any, **options: Any) -> Any:
            if self._left[name] > 0:
                self._left[name] -= 1
                await asyncio.get_running_loop().create_future()
            return await found(*arguments, **options)

        return call


def no_deadline(patch: pytest.MonkeyPatch) -> None:
    async def within(self: Committer, call: Any) -> Any:
        return await call

    patch.setattr(Committer, "_within", within)


@failure(
    "F29",
    title="A call without a time limit",
    others="use a library's default, which is to wait for ever",
    promise="every call to a catalog or a store has a deadline; a commit that hangs is an unknown outcome",
    prevented=("frazil.landing.lake:within", "frazil.catalogs.commit:CommitPolicy", "frazil.catalogs.rest.client:RestClient"),
    wrong=Planted("the committer waits for its catalog without a limit", no_deadline),
)
def test_f29_every_call_ends(case: Case) -> None:
    async def story(world: World) -> None:
        made = await fill(world)
        mute: Any = Mute(world.catalog(), load=2, create=1, commit=2)
        async with Running(world, SMALL, catalogs={"default": mute}):
            await asyncio.sleep(300)
            must((await status(world)).state == "idle", "LIVE", await status(world))
        await exactly_once(world, made)

    play(story)


# --- F30 --------------------------------------------------------------------------------------------------------------


def together(patch: pytest.MonkeyPatch) -> None:
    async def joint(self: SliceReader, wants: Any) -> Any:
        return {one.key: one for one in await self._reader.read_many(wants)}

    patch.setattr(SliceReader, "_joint", joint)


@failure(
    "F30",
    title="One slow partition blocks all, or a partition is nobody's",
    others="hold all partitions up until one is read, and leave partitions to whoever comes first",
    promise="a read that takes too long is split by partition, and the slow one is named; one process covers all partitions in turn",
    prevented=("frazil.landing.read:SliceReader", "frazil.landing.plan:plan_slice"),
    wrong=Planted("the partitions of a slice are read together or not at all", together),
)
def test_f30_one_slow_object(case: Case) -> None:
    async def story(world: World) -> None:
        await world.topics.create("t", 12)
        await world.produce("t", [js(n=0)], partition=0)
        slow = next(key for key in world.bucket.keys if key.startswith("bundles/"))
        for partition in range(1, 12):
            await world.produce("t", [js(n=partition)], partition=partition)
        store = Unreadable(world, lambda key: key == slow, wait_s=60.0)
        async with Running(world, replace(FAST, call_deadline_ms=120_000), objects=store):
            await asyncio.sleep(6)
            must(await values(world, "n") == list(range(1, 12)), "LIVE", "partitions 1 to 11 are at the end")
            found = await status(world)
            must((found.state, found.stage, found.topic, found.partition) == ("failed", "read", "t", 0), "LOUD", found)
            await asyncio.sleep(70)
            must(await values(world, "n") == list(range(12)), "LIVE", "and 0 when its object was read")

    play(story)
