"""F17–F19: tables with one row per key, and change events."""

from __future__ import annotations

from typing import Any

from tests.failures.registry import Case, Naive, failure, must
from tests.failures.stories import play
from tests.unit.landing.test_landing_upsert import debezium, rows, send, spec
from tests.unit.landing.world import World, auto_off

from frazil.metadata.landings import put_landing

Event = dict[str, Any]

# --- F17 --------------------------------------------------------------------------------------------------------------


def merged_rounds(first: list[Event], second: list[Event]) -> dict[int, list[int]]:
    """Files of a round that ran out of time are reported late and committed together with the next: one sequence number for all."""
    files = [(1, event) for event in first] + [(1, event) for event in second]
    deletes = [(1, event["id"]) for event in second]
    live = [event for sequence, event in files if not any(s > sequence and event["id"] == key for s, key in deletes)]
    return {event["id"]: [one["v"] for one in live if one["id"] == event["id"]] for event in live}


def killed_between(first: list[Event], second: list[Event]) -> dict[int, list[int]]:
    """The process dies with the first round's files stored and uncommitted; both rounds' events are there for its successor."""
    found: dict[int, list[int]] = {}

    async def story(world: World) -> None:
        await world.topics.create("changes", 1)
        for write in ("equality", "positions"):
            await put_landing(world.store, spec(upsert__write=write))
        await send(world, first)
        must(await world.land_until_killed("P3", settings=auto_off()), "RULE", "P3 is reached")
        await send(world, second)
        await world.land(3, auto_off())
        found.update({key: [value] for key, value in (await rows(world)).items()})

    play(story)
    return found


@failure(
    "F17",
    title="Late files of a round that ran out of time are merged into the next",
    others="commit files of two rounds with one sequence number: the second round's deletes do not reach the first round's rows",
    promise="files are committed with the progress they were made from or never; what a dead process left is nobody's",
    prevented=("frazil.landing.upsertcommit:commit_upsert", "frazil.catalogs.rowdelta:RowDelta"),
    wrong=Naive("late files join the next round's commit", merged_rounds, killed_between),
)
def test_f17_late_files_join_no_other_commit(case: Case) -> None:
    found = case.way([{"id": 1, "region": "r", "v": 1}], [{"id": 1, "region": "r", "v": 2}])
    must(found == {1: [2]}, "EO", found)


# --- F18 --------------------------------------------------------------------------------------------------------------


def deletes_of_earlier_commits(batches: list[list[Event]], **_: str) -> dict[int, list[int]]:
    """An equality delete per event, in the partition of the new row; it reaches rows of earlier commits in that partition."""
    live: list[tuple[int, Event]] = []
    for sequence, batch in enumerate(batches):
        doomed = {(event["id"], event["region"]) for event in batch}
        live = [(at, event) for at, event in live if at >= sequence or (event["id"], event["region"]) not in doomed]
        live += [(sequence, event) for event in batch]
    return {event["id"]: [one["v"] for _, one in live if one["id"] == event["id"]] for _, event in live}


def one_row_per_key(batches: list[list[Event]], **options: str) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}

    async def story(world: World) -> None:
        await world.topics.create("changes", 1)
        await put_landing(world.store, spec(**options))
        for batch in batches:
            await send(world, batch)
            await world.land(3, auto_off())
        found.update({key: [value] for key, value in (await rows(world)).items()})  # rows() refuses a key with two rows

    play(story)
    return found


@failure(
    "F18",
    title="The same key twice in a batch, across commits, or across partitions",
    others="let a delete see earlier commits only, and only in the new row's partition",
    promise="one row per key, the one of the highest offset: in a batch the last event alone is written, old rows go wherever they are",
    prevented=("frazil.landing.upsert:parse_upsert", "frazil.catalogs.keys:KeyFinder"),
    wrong=Naive("an equality delete for each event, in the partition of the new row", deletes_of_earlier_commits, one_row_per_key),
)
def test_f18_one_row_per_key(case: Case) -> None:
    batches = [
        [{"id": 1, "region": "a", "v": 1}, {"id": 1, "region": "a", "v": 2}, {"id": 1, "region": "a", "v": 3}],
        [{"id": 1, "region": "b", "v": 4}, {"id": 2, "region": "a", "v": 5}],
    ]
    for write in ("positions", "equality", "copy"):
        options = {"upsert__write": write, **({"partition": "region"} if write != "equality" else {})}
        found = case.way(batches, **options)
        must(found == {1: [4], 2: [5]}, "EO", (write, found))


# --- F19 --------------------------------------------------------------------------------------------------------------


def convention(events: list[Event]) -> tuple[dict[int, int], int]:
    """The operation is at ``_op``; what has none is an insert."""
    table: dict[int, int] = {}
    for event in events:
        row = event.get("after") or event.get("before") or {}
        if event.get("_op") == "d":
            table.pop(row["id"], None)
        else:
            table[row["id"]] = row["v"]
    return table, 0


def checked(events: list[Event]) -> tuple[dict[int, int], int]:
    found: list[tuple[dict[int, int], int]] = []

    async def story(world: World) -> None:
        await world.topics.create("changes", 1)
        await put_landing(world.store, spec(envelope="debezium"))
        await send(world, list(events))
        await world.land(3, auto_off())
        found.append((await rows(world), len(await world.rows("lake.rows_dead"))))

    play(story)
    return found[0]


@failure(
    "F19",
    title="A change envelope misread: updates and deletes land as inserts",
    others="look for the operation where a convention has it, and take its absence for an insert",
    promise="the envelope is named by an option; an event in which its operation is missing is a dead letter, never an insert",
    prevented=("frazil.landing.envelope:take_rows", "frazil.landing.changes:Changes"),
    wrong=Naive("the operation is at _op; an event without one is an insert", convention, checked),
)
def test_f19_no_operation_is_no_insert(case: Case) -> None:
    row = {"region": "r"}
    events = [
        debezium("c", None, {"id": 1, "v": 1, **row}),
        debezium("u", {"id": 1, "v": 1, **row}, {"id": 1, "v": 2, **row}),
        debezium("c", None, {"id": 2, "v": 1, **row}),
        debezium("d", {"id": 2, "v": 1, **row}, None),
        {"before": None, "after": {"id": 3, "v": 1, **row}},
    ]
    table, dead = case.way(events)
    must(table == {1: 2} and dead == 1, "EO", (table, dead))
