"""Two thousand worlds, and that a seed is a history: the same in every process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from tests.simulation.profiles import longer
from tests.simulation.replay import story
from tests.simulation.results import ROOT
from tests.simulation.run import run_seed

CHUNK = 50
SEEDS = 2_000


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_worlds_break_no_promise(first: int) -> None:
    stories = [story(outcome) for seed in range(first, first + CHUNK) if (outcome := run_seed(seed)).violations]
    assert not stories, "\n\n".join(stories)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(50_000, 50_008))
def test_longer_worlds_break_no_promise(seed: int) -> None:
    outcome = run_seed(seed, longer(seed, seconds=60))
    assert not outcome.violations, story(outcome, seconds=60)


def test_a_world_has_faults_and_gets_records_through_them() -> None:
    outcomes = [run_seed(seed) for seed in range(12)]
    assert all(outcome.acked > 0 for outcome in outcomes)
    kinds = {what for outcome in outcomes for what in outcome.faults}
    assert len(kinds) >= 10, kinds


def test_a_seed_is_one_history_in_every_process() -> None:
    code = "from tests.simulation.run import run_seed; print([run_seed(seed).digest for seed in (7, 31, 34, 36)])"
    digests = {
        subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": hashes}, check=True, capture_output=True, text=True
        ).stdout
        for hashes in ("1", "2")
    }
    assert len(digests) == 1
