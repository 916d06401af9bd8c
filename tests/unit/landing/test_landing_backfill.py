"""A part of a log (options ``from`` and ``to``), and the same topic in a second table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from tests.simulation.loop import run_virtual
from tests.unit.landing.test_landing_kafscale import SPEC as BUCKET_SPEC
from tests.unit.landing.test_landing_kafscale import Bucket, play
from tests.unit.landing.world import FAST, World, auto_off

from frazil.kit.errors import Refused
from frazil.landing.extent import Mark, extent_of, parse_mark
from frazil.landing.options import check_options
from frazil.metadata.landings import LandingSpec, LandingStatus, put_landing
from frazil.records import build_batch
from frazil.records.building import BatchOptions, Record

SPEC = LandingSpec(table="db.t", topics=("t",), commit_interval_ms=1_000)
QUICK = replace(auto_off(FAST), progress_idle_ms=1_000)
T0 = 1_700_000_000_000  # 2023-11-14T22:13:20Z


async def filled(options: Mapping[str, str], *, batches: int = 5, size: int = 10, partitions: int = 1) -> World:
    """Record n of the topic has offset n, id n and a time n seconds after T0, in batches of ``size``."""
    world = World()
    await world.topics.create("t", partitions)
    await put_landing(world.store, replace(SPEC, options=options))
    for number in range(batches):
        await more(world, range(number * size, number * size + size))
    return world


async def more(world: World, ids: range) -> None:
    records = [Record(value=b'{"id": %d}' % at, timestamp_ms=T0 + at * 1_000) for at in ids]
    await world.append("t", 0, bytes(build_batch(records, options=BatchOptions())))


async def ids(world: World, table: str = "db.t") -> list[int]:
    return sorted(row["id"] for row in await world.rows(table))


@pytest.mark.parametrize(
    ("options", "want", "done"),
    [
        ({}, range(50), False),
        ({"from": "earliest"}, range(50), False),
        ({"from": "13"}, range(13, 50), False),
        ({"to": "13"}, range(13), True),
        ({"to": "20"}, range(20), True),
        ({"from": "13", "to": "37"}, range(13, 37), True),
        ({"from": "14", "to": "15"}, range(14, 15), True),
        ({"from": "2023-11-14T22:13:33Z"}, range(13, 50), False),
        ({"to": "2023-11-14T22:13:57.500Z"}, range(38), True),
        ({"from": "2023-11-14T22:13:33+00:00", "to": "2023-11-14T22:13:57"}, range(13, 37), True),
        ({"to": "2030-01-01T00:00:00Z"}, range(50), False),
    ],
)
def test_a_part_of_the_log_lands_to_the_record(options: dict[str, str], want: range, done: bool) -> None:
    async def main() -> None:
        world = await filled(options)
        await world.land(settings=QUICK)
        await world.land(3.0, settings=QUICK)
        assert await ids(world) == list(want)
        status = await world.status("db.t")
        assert (status.state, status.behind_records) == ("idle", 0)
        assert status.reason.startswith("done: ") == done

    run_virtual(main())


def test_a_done_backfill_takes_nothing_more_and_goes_on_when_its_end_moves() -> None:
    async def main() -> None:
        world = await filled({"to": "55"})
        await world.land(settings=QUICK)
        assert await ids(world) == list(range(50))
        await more(world, range(50, 60))
        await world.land(settings=QUICK)
        assert await ids(world) == list(range(55))
        assert (await world.status("db.t")).reason.startswith("done: ")
        await put_landing(world.store, replace(SPEC, options={"to": "30"}))  # takes nothing back
        await world.land(settings=QUICK)
        assert await ids(world) == list(range(55))
        await put_landing(world.store, SPEC)
        await world.land(settings=QUICK)
        assert await ids(world) == list(range(60))

    run_virtual(main())


def test_from_a_time_to_come_waits_for_it_whatever_restarts() -> None:
    async def main() -> None:
        world = await filled({"from": "2023-11-14T22:14:15Z"})  # record 55

        async def state() -> LandingStatus:
            await world.land(3.0, settings=QUICK)
            return await world.status("db.t")

        assert (await state()).behind_records == 0
        await more(world, range(50, 54))
        assert (await state()).behind_records == 0
        await more(world, range(54, 60))
        await state()
        assert await ids(world) == list(range(55, 60))

    run_virtual(main())


def test_a_topic_lands_again_in_another_table_from_the_log_start() -> None:
    async def main() -> None:
        world = await filled({})
        await world.land(settings=QUICK)
        await put_landing(world.store, replace(SPEC, table="db.again"))
        await put_landing(world.store, replace(SPEC, table="db.part", options={"from": "45"}))
        await more(world, range(50, 60))
        await world.land(settings=QUICK)
        for table, want in (("db.t", range(60)), ("db.again", range(60)), ("db.part", range(45, 60))):
            assert await ids(world, table) == list(want)

    run_virtual(main())


def test_an_end_inside_a_transaction_that_is_open_is_no_trouble() -> None:
    async def main() -> None:
        world = await filled({"to": "50"})
        options = BatchOptions(producer_id=5, producer_epoch=0, transactional=True, base_sequence=0)
        await world.append("t", 0, bytes(build_batch([Record(value=b"{}")], options=options)))
        await world.land(8.0, settings=QUICK)
        assert (await world.status("db.t")).state == "idle"

    run_virtual(main())


def test_a_part_of_a_kafscale_bucket() -> None:
    async def story(bucket: Bucket) -> None:
        for base in (0, 20, 40):
            await bucket.put(base, range(base, base + 20))
        spec = replace(BUCKET_SPEC, options={**BUCKET_SPEC.options, "from": "15", "to": "45"})
        landing = await bucket.land(spec=spec)
        assert await bucket.ids() == list(range(15, 45))
        (status,) = landing.statuses()
        assert status.state == "idle" and status.reason.startswith("done: ")

    play(story)


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("earliest", Mark(offset=0)),
        ("0", Mark(offset=0)),
        ("17", Mark(offset=17)),
        ("2023-11-14T22:13:20Z", Mark(time_ms=T0)),
        ("2023-11-15T00:13:20.5+02:00", Mark(time_ms=T0 + 500)),
        ("1969-12-31T23:59:59", Mark(time_ms=-1000)),
    ],
)
def test_marks(text: str, mark: Mark) -> None:
    assert parse_mark(text, about="x") == mark


@pytest.mark.parametrize("text", ["", "latest", "-1", "1.5", "9" * 25, "yesterday", "2023-13-01", "٣"])
def test_what_is_no_mark_is_refused(text: str) -> None:
    with pytest.raises(Refused, match=r"x: "):
        parse_mark(text, about="x")


@pytest.mark.parametrize(
    "options", [{"to": "earliest"}, {"from": "5", "to": "5"}, {"from": "2024-01-01", "to": "2023-01-01"}, {"from": "x"}]
)
def test_f01_an_extent_in_which_nothing_can_be_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(Refused):
        extent_of(options)
    with pytest.raises(Refused, match=r"option"):
        check_options(replace(SPEC, options=options))
