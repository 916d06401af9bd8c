"""The full form of the kill test: each point fires N times; resumable; writes docs/results/kill-points.json and prints the table.

python -m tests.faults.full --fires 15
"""

from __future__ import annotations

import argparse
import pathlib
import random
import shutil
import sys
import tempfile
import time

from tests.faults import results, rig

FILE = "kill-points.json"
BROKER_POINTS = ("B1", "B2", "B3", "B4", "B5")
LANDING_POINTS = ("P1", "P2", "P3", "P4", "P5", "P6", "P7")


def run_point(point: str, fires: int, seed: int) -> dict[str, object]:
    """Fires ``point`` ``fires`` times on one fresh directory; odd seeds use an idempotent producer, even ones a plain one."""
    chance = random.Random(seed)
    directory = pathlib.Path(tempfile.mkdtemp(prefix=f"frazil-{point}-"))
    deployment = rig.Deployment(directory)
    seconds: list[float] = []
    try:
        deployment.start("broker")
        deployment.start("land")
        work = rig.Workload(deployment, idempotent=seed % 2 == 1)
        for _ in range(fires):
            if point in BROKER_POINTS:
                seconds.append(rig.fire_broker_point(deployment, work, point, chance.randint(1, 12)))
            else:
                seconds.append(rig.fire_landing_point(deployment, work, point, chance.randint(1, 2)))
    finally:
        deployment.close()
    shutil.rmtree(directory, ignore_errors=True)
    return {
        "point": point,
        "fires": fires,
        "eo": fires,
        "whole": fires,
        "live": fires,
        "live_max_s": round(max(seconds, default=0.0), 2),
        "seed": seed,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fires", type=int, default=15)
    parser.add_argument("--points", default=",".join(BROKER_POINTS + LANDING_POINTS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--again", action="store_true", help="forget earlier results")
    options = parser.parse_args()
    known = {} if options.again else results.load(FILE)
    done = {row["point"]: row for row in known.get("points", []) if row["fires"] >= options.fires}
    for point in options.points.split(","):
        if point in done:
            continue
        started, began = time.monotonic(), results.source_version()
        halves = [run_point(point, (options.fires + 1) // 2, options.seed), run_point(point, options.fires // 2, options.seed + 1)]
        done[point] = merged(halves) | {"ran_on": began["commit"]}
        print(f"{point}: fired {options.fires} times in {time.monotonic() - started:.0f} s", flush=True)
        save([done[p] for p in BROKER_POINTS + LANDING_POINTS if p in done])
    print_table([done[p] for p in BROKER_POINTS + LANDING_POINTS if p in done])
    return 0


def save(rows: list[dict[str, object]]) -> None:
    """The result file, with the figures that ``make bench-check`` judges."""
    fires = [int(str(row["fires"])) for row in rows]
    slowest = max(float(str(row["live_max_s"])) for row in rows)
    values = {"points_count": len(rows), "fires_min": min(fires), "live_max_s": slowest, "points": rows}
    results.save(FILE, "python -m tests.faults.full", values)


def merged(halves: list[dict[str, object]]) -> dict[str, object]:
    """The two halves of a point (idempotent and plain producer) as one row."""
    row = dict(halves[0])
    for name in ("fires", "eo", "whole", "live"):
        row[name] = sum(int(str(half[name])) for half in halves)
    row["live_max_s"] = max(float(str(half["live_max_s"])) for half in halves)
    return row


def print_table(rows: list[dict[str, object]]) -> None:
    print(f"{'point':>6}{'fired':>7}{'EO':>5}{'WHOLE':>7}{'LIVE':>6}{'slowest s':>11}")
    for row in rows:
        print(f"{row['point']:>6}{row['fires']:>7}{row['eo']:>5}{row['whole']:>7}{row['live']:>6}{row['live_max_s']:>11}")


if __name__ == "__main__":
    sys.exit(main())
