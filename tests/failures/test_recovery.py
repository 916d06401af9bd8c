"""F57–F63, F69, F75: foreign maintenance, recovery and restart, and what must stay bounded meanwhile."""

from __future__ import annotations

import asyncio
import copy
import gc
import io
import sys
import types
from collections import OrderedDict
from dataclasses import replace
from typing import Any

import fastavro
import pytest
from tests.failures.registry import Case, Naive, Planted, failure, must
from tests.failures.sinks import ours
from tests.failures.stories import SMALL, TABLE, Running, exactly_once, fill, js, play, status, values
from tests.unit.landing.world import FAST, Killed, World

from frazil.catalogs import snapshots as catalog_snapshots
from frazil.catalogs import stored as catalog_stored
from frazil.catalogs.care import Care, CareSettings
from frazil.catalogs.commit import Committer
from frazil.catalogs.faulty import FaultPlan
from frazil.catalogs.history import Keep
from frazil.catalogs.metastores.columns import Limits, shown_columns
from frazil.catalogs.port import CreateTable
from frazil.kit.clock import LoopClock
from frazil.kit.errors import RetryLater
from frazil.kit.faultpoints import FaultPoints
from frazil.kit.names import TimestampMs
from frazil.kit.tasks import spawn
from frazil.landing import pipeline
from frazil.landing.identity import NamedTable
from frazil.landing.limits import Appetite
from frazil.landing.plan import Budget
from frazil.log.index import LogIndex
from frazil.log.pins import drop_pin
from frazil.metadata.landings import delete_status
from frazil.metadata.stores.memory import MemoryMetadata
from frazil.objects.faulty import FaultyObjects, ObjectFault, ObjectFaults
from frazil.objects.stores.memory import MemoryObjects

# --- F57 --------------------------------------------------------------------------------------------------------------


def staged(_case: Case) -> list[int]:
    """Private state points at a staging manifest, which is cleaned after the commit; the crash comes before the state is saved."""
    table, staging, state = list[int](), {"m-1": list(range(10))}, {"pending": "m-1"}
    table += staging[state["pending"]]
    del staging["m-1"]  # cleaned; the process dies here
    for record in range(10, 15):
        if state["pending"] not in staging:
            break  # FileNotFound at each start
        table.append(record)
    return table


def stateless(_case: Case) -> list[int]:
    """Killed at P6 and P7; then everything is lost that only the dead process knew, and every manifest no snapshot names."""
    found: list[int] = []

    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        await world.produce("t", [js(n=n) for n in range(5)])
        must(await world.land_until_killed("P6"), "RULE", "P6 is reached")
        await world.produce("t", [js(n=n) for n in range(5, 10)])
        must(await world.land_until_killed("P7"), "RULE", "P7 is reached")
        await drop_pin(world.store, TABLE)
        await delete_status(world.store, TABLE)
        location = await world.location(TABLE)
        named = {snapshot["manifest-list"] for snapshot in await world.snapshots(TABLE)}
        for manifests in list(named):
            lines = fastavro.reader(io.BytesIO(world.oracle.bytes_of(manifests)))
            named |= {line["manifest_path"] for line in lines}
        folder = location.removeprefix("memory:///").rpartition("/")[0]
        await world.objects.delete(
            [key for key in world.bucket.keys if key.startswith(folder) and key.endswith(".avro") and f"memory:///{key}" not in named]
        )
        await world.produce("t", [js(n=n) for n in range(10, 15)])
        await world.land()
        found.extend(await values(world, "n"))

    play(story)
    return found


@failure(
    "F57",
    title="Recovery needs a staging file that was cleaned after the commit",
    others="keep the way to a temporary manifest in private state, and fail at each start when it is gone",
    promise="a start needs the table and the log; nothing that only a dead process knew",
    prevented=("frazil.landing.source:SliceSource", "frazil.catalogs.progress:read_progress"),
    wrong=Naive("a restart looks for its staging manifest", staged, stateless),
)
def test_f57_a_restart_needs_table_and_log(case: Case) -> None:
    must(case.way(case) == list(range(15)), "LIVE")


# --- F58 --------------------------------------------------------------------------------------------------------------


def by_name(patch: pytest.MonkeyPatch) -> None:
    async def recognise(self: NamedTable, table: Any) -> None:
        return

    patch.setattr(NamedTable, "_recognise", recognise)


