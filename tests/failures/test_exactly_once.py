"""F12–F16, F20–F22: exactly once and duplicates. F17–F19 (one row per key) are in test_keys.py."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import pytest
from tests.failures.registry import Case, Planted, failure, must
from tests.failures.stories import SMALL, TABLE, Running, exactly_once, fill, js, play, progress, progress_by_pin, status
from tests.faults.onecell import marker
from tests.unit.landing.world import World

from frazil.catalogs import commit as catalog_commit
from frazil.catalogs.commit import Committer
from frazil.catalogs.faulty import FaultPlan
from frazil.catalogs.write import FileWriter
from frazil.kit.errors import Conflict, RetryLater
from frazil.kit.tasks import spawn
from frazil.landing import commit as landing_commit
from frazil.landing import decode, source
from frazil.records import build_batch
from frazil.records.building import BatchOptions, Record
from frazil.records.transactions import Committed as CommittedRanges


def no_check(patch: pytest.MonkeyPatch) -> None:
    """A commit is not held against the progress of the table it goes on."""
    patch.setattr(catalog_commit, "_passed", lambda progress, moves: "")


# --- F12 --------------------------------------------------------------------------------------------------------------


def second_step(patch: pytest.MonkeyPatch) -> None:
    no_check(patch)
    patch.setattr(source, "read_progress", progress_by_pin)


@failure(
    "F12",
    title="A crash between the table commit and the saving of progress",
    others="save progress after the commit, in a second step, so a restart lands the same file again",
    promise="rows and progress are one commit; killed between the answer and everything after it, each record is there once",
    prevented=("frazil.catalogs.commit:Landed", "frazil.catalogs.commit:_passed"),
    wrong=Planted("progress is what was saved after the commit (the pin), and commits are not held against the table's own", second_step),
)
def test_f12_rows_and_progress_are_one_commit(case: Case) -> None:
    for point in ("P5", "P6"):
        for passage in (1, 2):

            async def story(world: World, point: str = point, passage: int = passage) -> None:
                made = await fill(world)
                must(await world.land_until_killed(point, passage, settings=SMALL), "RULE", f"{point} is reached")
                made |= await fill(world, batches=2)
                await world.land(settings=SMALL)
                await exactly_once(world, made)

            play(story)


# --- F13 --------------------------------------------------------------------------------------------------------------


@failure(
    "F13",
    title="Two committers alive at once",
    others="look leadership up instead of holding it, and put no fence into the commit",
    promise="of two commits planned on the same progress one is refused, by a condition in the table itself; no clock, no lease decides",
    prevented=("frazil.catalogs.commit:_passed", "frazil.catalogs.snapshots:Snapshots"),
    wrong=Planted("a commit is not held against the progress of the table it goes on", no_check),
)
def test_f13_two_landings_of_one_table(case: Case) -> None:
    async def story(world: World) -> None:
        made: set[tuple[int, int]] = set()
        async with Running(world, SMALL), Running(world, SMALL):
            for _ in range(4):
                made |= await fill(world, batches=3)
                await asyncio.sleep(world.chance.random() * 3)
            await asyncio.sleep(6)
        await exactly_once(world, made)

    play(story)


# --- F14 --------------------------------------------------------------------------------------------------------------


class SlowCommit:
    """A catalog whose next commit is on its way for seconds."""

    def __init__(self, inner: Any, seconds: float) -> None:
        self._inner, self._seconds = inner, seconds

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def commit(self, *arguments: Any) -> Any:
        seconds, self._seconds = self._seconds, 0.0
        await asyncio.sleep(seconds)
        return await self._inner.commit(*arguments)


@failure(
    "F14",
    title="A commit in flight at the crash lands after the successor looked",
    others="check whether it is there, and then append on whatever the base is by then",
    promise="the request asserts the very head on which progress was read, so the look and the append are one condition",
    prevented=("frazil.catalogs.snapshots:Prepared", "frazil.catalogs.commit:_judge"),
    wrong=Planted("after a conflict the files go on top of the newer base, without a second look at its progress", no_check),
)
def test_f14_a_late_commit_after_the_successors_look(case: Case) -> None:
    async def story(world: World) -> None:
        made = await fill(world, batches=1)
        await world.land()
        made |= await fill(world, batches=3)
        late = world.faulty_catalog(FaultPlan(script=("C-late(5)",)))
        landing = world.landing(catalogs={"default": late})
        task = spawn("first", landing.run())
        while not late.met:
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        slow: Any = SlowCommit(world.catalog(), 8.0)  # the successor has looked and is about to commit when the late request lands
        await world.land(15.0, catalogs={"default": slow})
        await late.settle()
        await world.land(5.0, SMALL)
        await exactly_once(world, made)

    play(story)


# --- F15 --------------------------------------------------------------------------------------------------------------


def clean_up(patch: pytest.MonkeyPatch) -> None:
    original = Committer._request

    async def request(self: Committer, prepared: Any) -> Any:
        try:
            return await original(self, prepared)
        except (RetryLater, Conflict, TimeoutError):
            await self.deps.objects.delete(self._held.get(prepared.base.ident, ()))
            raise

    patch.setattr(Committer, "_request", request)


UNKNOWN = ("C-5xx/a", "C-cut/a", "C-409/a", "C-late(2)", "C-hang")


@failure(
    "F15",
    title="An unknown outcome treated as failure: files of a live snapshot deleted",
    others="clean up after any exception of the commit call",
    promise="nothing that was uploaded is deleted before a fresh look at the table shows that no copy of the request can land",
    prevented=("frazil.catalogs.commit:_judge", "frazil.landing.commit:drop_orphans"),
    wrong=Planted("files of a request that was answered with an error are deleted", clean_up),
)
def test_f15_what_may_be_live_is_not_deleted(case: Case) -> None:
    for word in UNKNOWN[:3]:

        async def story(world: World, word: str = word) -> None:
            made = await fill(world)
            async with Running(world, catalogs={"default": world.faulty_catalog(FaultPlan(script=(word,)))}):
                await asyncio.sleep(15)
            await exactly_once(world, made)

        play(story)


# --- F16 --------------------------------------------------------------------------------------------------------------


def three_tries(patch: pytest.MonkeyPatch) -> None:
    no_check(patch)

    def judge(prepared: Any, fresh: Any, *, unknown: bool) -> Any:
        head = fresh.metadata.get("current-snapshot-id")
        return catalog_commit._Verdict(applied=head == prepared.snapshot_id and not unknown, certain=True)

    patch.setattr(catalog_commit, "_judge", judge)
    original = Committer._settle

    async def settle(self: Committer, prepared: Any) -> Any:
        applied, table, sure = await original(self, prepared)
        if not applied and self._trouble.get(prepared.base.ident, "").startswith("the catalog said yes"):
            return True, table, sure
        return applied, table, sure

    patch.setattr(Committer, "_settle", settle)


@failure(
    "F16",
    title="An unknown outcome retried blindly: duplicates",
    others="try three times on any error, without asking whether the first landed",
    promise="every commit has an id in its snapshot's summary, and the table's history is asked for it before a second try",
    prevented=("frazil.catalogs.commit:_judge", "frazil.catalogs.progress:COMMIT_ID"),
    wrong=Planted("a commit without an answer counts as not made and is made anew", three_tries),
)
def test_f16_a_second_try_only_after_a_look(case: Case) -> None:
    for word in UNKNOWN:

        async def story(world: World, word: str = word) -> None:
            made = await fill(world)
            faulty = world.faulty_catalog(FaultPlan(script=(word, "ok", word)))
            async with Running(world, SMALL, catalogs={"default": faulty}):
                await asyncio.sleep(200)
            await faulty.settle()
            await exactly_once(world, made)

        play(story)


# --- F20 --------------------------------------------------------------------------------------------------------------


def all_data(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decode, "_committed", lambda read, limits: CommittedRanges(ranges=((0, len(read.slice.data)),), held=None))


@failure(
    "F20",
    title="Aborted transactions and control records become rows",
    others="read raw segments and do not do what a consumer client does with markers",
    promise="records of aborted transactions and control records are no rows, progress passes them; undecided ones wait, by name",
    prevented=("frazil.records.transactions:read_committed", "frazil.landing.isolation:Isolation"),
    wrong=Planted("all data batches count, whatever their transaction came to", all_data),
)
def test_f20_what_was_rolled_back_is_no_row(case: Case) -> None:
    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        data = build_batch(
            [Record(key=b"k", value=js(n=0))],
            options=BatchOptions(transactional=True, producer_id=9, producer_epoch=0, base_sequence=0),
        )
        await world.append("t", 0, bytes(data))
        await world.append("t", 0, marker(commit=False, producer_id=9, sequence=1))
        await world.produce("t", [js(n=2)])
        await world.land()
        must(await world.offsets(TABLE) == [2], "EO", "only offset 2 is a row")
        must(await progress(world) == {0: 3}, "EO", "progress reaches 3")

    play(story)


# --- F21 --------------------------------------------------------------------------------------------------------------


class Constant:
    """A name made of values that are the same after a restart."""

    def next(self, _now_ms: int) -> str:
        return f"{0:026d}"


def repeated_names(patch: pytest.MonkeyPatch) -> None:
    original = FileWriter.__init__

    def init(self: FileWriter, *arguments: Any, **options: Any) -> None:
        original(self, *arguments, **options)
        self._names = Constant()  # type: ignore[assignment]

    patch.setattr(FileWriter, "__init__", init)


@failure(
    "F21",
    title="Object names that are used again",
    others="make names from partition, offset or a counter, which repeat after a restart",
    promise="every object has a name of its own, made of time and chance, and a PUT that would replace one fails",
    prevented=("frazil.catalogs.write:FileWriter", "frazil.objects.port:ObjectStore", "frazil.kit.chance:UlidSource"),
    wrong=Planted("data files are named by an offset that is 0 for each of them", repeated_names),
)
def test_f21_no_name_is_used_twice(case: Case) -> None:
    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        made = {(0, offset) for offset in await world.produce("t", [js(n=n) for n in range(10)])}
        must(await world.land_until_killed("P3"), "RULE", "P3 is reached")
        made |= {(0, offset) for offset in await world.produce("t", [js(n=n) for n in range(10, 15)])}
        async with Running(world):
            await asyncio.sleep(5)
            must((await status(world)).state in ("idle", "running"), "LIVE", "the restart is not stopped by leftovers")
        await exactly_once(world, made)

    play(story)


# --- F22 --------------------------------------------------------------------------------------------------------------


class CountedPuts:
    """The store, with a count of data files sent to it."""

    def __init__(self, world: World) -> None:
        self._inner, self.puts = world.objects, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def put_if_absent(self, key: str, data: Any) -> None:
        self.puts += "/data/" in key
        await self._inner.put_if_absent(key, data)


class Meddled:
    """A catalog whose table somebody else commits to just before each of our commits."""

    def __init__(self, world: World) -> None:
        self._world, self._inner, self.times = world, world.catalog(), 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def commit(self, ident: str, base: Any, requirements: Any, updates: Any) -> Any:
        table = await self._inner.load(ident)
        head = table.metadata.get("current-snapshot-id")
        if ident == TABLE and head not in (None, -1) and self.times < 12:
            self.times += 1
            newest = next(one for one in table.metadata["snapshots"] if one["snapshot-id"] == head)
            foreign = {
                **newest,
                "snapshot-id": 1_000 + self.times,
                "parent-snapshot-id": head,
                "sequence-number": table.metadata["last-sequence-number"] + 1,
                "timestamp-ms": self._world.clock.now_ms(),
                "summary": {"operation": "append", "total-records": newest["summary"]["total-records"]},
            }
            main = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 1_000 + self.times}
            await self._inner.commit(ident, table, [], [{"action": "add-snapshot", "snapshot": foreign}, main])
        return await self._inner.commit(ident, base, requirements, updates)


def no_rebase(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(landing_commit, "Landed", functools.partial(catalog_commit.Landed, rebase=False))


@failure(
    "F22",
    title="An optimistic conflict: not retried, retried on a stale base, or at the price of everything",
    others="die at the first foreign commit, or write all files again for each try",
    promise="after a foreign commit the same files go on top of it: manifests are made again, data files are uploaded once",
    prevented=("frazil.catalogs.commit:Committer",),
    wrong=Planted("a moved head is a lost slice, whose files are written again", no_rebase),
)
def test_f22_a_foreign_commit_costs_no_data_file(case: Case) -> None:
    async def story(world: World) -> None:
        made: set[tuple[int, int]] = set()
        meddled: Any = Meddled(world)
        store = CountedPuts(world)
        async with Running(world, SMALL, catalogs={"default": meddled}, objects=store):
            for _ in range(6):
                made |= await fill(world, batches=2)
                await asyncio.sleep(2)
            await asyncio.sleep(5)
            must(meddled.times >= 4, "RULE", "somebody meddled")
        await exactly_once(world, made)
        live = len(world.oracle.live_files(await world.location(TABLE)))
        must(store.puts == live, "RULE", f"{store.puts} data files were uploaded for {live} in the table")

    play(story)
