"""F01–F11: offsets and commit coordination."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from tests.failures.registry import Case, Naive, Planted, failure, must
from tests.failures.stories import (
    SMALL,
    TABLE,
    Running,
    exactly_once,
    fill,
    js,
    play,
    progress,
    status,
    values,
)
from tests.unit.landing.test_landing_exactly_once import Unreadable
from tests.unit.landing.test_landing_rules import control_batch, remove_below
from tests.unit.landing.world import FAST, World

from frazil.catalogs import commit as catalog_commit
from frazil.catalogs.faulty import FaultPlan
from frazil.catalogs.progress import SourcePartition
from frazil.kit.names import PartitionKey, TopicId
from frazil.landing import decode, source
from frazil.landing.ledger import Ledger
from frazil.landing.plan import PartitionState
from frazil.log.pins import drop_pin, set_pin
from frazil.records import build_batch
from frazil.records.building import BatchOptions, Record

# --- F01 --------------------------------------------------------------------------------------------------------------


def two_settings(case: Case) -> tuple[int, str]:
    """A sink whose leader is the first member of the group named by a second setting: nobody, when the two differ."""
    members = {"connect-sink-group": ["task-0"]}
    leader = next(iter(members.get("sink-default-group", [])), None)
    files = ["offsets 0-9"] if "task-0" in members["connect-sink-group"] else []
    committed = len(files) * 10 if leader == "task-0" else 0
    return committed, ""


def one_identity(case: Case) -> tuple[int, str]:
    """Landing of a table whose catalog never lets it commit: rows in the table, and what is said within two intervals."""
    said: list[Any] = []

    async def story(world: World) -> None:
        await fill(world, batches=2)
        bad = world.faulty_catalog(FaultPlan(rates={"C-401": 1.0}))
        async with Running(world, catalogs={"default": bad}):
            await asyncio.sleep(5)  # OVERDUE_MIN_MS is longer than two intervals of a second
            found = await status(world)
            said.append((len((await world.rows(TABLE))), f"{found.state} {found.topic} {found.stage}: {found.reason}"))

    play(story)
    return said[0]


@failure(
    "F01",
    title="Two settings that must name the same group, and do not: nothing is committed, nothing is said",
    others="work out who commits from a group name in a second setting; a default that matches nobody elects nobody",
    promise="one identity, derived from the cluster and never configured; when commits cannot happen the table is stalled within two"
    " intervals, with topic, stage and the catalog's own words",
    prevented=("frazil.landing.status:status_of", "frazil.landing.settings:LandingDeps"),
    wrong=Naive("the leader is looked up by a second group name", two_settings, one_identity),
)
def test_f01_an_identity_that_cannot_commit_is_loud(case: Case) -> None:
    committed, said = case.way(case)
    must(bool(committed) or said.startswith(("stalled t commit", "failed t commit")), "LOUD", (committed, said))


# --- F02 --------------------------------------------------------------------------------------------------------------


def two_stores(variant: int | None) -> list[int]:
    """Rows go to the table, then the next offset to a store of its own; a start believes the store."""
    table, store = list(range(100)), {"next": 100}
    if variant is None:
        store.clear()
    else:
        store["next"] = variant
    table += range(store.get("next", 0), 110)
    return table


def table_alone(variant: int | None) -> list[int]:
    found: list[int] = []

    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        await world.produce("t", [js(n=n) for n in range(100)])
        await world.land()
        if variant is None:
            await drop_pin(world.store, TABLE)
        else:
            await set_pin(world.store, TABLE, {world.key("t"): variant}, now_ms=world.clock.now_ms())
        await world.produce("t", [js(n=n) for n in range(100, 110)])
        await world.land()
        found.extend(await values(world, "n"))

    play(story)
    return found


@failure(
    "F02",
    title="Progress in two places that can disagree",
    others="append rows, then write the offset to a second store as a second step, and believe that store",
    promise="the table's own progress is the only truth; pins are a cache that may be lost, old or ahead",
    prevented=("frazil.catalogs.progress:read_progress", "frazil.landing.pipeline:TablePipeline"),
    wrong=Naive("a start goes on where the second store says", two_stores, table_alone),
)
def test_f02_the_table_is_the_only_truth(case: Case) -> None:
    for variant in (None, 40, 150):
        found = case.way(variant)
        must(sorted(found) == list(range(110)), "EO", f"outside pointer {variant}: {len(found)} rows")


# --- F03 --------------------------------------------------------------------------------------------------------------


def bare_offsets(patch: pytest.MonkeyPatch) -> None:
    def at(self: Ledger, key: PartitionKey) -> SourcePartition:
        return SourcePartition(source="t", topic_id=TopicId(bytes(16)), partition=int(key.partition))

    patch.setattr(Ledger, "_at", at)


@failure(
    "F03",
    title="Progress that belongs to a log that is gone",
    others="compare bare offsets of a topic's name, so records of the re-created topic count as seen",
    promise="progress is kept by cluster incarnation, topic id and partition; the new topic's records all land beside the old ones",
    prevented=("frazil.landing.ledger:Ledger", "frazil.catalogs.progress:SourcePartition"),
    wrong=Planted("progress is kept by partition number alone", bare_offsets),
)
def test_f03_a_re_created_topic_is_another_log(case: Case) -> None:
    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        await world.produce("t", [js(n=n) for n in range(1000)])
        await world.land()
        await world.topics.delete("t")
        await world.topics.create("t", 1)
        await world.produce("t", [js(n=1000 + n) for n in range(5)])
        await world.land()
        must(sorted(await values(world, "n")) == list(range(1005)), "EO", "the five records of the new topic")

    play(story)


# --- F04 --------------------------------------------------------------------------------------------------------------


def head_only(patch: pytest.MonkeyPatch) -> None:
    original = source.read_progress

    async def read(objects: Any, table: Any) -> Any:
        metadata = table.metadata
        head = next((s for s in metadata["snapshots"] if s["snapshot-id"] == metadata.get("current-snapshot-id")), None)
        return await original(objects, table) if head and "frazil.commit-id" in head["summary"] else {}

    patch.setattr(source, "read_progress", read)
    patch.setattr(catalog_commit, "read_progress", read)


@failure(
    "F04",
    title="The snapshot that carried the progress is expired",
    others="keep progress in one snapshot's summary; after another engine's snapshot and an expiry they find nothing and start over",
    promise="the snapshot that carries progress is tagged, and progress is read through foreign snapshots; where it cannot be established"
    " the table is not written",
    prevented=("frazil.catalogs.progress:read_progress", "frazil.catalogs.progress:progress_value"),
    wrong=Planted("only the head's own summary is looked at", head_only),
)
def test_f04_progress_outlives_foreign_maintenance(case: Case) -> None:
    async def story(world: World) -> None:
        made = await fill(world)
        await world.land()
        catalog = world.catalog()
        table = await catalog.load(TABLE)
        head = next(s for s in table.metadata["snapshots"] if s["snapshot-id"] == table.metadata["current-snapshot-id"])
        foreign = {
            **head,
            "snapshot-id": 77,
            "parent-snapshot-id": head["snapshot-id"],
            "sequence-number": head["sequence-number"] + 1,
            "timestamp-ms": world.clock.now_ms(),
            "summary": {"operation": "replace", "total-records": head["summary"]["total-records"]},
        }
        main = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 77}
        table = await catalog.commit(TABLE, table, [], [{"action": "add-snapshot", "snapshot": foreign}, main])
        held = {ref["snapshot-id"] for ref in table.metadata["refs"].values()}
        gone = [s["snapshot-id"] for s in table.metadata["snapshots"] if s["snapshot-id"] not in held]
        if gone:
            await catalog.commit(TABLE, table, [], [{"action": "remove-snapshots", "snapshot-ids": gone}])
        await drop_pin(world.store, TABLE)
        made |= await fill(world, batches=2)
        await world.land()
        await exactly_once(world, made)

    play(story)


# --- F05 --------------------------------------------------------------------------------------------------------------


def last_writer_wins(saves: list[tuple[str, int, int]]) -> list[int]:
    """A plain put: whoever saves last is right."""
    progress, seen = 0, []
    for _writer, _before, after in saves:
        progress = after
        seen.append(progress)
    return seen


def conditional(saves: list[tuple[str, int, int]]) -> list[int]:
    """The product's test of a commit against the table's progress."""
    key = SourcePartition(source="c/1", topic_id=TopicId(bytes(16)), partition=0)
    progress, seen = {key: 95}, []
    for _writer, before, after in saves:
        if not catalog_commit._passed(progress, {key: catalog_commit.Move(before=before, after=after)}):
            progress[key] = after
        seen.append(progress[key])
    return seen


@failure(
    "F05",
    title="Committed progress moves backwards",
    others="save offsets by a plain put, so a paused writer that wakes up overwrites what its successor saved",
    promise="progress moves only from the very value it was planned on; a stale save is refused by the commit itself",
    prevented=("frazil.catalogs.commit:_passed", "frazil.catalogs.progress:Move"),
    wrong=Naive("the last writer wins", last_writer_wins, conditional),
)
def test_f05_progress_never_goes_back(case: Case) -> None:
    seen = case.way([("B", 95, 105), ("A", 95, 100), ("C", 105, 110)])
    must(seen == sorted(seen), "EO", f"progress went {seen}")


# --- F06 --------------------------------------------------------------------------------------------------------------


def announced(_case: Case) -> list[int]:
    """A worker marks source offsets done when it announces its file; the committer dies, its successor reads new announcements only."""
    log, table, source_done = list(range(20)), list[int](), 0
    announcements = [log[source_done:20]]
    source_done = 20
    announcements.clear()  # the committer is killed; the successor starts at the end of the stream
    for file in announcements:
        table += file
    return table + log[source_done:]


def committed(case: Case) -> list[int]:
    found: list[int] = []

    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        await world.produce("t", [js(n=n) for n in range(20)])
        must(await world.land_until_killed("P3"), "RULE", "P3 is reached")
        await world.land()
        found.extend(await values(world, "n"))

    play(story)
    return found


@failure(
    "F06",
    title="A successor starts at the end of the announcements",
    others="mark source offsets done when a file is announced, not when the table holds it",
    promise="source progress is part of the table commit that holds the rows; files without a commit are nobody's",
    prevented=("frazil.landing.commit:commit_slice", "frazil.catalogs.commit:Landed"),
    wrong=Naive("offsets are done when the file is announced", announced, committed),
)
def test_f06_progress_moves_with_the_rows(case: Case) -> None:
    must(case.way(case) == list(range(20)), "EO")


# --- F07 --------------------------------------------------------------------------------------------------------------


def by_counter(_case: Case) -> list[int]:
    """Work is known by the number of its checkpoint; restored to 4, the numbers 5 to 10 count as committed."""
    table, highest = [*range(10)], 10
    checkpoint = 4
    for record in range(10, 16):
        checkpoint += 1
        if checkpoint > highest:
            table.append(record)
    return table


def by_range(case: Case) -> list[int]:
    found: list[int] = []

    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        old: dict[PartitionKey, int] = {}
        for number in range(10):
            await world.produce("t", [js(n=number)])
            await world.land(2.5)
            if number == 3:
                old = {world.key("t"): 4}
        await set_pin(world.store, TABLE, old, now_ms=world.clock.now_ms())
        await world.produce("t", [js(n=n) for n in range(10, 16)])
        await world.land()
        found.extend(await values(world, "n"))

    play(story)
    return found


@failure(
    "F07",
    title="An older private state makes later work look done",
    others="decide by a counter that goes back when a savepoint is restored",
    promise="work is known by incarnation, partition and offset range; no private state decides what is committed",
    prevented=("frazil.landing.ledger:Ledger", "frazil.catalogs.progress:SourcePartition"),
    wrong=Naive("checkpoint numbers up to the highest seen are skipped", by_counter, by_range),
)
def test_f07_an_older_private_state_skips_nothing(case: Case) -> None:
    must(case.way(case) == list(range(16)), "EO")


# --- F08 --------------------------------------------------------------------------------------------------------------


def next_segment(_case: Case) -> list[int]:
    """An error on one segment is logged; the next one's success stores its own last offset."""
    table, done, tries = list[int](), 0, 0
    for _round in range(3):
        for first in (0, 100):
            if first + 100 <= done:
                continue
            tries += 1
            if first == 0 and tries == 1:
                continue  # the store answered 404 once
            table += range(first, first + 100)
            done = first + 100
    return table