@failure(
    "F58",
    title="The table is dropped, re-created or rolled back under the sink",
    others="know a table by its name only: files of the old one go into the new, or silence",
    promise="another uuid pauses the table, by name and with the two ways out; after a rollback the rows are filled again from the log",
    prevented=("frazil.landing.identity:NamedTable", "frazil.catalogs.commit:_judge", "frazil.catalogs.progress:progress_value"),
    wrong=Planted("a table of the same name is the same table", by_name),
)
def test_f58_another_table_of_the_same_name(case: Case) -> None:
    async def story(world: World) -> None:
        made = await fill(world, batches=2)
        await world.land()
        kept = (await world.snapshots(TABLE))[-1]["snapshot-id"]
        made |= await fill(world, batches=2)
        await world.land()
        table = await world.catalog().load(TABLE)
        main = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": kept}
        await world.catalog().commit(TABLE, table, [], [main])
        made |= await fill(world, batches=1)
        await world.land()
        await exactly_once(world, made)
        schema = (await world.rows(TABLE))[0]
        await world.catalog().drop(TABLE)
        await world.catalog().create(TABLE, CreateTable(schema=pa_schema(schema)))
        await fill(world, batches=1)
        await world.land()
        found = await status(world)
        must(found.state == "failed" and "recreated=fill" in found.reason, "LOUD", found)
        must(await values(world, "n") == [], "EO", "nothing went into the other table")

    play(story)


def pa_schema(_row: dict[str, Any]) -> Any:
    import pyarrow as pa

    return pa.schema([("n", pa.int64()), ("at", pa.int64())])


# --- F59 --------------------------------------------------------------------------------------------------------------


class Ahead(LoopClock):
    """A host that is five minutes ahead."""

    def now_ms(self) -> TimestampMs:
        return TimestampMs(super().now_ms() + 300_000)


def own_clock(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(catalog_snapshots, "max", lambda first, second: first, raising=False)


@failure(
    "F59",
    title="Clocks that disagree",
    others="put the host's time into the metadata, which other engines refuse when it goes back",
    promise="no snapshot is older than its parent and no metadata older than the one before, whatever the hosts' clocks say",
    prevented=("frazil.catalogs.snapshots:Snapshots", "frazil.catalogs.metadata_json:apply_updates"),
    wrong=Planted("a snapshot has the time of the host that made it", own_clock),
)
def test_f59_times_in_the_metadata_never_fall(case: Case) -> None:
    async def story(world: World) -> None:
        right = world.clock
        await fill(world, batches=1)
        await world.land()
        world.clock = Ahead()
        await fill(world, batches=1)
        await world.land()
        world.clock = right
        await fill(world, batches=1)
        await world.land()
        metadata = world.oracle.metadata(await world.location(TABLE))
        for name, times in (
            ("snapshots", [one["timestamp-ms"] for one in metadata["snapshots"]]),
            ("snapshot log", [one["timestamp-ms"] for one in metadata["snapshot-log"]]),
            ("metadata log", [one["timestamp-ms"] for one in metadata["metadata-log"]] + [metadata["last-updated-ms"]]),
        ):
            must(times == sorted(times), "READ", f"{name}: {times}")

    play(story)


# --- F60 --------------------------------------------------------------------------------------------------------------


def everything(wide: dict[str, int]) -> tuple[int, int]:
    """A column for each key; all columns and comments go into the catalog's entry."""
    columns = dict.fromkeys(wide, "c" * 300)
    return len(columns), max(map(len, columns.values()))


def capped(wide: dict[str, int]) -> tuple[int, int]:
    found = ours([{"a": 1}], [wide], evolve__columns_max="200", evolve__overflow="_extra")
    must(len(found.rows) == 2 and not found.dead and found.rows[1]["_extra"] is not None, "EO", "the rest is in one column")
    fields = [{"id": at, "name": f"c{at}", "required": False, "type": "int", "doc": "c" * 300} for at in range(4_000)]
    shown = shown_columns({"schemas": [{"schema-id": 0, "fields": fields}], "current-schema-id": 0}, Limits(total=300_000))
    return max(len(found.columns), 0), max(len(column.comment) for column in shown)


@failure(
    "F60",
    title="Limits of the catalog: versions, payload, property size",
    others="copy schema and summary into the catalog's entry, whatever their size, and archive every version",
    promise="columns that come by themselves have a cap, beyond which values go into one column; a metastore's entry is cut to its limits,"
    " and no versions are archived",
    prevented=("frazil.schemas.policy:columns_max", "frazil.catalogs.metastores.columns:shown_columns"),
    wrong=Naive("a column per key, all of it in the entry", everything, capped),
)
def test_f60_a_wide_record_leaves_a_table_that_can_be_committed(case: Case) -> None:
    columns, comment = case.way({f"k{at}": at for at in range(1_000)})
    must(columns <= 202 and comment <= 255, "BOUND", (columns, comment))


# --- F61 --------------------------------------------------------------------------------------------------------------


def unchecked(patch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: Any) -> None:
        return

    patch.setattr(catalog_snapshots, "check_data_file", nothing)
    patch.setattr(catalog_stored, "check_data_file", nothing)


@failure(
    "F61",
    title="A truncated or empty file is committed",
    others="take success from close()",
    promise="the end of every file is read back from the store before a commit names it; a bad one is written again",
    prevented=("frazil.catalogs.stored:check_data_file", "frazil.catalogs.stored:put_checked"),
    wrong=Planted("data files are committed as they were sent", unchecked),
)
def test_f61_what_is_committed_is_whole(case: Case) -> None:
    async def story(world: World) -> None:
        made = await fill(world, batches=1)
        await world.land()
        made |= await fill(world, batches=1)
        for skip in range(5):  # data file, manifest, manifest list, metadata: each is cut once
            store = FaultyObjects(MemoryObjects(world.bucket, world.clock), world.chance, ObjectFaults())
            store.force("put", *[None] * skip, ObjectFault.S_SHORT)
            async with Running(world, objects=store):
                await asyncio.sleep(6)
            await exactly_once(world, made)
            made |= await fill(world, batches=1)
        await world.land()
        await exactly_once(world, made)

    play(story)


# --- F62 --------------------------------------------------------------------------------------------------------------


def all_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Appetite, "budget", property(lambda self: Budget(bytes_max=1 << 40)))


