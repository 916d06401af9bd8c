"""Thresholds of dead letters: one that tells, one that stops, and what lifts them."""

from __future__ import annotations

import pytest
from tests.simulation.loop import run_virtual
from tests.unit.landing.world import World, auto_off

from frazil.kit.errors import Refused
from frazil.landing.options import check_options
from frazil.landing.thresholds import thresholds_of
from frazil.metadata.landings import LandingSpec, put_landing

GOOD, BAD = b'{"n": 1}', b'{"n":'


def spec(**options: str) -> LandingSpec:
    return LandingSpec(table="lake.t", topics=("t",), options={f"deadletters.{name}": value for name, value in options.items()})


async def started(world: World, **options: str) -> None:
    await world.topics.create("t", partitions=1)
    await put_landing(world.store, spec(**options))


def test_f28_the_first_bad_record_stops_a_table_that_wants_none_and_nothing_is_passed_over() -> None:
    async def work() -> None:
        world = World()
        await started(world, stop="0")
        await world.produce("t", [GOOD, BAD, GOOD])
        await world.land(6, auto_off())
        status = await world.status("lake.t")
        assert (status.state, status.stage) == ("failed", "deadletter")
        assert "t/0 offset 1: not-json" in status.reason
        assert "deadletters.stop=0" in status.reason
        await put_landing(world.store, spec(stop="1"))
        await world.land(6, auto_off())
        assert await world.offsets("lake.t") == [0, 2]
        assert [row["offset"] for row in await world.rows("lake.t_dead")] == [1]
        await world.produce("t", [BAD])
        await world.land(6, auto_off())
        assert (await world.status("lake.t")).state == "failed", "letters are counted over processes"
        assert len(await world.rows("lake.t_dead")) == 1

    run_virtual(work())


def test_more_letters_than_the_alert_are_told_while_landing_goes_on_also_by_the_next_process() -> None:
    async def work() -> None:
        world = World()
        await started(world, alert="1")
        await world.produce("t", [GOOD, BAD])
        await world.land(6, auto_off())
        assert (await world.status("lake.t")).state == "idle"
        await world.produce("t", [BAD, GOOD])
        for _ in range(2):
            await world.land(6, auto_off())
            status = await world.status("lake.t")
            assert (status.state, status.stage) == ("alert", "deadletter")
            assert "2 dead letters, more than deadletters.alert=1" in status.reason
        assert await world.offsets("lake.t") == [0, 3]

    run_virtual(work())


@pytest.mark.parametrize("value", ["-1", "many", "1.5", "²", "", "9" * 16])
def test_a_threshold_that_is_no_number_is_refused(value: str) -> None:
    for name in ("alert", "stop"):
        with pytest.raises(Refused, match=f"deadletters.{name}"):
            check_options(spec(**{name: value}))
        with pytest.raises(Refused, match=f"deadletters.{name}"):
            thresholds_of(spec(**{name: value}).options)