def whole_prefix(case: Case) -> list[int]:
    found: list[int] = []

    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        await world.produce("t", [js(n=n) for n in range(100)])
        first = [key for key in world.bucket.keys if key.startswith("bundles/")]
        await world.produce("t", [js(n=n) for n in range(100, 200)])
        broken = Unreadable(world, lambda key: key in first)
        async with Running(world, SMALL, objects=broken, catalogs={"default": world.faulty_catalog(FaultPlan(script=("C-5xx/n",) * 3))}):
            await asyncio.sleep(5)
            broken.broken = False
            await asyncio.sleep(60)
        found.extend(await values(world, "n"))

    play(story)
    return found


@failure(
    "F08",
    title="A failed piece is passed over and progress jumps it",
    others="go on to the next segment after an error and store that one's last offset as the high-water mark",
    promise="a partition is read from the table's progress on and nowhere else; what cannot be read holds it up, by name",
    prevented=("frazil.landing.read:SliceReader", "frazil.landing.plan:plan_slice"),
    wrong=Naive("an error on one segment is passed over by the next one's success", next_segment, whole_prefix),
)
def test_f08_nothing_is_passed_over(case: Case) -> None:
    must(case.way(case) == list(range(200)), "EO")


# --- F09 --------------------------------------------------------------------------------------------------------------