@failure(
    "F62",
    title="After a pause, nothing for an hour",
    others="replay all coordination first, keep the backlog in one giant batch, check it quadratically",
    promise="a backlog is landed in slices of bounded size, the first within seconds, one commit after the other",
    prevented=("frazil.landing.plan:plan_slice", "frazil.landing.limits:Appetite"),
    wrong=Planted("the first slice is the whole backlog", all_at_once),
)
def test_f62_a_backlog_is_visible_from_the_first_slice_on(case: Case) -> None:
    async def story(world: World) -> None:
        await world.topics.create("t", 4)
        for number in range(40):
            await world.produce("t", [js(text="x" * 1_000, n=number)] * 10, partition=number % 4)
        link = FaultyObjects(MemoryObjects(world.bucket, world.clock), world.chance, ObjectFaults(bytes_per_s=20_000))
        settings = replace(FAST, slice_bytes_max=20_000, read_patience_ms=200_000, call_deadline_ms=200_000)
        async with Running(world, settings, objects=link):
            await asyncio.sleep(15)
            early = len(await world.rows(TABLE)) if TABLE in await world.catalog().list("default") else 0
            must(early > 0, "LIVE", "rows are visible long before the backlog is read")
            await asyncio.sleep(200)
        must(len(await values(world, "n")) == 400, "EO", "and all of it in the end")

    play(story)


# --- F63 --------------------------------------------------------------------------------------------------------------


def endless(patch: pytest.MonkeyPatch) -> None:
    original = MemoryMetadata.grant_lease

    async def grant(self: MemoryMetadata, ttl_ms: int) -> int:
        return await original(self, 10**12)

    patch.setattr(MemoryMetadata, "grant_lease", grant)


@failure(
    "F63",
    title="Locks left by the dead",
    others="take locks that outlive their owner",
    promise="a claim on a table ends with its process's lease, and no commit needs it: the table's head is what fences",
    prevented=("frazil.landing.sharing:Shared", "frazil.metadata.claims:claim_tables", "frazil.catalogs.metastores.hivelocks:AGENT"),
    wrong=Planted("leases do not end", endless),
)
def test_f63_claims_of_the_dead_end(case: Case) -> None:
    async def story(world: World) -> None:
        made = await fill(world)

        def hook(point: str) -> None:
            if point == "P3":
                raise Killed

        doomed = world.landing(faults=FaultPoints(hook), share="a")
        task = spawn("doomed", doomed.run())
        await asyncio.wait({task}, timeout=60)
        must(task.done() and isinstance(task.exception(), Killed), "RULE", "killed while it held its claims")
        async with Running(world, share="b"):
            await asyncio.sleep(90)
        await exactly_once(world, made)

    play(story)


