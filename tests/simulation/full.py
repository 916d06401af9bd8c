"""The full run: longer worlds until twenty hours of virtual time are covered. Stop it at any time and start it again.

python -m tests.simulation.full --hours 20 [--workers 2] [--fresh]

Seeds done are kept in docs/results/simulation.json; on another commit it starts anew.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from tests.simulation.profiles import longer
from tests.simulation.replay import story
from tests.simulation.results import RESULTS, commit_id, write_result
from tests.simulation.run import Outcome, run_seed

FILE = "simulation.json"
FIRST_SEED = 100_000
LENGTHS_S = (60.0, 150.0, 400.0)
ROUND = 40


def length_of(seed: int) -> float:
    return LENGTHS_S[seed % len(LENGTHS_S)]


def one(seed: int) -> Outcome:
    outcome = run_seed(seed, longer(seed, seconds=length_of(seed)))
    if not outcome.violations:
        outcome.trace.clear()
    return outcome


def load(*, fresh: bool) -> dict[str, Any]:
    """What an earlier run on this commit has done."""
    path = RESULTS / FILE
    if path.exists() and not fresh:
        found = json.loads(path.read_text())
        if found["commit"] == commit_id():
            return found
    return {"hours": 0.0, "seeds": 0, "violations": 0, "acknowledged": 0, "cpu_s": 0.0, "faults": {}, "failed": []}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=20.0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--fresh", action="store_true", help="forget what was done before")
    asked = parser.parse_args()
    done, commit = load(fresh=asked.fresh), commit_id()
    done.pop("commit", None), done.pop("command", None)
    began = time.monotonic()
    with ProcessPoolExecutor(asked.workers) as pool:
        while done["hours"] < asked.hours:
            first = FIRST_SEED + done["seeds"]
            for outcome in pool.map(one, range(first, first + ROUND)):
                add(done, outcome)
            write_result(FILE, f"python -m tests.simulation.full --hours {asked.hours:g}", done, commit=commit)
            print(
                f"{done['hours']:.1f} h, {done['seeds']} seeds, {done['violations']} violations, {time.monotonic() - began:.0f} s",
                flush=True,
            )
    print(json.dumps(done, indent=1))
    return 1 if done["violations"] else 0


def add(done: dict[str, Any], outcome: Outcome) -> None:
    """Adds one seed to the sum."""
    done["hours"] = round(done["hours"] + outcome.virtual_s / 3600, 4)
    done["seeds"] += 1
    done["acknowledged"] += outcome.acked
    done["cpu_s"] = round(done["cpu_s"] + outcome.cpu_s, 2)
    done["faults"] = dict(sorted((Counter(done["faults"]) + outcome.faults).items()))
    if outcome.violations:
        done["violations"] += len(outcome.violations)
        done["failed"].append({"seed": outcome.seed, "seconds": length_of(outcome.seed), "violations": outcome.violations[:5]})
        print(story(outcome, seconds=length_of(outcome.seed)), flush=True)


if __name__ == "__main__":
    sys.exit(main())