def at_the_end(patch: pytest.MonkeyPatch) -> None:
    def start(self: PartitionState) -> int:
        if self.next_offset is None and self.key.partition:
            return self.bounds.end
        return max(self.next_offset or 0, self.bounds.start)

    patch.setattr(PartitionState, "start", property(start))


@failure(
    "F09",
    title="Partitions added to a running topic are joined at their end",
    others="start a partition they do not know at latest, and take a partial rebalance for a full one",
    promise="a partition without progress starts at its log start; nobody is assigned partitions, so nothing is rebalanced",
    prevented=("frazil.landing.plan:PartitionState",),
    wrong=Planted("new partitions start at their end", at_the_end),
)
def test_f09_new_partitions_land_from_their_first_record(case: Case) -> None:
    async def story(world: World) -> None:
        made = await fill(world, batches=2, partitions=2)
        async with Running(world):
            await asyncio.sleep(3)
            await world.topics.set_partitions("t", 6)
            for partition in range(6):
                offsets = await world.produce("t", [js(n=n) for n in range(10)], partition=partition)
                made |= {(partition, offset) for offset in offsets}
            await asyncio.sleep(5)
        await exactly_once(world, made)

    play(story)


# --- F10 --------------------------------------------------------------------------------------------------------------


def to_latest(patch: pytest.MonkeyPatch) -> None:
    def start(self: PartitionState) -> int:
        if self.next_offset is not None and self.next_offset < self.bounds.start:
            return self.bounds.end
        return max(self.next_offset or 0, self.bounds.start)

    patch.setattr(PartitionState, "start", property(start))