# --- F69 --------------------------------------------------------------------------------------------------------------


def read_on(patch: pytest.MonkeyPatch) -> None:
    original = pipeline.commit_slice

    async def commit(lake: Any, work: Any) -> Any:
        try:
            async with asyncio.timeout(2):
                return await original(lake, work)
        except TimeoutError:
            raise RetryLater("the commit is left to a later round") from None

    patch.setattr(pipeline, "commit_slice", commit)


@failure(
    "F69",
    title="Ingest that is not tied to commit progress",
    others="read on while nothing can be committed, and stage files or records without end",
    promise="a table reads its next slice when the one before is committed: while the catalog is away one slice waits, and no more",
    prevented=("frazil.landing.pipeline:TablePipeline", "frazil.kit.shares:ByteShares"),
    wrong=Planted("a slice that cannot be committed is left, and the next one read", read_on),
)
def test_f69_a_catalog_that_is_away_costs_one_slice(case: Case) -> None:
    async def story(world: World) -> None:
        made = await fill(world, batches=1)
        away = world.faulty_catalog(FaultPlan())
        async with Running(world, SMALL, catalogs={"default": away}):
            await asyncio.sleep(3)
            away._plan = FaultPlan(rates={"C-5xx/n": 1.0})
            before = sum("/data/" in key for key in world.bucket.keys)
            for _ in range(20):
                made |= await fill(world, batches=1)
                await asyncio.sleep(10)
            staged_files = sum("/data/" in key for key in world.bucket.keys) - before
            must(staged_files <= 2, "BOUND", f"{staged_files} files wait for a commit")
            away._plan = FaultPlan()
            await asyncio.sleep(120)
            must((await status(world)).state == "idle", "LIVE")
        await exactly_once(world, made)

    play(story)


# --- F75 --------------------------------------------------------------------------------------------------------------


def keep_everything(patch: pytest.MonkeyPatch) -> None:
    original, kept = Committer._committed, list[Any]()

    def committed(self: Committer, prepared: Any, table: Any) -> Any:
        kept.append(copy.deepcopy(table.metadata))
        self._lists_by_snapshot = kept  # type: ignore[attr-defined]
        return original(self, prepared, table)

    patch.setattr(Committer, "_committed", committed)


def weigh(root: Any, without: tuple[Any, ...]) -> int:
    """Bytes of everything that is reached from ``root``, but not of classes, modules and what is named in ``without``.

    Nor of ordered dictionaries: those are the caches that drop their oldest at a fixed number, which fifty commits do not fill.
    """
    seen = {id(one) for one in without}
    stack, total = [root], 0
    leave = (
        OrderedDict,
        LogIndex,
        type,
        types.ModuleType,
        types.FunctionType,
        types.CodeType,
        types.FrameType,
        asyncio.AbstractEventLoop,
        asyncio.Task,
    )
    while stack:
        one = stack.pop()
        if id(one) in seen or isinstance(one, leave) or isinstance(one, types.CoroutineType):
            continue
        seen.add(id(one))
        total += sys.getsizeof(one)
        stack += gc.get_referents(one)
    return total


@failure(
    "F75",
    title="Memory that only rises",
    others="keep caches by snapshot, schema or path without a limit",
    promise="what landing keeps of a table is bounded by the table's own metadata, which care keeps small",
    prevented=("frazil.catalogs.commit:Committer", "frazil.catalogs.pointers:PointerCatalog", "frazil.catalogs.care:Care"),
    wrong=Planted("every snapshot's metadata is kept", keep_everything),
)
def test_f75_memory_after_many_commits(case: Case) -> None:
    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        running = Running(world, replace(FAST, care_interval_ms=2_000))
        lakes = running.landing._lakes
        lake = lakes.find("default")
        few = CareSettings(keep=Keep(last=5, hours=0, days=0), expire_batch=3, manifests_max=5, manifest_entries_max=10)
        lakes._lakes["default"] = replace(lake, care=Care(lake.committer, few))
        sizes = []
        async with running:
            for rounds in (20, 30):
                for _ in range(rounds):
                    await world.produce("t", [js(n=1)])
                    await asyncio.sleep(1)
                without = (world, world.state, world.bucket, world.bucket.objects, world.pointers, world.topics, world.index)
                sizes.append(weigh((running.landing._owners, running.landing._lakes, running.landing._book), without))
        must(sizes[1] <= sizes[0] * 1.2, "BOUND", f"{sizes[0]} bytes after 20 commits, {sizes[1]} after 50")

    play(story)
