"""A slice of nothing but bad records: its dead letters are buried in parts that deadlines and memory can bear."""

from __future__ import annotations

import pytest
from tests.simulation.loop import run_virtual
from tests.unit.landing.test_landing_hostile_records import data, record
from tests.unit.landing.world import World

from frazil.landing import deadletter


@pytest.mark.parametrize(("letters_max", "bytes_max", "parts"), [(100, 1 << 20, 4), (10_000, 700, 4)])
def test_letters_are_buried_in_parts_and_each_once(monkeypatch: pytest.MonkeyPatch, letters_max: int, bytes_max: int, parts: int) -> None:
    monkeypatch.setattr(deadletter, "CHUNK_LETTERS", letters_max)
    monkeypatch.setattr(deadletter, "CHUNK_BYTES", bytes_max)

    async def story() -> None:
        world = World()
        await world.topics.create("t", 1)
        await world.append("t", 0, data([record(1000, b"not json") for _ in range(350)]))
        await world.append("t", 0, data([record(1000)]))
        await world.land()
        letters = await world.rows("default.t_dead")
        assert sorted(letter["offset"] for letter in letters) == list(range(350))
        assert {letter["value"] for letter in letters} == {b"not json"}
        assert len(await world.snapshots("default.t_dead")) == parts
        assert len(await world.rows("default.t")) == 1

    run_virtual(story())
