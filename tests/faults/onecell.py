"""One run of one cell of the fault matrix: landing meets an answer and dies, or is stopped, at a point; what becomes of the table.

Everything is in virtual time and one process; a run is a function of (point, answer, run number). The forms, by run number:

    0 kill       the process is killed at the point; its successor meets the answer again and again for a while
    1 twice      as before, and the successor is killed at the same point too
    2 zombie     the process is stopped at the point (SIGSTOP) and goes on while its successor is in the middle of it
    3 late wake  as before, and it goes on only after its successor has landed everything
    4 pair       two processes land from the beginning, both meet the answer, one is killed at the point

Every other run goes through our REST client to HTTP answers (tests/faults/virtualrest.py), the others through the catalog port.

The log holds good records, poison, control batches and a transaction that was aborted. Judges: an independent reader of what is stored,
and the statuses as published.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tests.faults.virtualrest import ROOT, Located, VirtualHttp, rest_catalog
from tests.simulation.independent import Table
from tests.simulation.loop import run_virtual
from tests.simulation.processes import CatalogDoor, Killed, MetadataDoor, ObjectsDoor, PointersDoor, Process, Server
from tests.unit.landing.world import FAST, SHARDS, World

from frazil.catalogs.faulty import FaultPlan, FaultyCatalog
from frazil.catalogs.pointers import PointerCatalog
from frazil.catalogs.port import Catalog, CatalogDeps
from frazil.kit.faultpoints import FaultPoints
from frazil.kit.tasks import InlineOffload
from frazil.landing import Landing, LandingDeps
from frazil.log.cache import BlockCache
from frazil.log.index import LogIndex
from frazil.log.read import LogReader
from frazil.metadata.landings import LandingStatus, list_statuses
from frazil.metadata.stores.memory import MemoryMetadata
from frazil.metadata.topics import Topics
from frazil.objects.faulty import NO_FAULTS, FaultyObjects, ObjectFault, ObjectFaults
from frazil.objects.stores.memory import MemoryObjects
from frazil.records import build_batch
from frazil.records.building import BatchOptions, Record

POINTS: Final = ("P1", "P2", "P3", "P4", "P5", "P6", "P7")
ANSWERS: Final = (
    "none", "C-409", "C-429", "C-400", "C-401/403/419", "C-404", "C-5xx/n", "C-5xx/a", "C-cut/n", "C-cut/a", "C-late", "C-409/a", "C-hang",
    "S-503", "S-404", "S-412", "S-cut/a", "S-short",
)  # fmt: skip
ABORTED_SHARE: Final = 0.3
FORMS: Final = ("kill", "twice", "zombie", "late wake", "pair")
TABLE: Final = "default.t"
INTERVAL_MS: Final = 2_000
LOUD_S: Final = 2 * INTERVAL_MS / 1000 + 1.0
"""Two intervals, and the time between two looks of the owner and of the publisher."""
LIVE_S: Final = 60.0
AGAIN_MAX: Final = 8
WINDOW_S: Final = 14.0
SETTINGS: Final = replace(FAST, slice_bytes_max=300, commit_interval_ms=INTERVAL_MS, progress_idle_ms=5_000)
STORE_FAULTS: Final = {
    "S-503": (ObjectFault.S_503, ("put", "get"), ObjectFaults(s_503=1.0)),
    "S-404": (ObjectFault.S_404, ("get",), ObjectFaults(s_404=1.0)),
    "S-412": (ObjectFault.S_412, ("put",), ObjectFaults(s_412=1.0)),
    "S-cut/a": (ObjectFault.S_CUT_A, ("put",), ObjectFaults(s_cut_a=1.0)),
    "S-short": (ObjectFault.S_SHORT, ("put",), ObjectFaults(s_short=1.0)),
}


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What one run showed."""

    point: str
    answer: str
    form: str
    rest: bool = False
    """Through our REST client and HTTP answers, not through the catalog port alone."""
    violations: list[str] = field(default_factory=list)
    fired: bool = False
    """The point was reached."""
    met: int = 0
    """How often the answer was given."""
    live_s: float = 0.0
    loud_s: float = 0.0
    """Longest silence about a stall that was seen."""


class Anywhere(dict[str, tuple[bytes, int]]):
    """The bucket by locations of either spelling."""

    def __init__(self, objects: dict[str, tuple[bytes, int]]) -> None:
        super().__init__()
        self._objects = objects

    def get(self, key: str, default: Any = None) -> Any:
        return self._objects.get(key.removeprefix(ROOT), default)


