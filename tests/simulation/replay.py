"""Runs one seed again and tells its story.

python -m tests.simulation.replay --seed 81 [--seconds 300] [--plant R02] [--log]
"""

from __future__ import annotations

import argparse
import logging
import sys
from dataclasses import replace

from tests.simulation.planted import PLANTS
from tests.simulation.profiles import Profile, drawn, longer
from tests.simulation.run import Outcome, run_seed

SHOWN_MAX = 40


def command(seed: int, *, seconds: float = 0.0, plant: str = "") -> str:
    """What to type to see it again."""
    more = (f" --seconds {seconds:g}" if seconds else "") + (f" --plant {plant}" if plant else "")
    return f"python -m tests.simulation.replay --seed {seed}{more}"


def story(outcome: Outcome, *, seconds: float = 0.0, plant: str = "") -> str:
    """A failed seed in a page."""
    faults = ", ".join(f"{count} x {what}" for what, count in sorted(outcome.faults.items()))
    return "\n".join(
        [
            f"seed {outcome.seed} ({outcome.profile}), {outcome.virtual_s:.1f} s: {command(outcome.seed, seconds=seconds, plant=plant)}",
            f"faults: {faults or 'none'}",
            *outcome.trace[-SHOWN_MAX:],
            *(f"VIOLATION {violation}" for violation in outcome.violations[:20]),
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=0.0, help="a longer world, as in the full run")
    parser.add_argument("--plant", choices=sorted(PLANTS), help="put an old mistake back")
    parser.add_argument("--sound", choices=sorted(PLANTS), help="the world of an old mistake, without the mistake")
    parser.add_argument("--log", action="store_true", help="show what the product logs")
    asked = parser.parse_args()
    if asked.log:
        logging.basicConfig(level=logging.INFO, format="          %(name)s: %(message)s")
        logging.getLogger("frazil").setLevel(logging.DEBUG)
    name = asked.plant or asked.sound
    profile: Profile = longer(asked.seed, seconds=asked.seconds) if asked.seconds else drawn(asked.seed)
    if name:
        profile = replace(PLANTS[name].profile, name=name)
    if asked.plant:
        with PLANTS[asked.plant].install():
            outcome = run_seed(asked.seed, profile)
    else:
        outcome = run_seed(asked.seed, profile)
    print(story(outcome, seconds=asked.seconds, plant=asked.plant or ""))
    print(f"{len(outcome.violations)} violations, {outcome.acked} records acknowledged, {outcome.cpu_s:.2f} s of CPU")
    return 1 if outcome.violations else 0


if __name__ == "__main__":
    sys.exit(main())