@failure(
    "F10",
    title="Retention overtakes the sink",
    others="leave an out-of-range start to a client default: a jump over readable data, or an endless error",
    promise="what a table needs is pinned; removed all the same, the range is a recorded loss and reading goes on at the log start",
    prevented=("frazil.landing.plan:find_losses", "frazil.log.pins:set_pin"),
    wrong=Planted("an offset out of range is reset to the log end", to_latest),
)
def test_f10_what_is_left_lands_and_the_loss_is_named(case: Case) -> None:
    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        await world.produce("t", [js(n=n) for n in range(100)])
        await world.land()
        for first in range(100, 1000, 100):
            await world.produce("t", [js(n=first + n) for n in range(100)])
        await remove_below(world, 500)
        async with Running(world):
            await asyncio.sleep(5)
            must(await values(world, "n") == [*range(100), *range(500, 1000)], "EO", "the rows that were left")
            must("t[0] 100-499" in (await status(world)).reason, "LOUD", "the loss is named")

    play(story)


# --- F11 --------------------------------------------------------------------------------------------------------------


def dense(patch: pytest.MonkeyPatch) -> None:
    original = decode._decode_one

    def one(read: Any, tally: Any) -> int:
        before = len(tally.scanner)
        end = original(read, tally)
        return min(end, read.start + len(tally.scanner) - before)

    patch.setattr(decode, "_decode_one", one)


@failure(
    "F11",
    title="Gaps in the offsets are taken for missing data",
    others="expect dense offsets, and call a partition done when the last row's offset is end − 1",
    promise="offsets that log compaction or markers took are consumed like others: progress reaches the end, lag is 0",
    prevented=("frazil.landing.decode:decode_slices", "frazil.landing.ledger:Ledger"),
    wrong=Planted("progress is the first offset plus the number of rows", dense),
)
def test_f11_gaps_and_markers_are_consumed(case: Case) -> None:
    async def story(world: World) -> None:
        await world.topics.create("t", 1)
        await world.append("t", 0, sparse(b'{"n":%d}', (0, 1, 2, 7, 8, 9)))
        await world.append("t", 0, control_batch())
        async with Running(world, replace(FAST, progress_idle_ms=2_000)):
            await asyncio.sleep(20)
            must(await world.offsets(TABLE) == [0, 1, 2, 7, 8, 9], "EO")
            must(await progress(world) == {0: 11}, "EO", "progress reaches the end")
            must((await status(world)).behind_records == 0, "EO", "lag is 0")

    play(story)


def sparse(pattern: bytes, offsets: tuple[int, ...]) -> bytes:
    """A batch of ten offsets in which only some records are left, as log compaction leaves it."""
    kept = [Record(key=b"k", value=pattern % offset, timestamp_ms=1_700_000_000_000) for offset in offsets]
    return bytes(build_batch(kept, options=BatchOptions(offset_deltas=offsets, last_offset_delta=9)))