@dataclass(slots=True, kw_only=True)
class Life:
    """One landing process with its own bad luck."""

    process: Process
    landing: Landing
    task: asyncio.Task[None]
    catalog: FaultyCatalog
    objects: FaultyObjects
    done: asyncio.Event

    def calm(self) -> None:
        """Its faults are over."""
        self.catalog._plan = FaultPlan()
        self.catalog._script.clear()
        self.objects.plan = NO_FAULTS
        for queue in self.objects._forced.values():
            queue.clear()


class Cell:
    """The world of one run."""

    settings = SETTINGS

    def __init__(self, outcome: Outcome, seed: int) -> None:
        self.outcome = outcome
        self.chance = random.Random(f"{outcome.point} {outcome.answer} {seed}")
        self.world = World(seed)
        self.server = Server()
        self.good: set[tuple[int, int]] = set()
        self.bad: set[tuple[int, int]] = set()
        self.lives: list[Life] = []
        self.transactions = 0
        self.tokens: dict[str, float] = {}

    # --- the log -----------------------------------------------------------------------------------------------------

    async def produce(self, batches: int) -> None:
        """Good records with one poison among them; now and then a marker, or an aborted transaction."""
        world, chance = self.world, self.chance
        for _ in range(batches):
            partition = chance.randrange(2)
            values = self.values(partition, chance.randrange(2, 6))
            poison = chance.randrange(len(values)) if chance.random() < 0.5 else -1
            if poison >= 0:
                values[poison] = b'{"n":'
            offsets = await world.produce("t", values, partition=partition)
            for at, offset in enumerate(offsets):
                (self.bad if at == poison else self.good).add((partition, offset))
            self.appended(partition, offsets, values)
            if chance.random() < 0.3:
                self.transactions += 1
                await world.append("t", partition, marker(commit=True, producer_id=100 + self.transactions))
            if chance.random() < ABORTED_SHARE:
                await self._abort(partition)

    async def set_up(self) -> None:
        """The topic, and how it lands."""
        await self.world.topics.create("t", 2)

    def values(self, partition: int, count: int) -> list[bytes | None]:
        """Good values."""
        return [b'{"n":%d}' % n for n in range(count)]

    def appended(self, partition: int, offsets: Sequence[int], values: Sequence[bytes | None]) -> None:
        """What was produced, poison and all, is at these offsets."""

    async def _abort(self, partition: int) -> None:
        """A transaction that was given up: its records are nobody's rows."""
        records = [Record(key=b"k", value=b'{"aborted":1}', timestamp_ms=self.world.clock.now_ms())]
        self.transactions += 1
        producer_id = 100 + self.transactions  # a producer of its own: the log takes a sequence number it has seen for a repetition
        data = build_batch(records, options=BatchOptions(transactional=True, producer_id=producer_id, producer_epoch=0, base_sequence=0))
        await self.world.append("t", partition, bytes(data))
        await self.world.append("t", partition, marker(commit=False, producer_id=producer_id, sequence=1))

    # --- processes ---------------------------------------------------------------------------------------------------

    def start(self, *, fuse: str = "", passage: int = 1, freeze: bool = False, script: int = 0, steady: bool = False) -> Life:
        """A landing process. ``fuse``: where it ends or is stopped; ``script``: so many first answers are bad; ``steady``: all are."""
        process = Process("landing", len(self.lives))
        done = asyncio.Event()
        left = passage

        def reach(point: str) -> None:
            nonlocal left
            if process.dead:
                raise Killed
            left -= point == fuse
            if point != fuse or left != 0:
                return
            self.outcome.fired = True
            done.set()
            if freeze:
                process.freeze()
            else:
                process.kill()
                raise Killed

        faults = FaultPoints(reach)
        chance = random.Random(self.chance.random())
        objects = FaultyObjects(
            MemoryObjects(self.world.bucket, self.world.clock, mid_put=lambda key: reach("P2") if "/data/" in key else None),
            chance,
            self._store_plan(steady=steady),
        )
        if script and self.outcome.answer in STORE_FAULTS:
            fault, verbs, _ = STORE_FAULTS[self.outcome.answer]
            for verb in verbs:
                objects.force(verb, *[None] * chance.randrange(8), *[fault] * script)
        catalog = self._catalog(objects, faults, chance, script, steady=steady)
        landing = process.context.run(self._landing, process, faults, objects, catalog, chance)
        life = Life(process=process, landing=landing, task=process.spawn("run", landing.run()), catalog=catalog, objects=objects, done=done)
        self.lives.append(life)
        return life

    def _landing(self, process: Process, faults: FaultPoints, objects: FaultyObjects, catalog: Catalog, chance: random.Random) -> Landing:
        world = self.world
        store = MetadataDoor(self.server, MemoryMetadata(world.state, world.clock))
        index = LogIndex(store, shards=SHARDS)
        process.spawn("follow", index.follow())
        door = ObjectsDoor(self.server, objects)
        deps = LandingDeps(
            store=store,
            topics=Topics(store, process.clock, chance),
            index=index,
            reader=LogReader(door, index, BlockCache(1 << 20), offload=InlineOffload()),
            objects=door,
            catalogs={"default": self._seen(process, faults, objects, catalog, chance)},
            source="cluster/1",
            clock=process.clock,
            chance=chance,
            offload=InlineOffload(),
            faults=faults,
        )
        return Landing(deps, self.settings)

    def _seen(
        self, process: Process, faults: FaultPoints, objects: FaultyObjects, catalog: FaultyCatalog, chance: random.Random
    ) -> Catalog:
        """The catalog as the process reaches it."""
        if not self.outcome.rest:
            return CatalogDoor(self.server, catalog)
        http = VirtualHttp(self.server, catalog, self.world.clock, random.Random(chance.random()), self.tokens)
        deps = CatalogDeps(objects=objects, offload=InlineOffload(), clock=process.clock, chance=chance, faults=faults)
        return rest_catalog(http, deps, ObjectsDoor(self.server, objects))

    def _catalog(self, objects: FaultyObjects, faults: FaultPoints, chance: random.Random, script: int, *, steady: bool) -> FaultyCatalog:
        """Catalog answers meet a catalog that is a service; store answers also one that keeps its metadata in our store."""
        world, words = self.world, self._words()
        store: Any = objects if self.outcome.answer in STORE_FAULTS and not self.outcome.rest else MemoryObjects(world.bucket, world.clock)
        if self.outcome.rest:
            store, faults = Located(store), FaultPoints()  # a server's own; the client passes the points
        deps = CatalogDeps(objects=store, offload=InlineOffload(), clock=world.clock, chance=chance, faults=faults)
        inner = PointerCatalog(PointersDoor(self.server, world.pointers), deps)  # type: ignore[arg-type] # the same methods
        plan = FaultPlan(rates=dict.fromkeys(words, 1.0 / len(words))) if steady and words else FaultPlan()
        scripted = [chance.choice(words) for _ in range(script)] if words else []
        before = ["ok"] * chance.randrange(2) if scripted else []
        return FaultyCatalog(inner, chance, replace(plan, script=(*before, *scripted)))

    def _words(self) -> tuple[str, ...]:
        answer = self.outcome.answer
        if not answer.startswith("C-"):
            return ()
        if answer == "C-401/403/419":
            return ("C-401", "C-403", "C-419")
        return (f"C-late({self.chance.choice((0.5, 3, 8))})",) if answer == "C-late" else (answer,)

    def _store_plan(self, *, steady: bool) -> ObjectFaults:
        return STORE_FAULTS[self.outcome.answer][2] if steady and self.outcome.answer in STORE_FAULTS else NO_FAULTS

    # --- judges ------------------------------------------------------------------------------------------------------

    def table(self, ident: str) -> Table | None:
        """The table as stored."""
        location = self.world.pointers._locations.get(ident)
        return None if location is None else Table(Anywhere(self.world.bucket.objects), location, {})

    def landed(self) -> int:
        return sum(table.total_records() for ident in (TABLE, f"{TABLE}_dead") if (table := self.table(ident)) is not None)

    def moved(self) -> int:
        """What grows with every commit."""
        return self.landed()

    def complete(self) -> bool:
        return self.landed() >= len(self.good) + len(self.bad)

    def judge(self) -> None:
        """EO and WHOLE."""
        rows = self._rows(TABLE, "_kafka_partition", "_offset")
        letters = self._rows(f"{TABLE}_dead", "partition", "offset")
        for name, found, wanted in (("rows", rows, self.good), ("letters", letters, self.bad)):
            doubled = sorted(at for at, times in found.items() if times > 1)
            if doubled:
                self.violate("EO", f"{name} doubled: {doubled[:5]}")
            if set(found) != wanted:
                self.violate("EO", f"{name} lost {sorted(wanted - set(found))[:5]}, invented {sorted(set(found) - wanted)[:5]}")

    def _rows(self, ident: str, partition: str, offset: str) -> Counter[tuple[int, int]]:
        table = self.table(ident)
        if table is None:
            return Counter()
        found = Counter((row[partition], row[offset]) for row in table.rows())
        table.check_all()
        for problem in table.problems:
            self.violate("WHOLE", problem)
        return found

    def violate(self, oracle: str, what: str) -> None:
        self.outcome.violations.append(f"{oracle}: {what}")

    async def watch_loud(self, life: Life, seconds: float) -> None:
        """While ``life`` is at work: two intervals after progress stops, the published status names it."""
        loop = asyncio.get_running_loop()
        end, still_since, last, loud_at = loop.time() + seconds, loop.time(), self.moved(), loop.time()
        while loop.time() < end and not life.done.is_set():
            await asyncio.sleep(0.25)
            now_landed = self.moved()
            if now_landed != last or self.complete():
                last, still_since = now_landed, loop.time()
                continue
            found = next((status for status in await list_statuses(self.world.store) if status.table == TABLE), None)
            if _is_loud(found):
                loud_at = loop.time()
            silent_s = min(loop.time() - still_since, loop.time() - loud_at)
            self.outcome.loud_s = max(self.outcome.loud_s, silent_s)
            if silent_s > LOUD_S:
                self.violate(
                    "LOUD", f"{silent_s:.1f} s without progress, the status is {found and (found.state, found.stage, found.reason)}"
                )
                return

    async def wait_complete(self, seconds: float) -> float | None:
        """Seconds until everything was landed, None when it was not within ``seconds``. A process that was killed is started again."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while loop.time() - begun < seconds:
            if self.complete():
                return loop.time() - begun
            if self.lives[-1].process.dead:
                self.start()
            await asyncio.sleep(0.25)
        return None

    def end(self) -> None:
        for life in self.lives:
            self.outcome.met += sum(word not in ("ok",) for word in life.catalog.met)
            life.process.bury()


def _is_loud(status: LandingStatus | None) -> bool:
    return status is not None and status.state in ("stalled", "failed") and all((status.stage, status.reason, status.topic))


def marker(*, commit: bool, producer_id: int, sequence: int = 0) -> bytes:
    """The end of a transaction: a control batch."""
    record = Record(key=b"\0\0\0\1" if commit else b"\0\0\0\0", value=b"\0\0\0\0\0\0")
    options = BatchOptions(control=True, transactional=True, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
    return bytes(build_batch([record], options=options))


async def story(cell: Cell, form: str) -> None:
    """One run, see the module."""
    outcome, chance = cell.outcome, cell.chance
    await cell.set_up()
    await cell.produce(4)
    bad = chance.randrange(1, 4)
    first = cell.start(
        fuse=outcome.point, passage=1 if form == "pair" else chance.randrange(1, 4), freeze=form in ("zombie", "late wake"), script=bad
    )
    twin = cell.start(script=bad) if form == "pair" else None
    await asyncio.sleep(chance.random() * 4)
    await cell.produce(3)
    try:
        async with asyncio.timeout(150):
            await first.done.wait()
    except TimeoutError:  # everything was landed before it passed the point so often
        first.landing.stop()
    await cell.produce(3)

    successor = twin or cell.start(steady=True, fuse=outcome.point if form == "twice" else "", passage=2)
    if form == "zombie":
        cell_thaw = asyncio.get_running_loop().call_later(chance.random() * WINDOW_S, first.process.thaw)
    await cell.watch_loud(successor, WINDOW_S)
    if form == "twice" and successor.done.is_set():
        successor = cell.start(steady=True)
        await cell.watch_loud(successor, WINDOW_S)
    for life in cell.lives:
        life.calm()
    live_s = await cell.wait_complete(LIVE_S)
    if live_s is None:
        cell.violate("LIVE", f"{cell.landed()} of {len(cell.good) + len(cell.bad)} records {LIVE_S:.0f} s after the fault ended")
    outcome.live_s = live_s or 0.0
    if form == "zombie":
        cell_thaw.cancel()
    first.process.thaw()
    await asyncio.sleep(15)
    await cell.produce(1)
    if await cell.wait_complete(LIVE_S) is None:
        cell.violate("LIVE", "the records after the story did not land")
    await asyncio.sleep(5)
    cell.judge()
    for life in cell.lives:
        if not life.process.stopped and life.task.done() and not life.task.cancelled() and life.task.exception() is not None:
            cell.violate("LIVE", f"a process ended: {life.task.exception()!r}")


def run_cell(point: str, answer: str, run: int, kind: type[Cell] = Cell) -> Outcome:
    """One run of one cell; ``run`` chooses the form and everything else. A run in which the point was not reached is not one."""
    for again in range(AGAIN_MAX):
        outcome = _run(point, answer, run, again, kind)
        if outcome.fired or outcome.violations:
            break
    return outcome


def _run(point: str, answer: str, run: int, again: int, kind: type[Cell]) -> Outcome:
    rest = (run + POINTS.index(point) + ANSWERS.index(answer)) % 2 == 1
    outcome = Outcome(point=point, answer=answer, form=FORMS[run % len(FORMS)], rest=rest)

    async def main() -> None:
        cell = kind(outcome, run + 1_000 * again)
        try:
            await story(cell, outcome.form)
        finally:
            cell.end()

    run_virtual(main())
    return outcome
