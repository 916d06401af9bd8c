"""Each of nine old mistakes, put back, is caught within fifty seeds; the same worlds without it are clean."""

from __future__ import annotations

import pytest
from tests.simulation.planted import PLANTS, SEEDS_MAX, hunt, sound

SOUND_SEEDS = 12


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTS)
def test_the_mistake_is_caught(name: str) -> None:
    _, seeds, how = hunt(name)
    assert 0 < seeds <= SEEDS_MAX, f"{PLANTS[name].what}: not noticed"
    print(f"{name}: seed {seeds - 1}: {how}")


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTS)
def test_without_the_mistake_its_worlds_are_clean(name: str) -> None:
    for seed in range(SOUND_SEEDS):
        assert not sound(name, seed), f"python -m tests.simulation.replay --seed {seed} --sound {name}"


def test_there_are_nine() -> None:
    assert len(PLANTS) == 9
