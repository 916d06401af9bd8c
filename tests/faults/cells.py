"""The fault matrix: every kill point of landing × every answer of a catalog and of a store, at least five runs a cell, all in virtual time.

    python -m tests.faults.cells --runs 5        writes docs/results/fault-matrix.json; goes on where it was stopped
    python -m tests.faults.cells --kind upsert   the same on a table with one row per key: docs/results/fault-matrix-upsert.json
    python -m tests.faults.cells --kind route    the same on a route into three tables: docs/results/fault-matrix-route.json
    python -m tests.faults.cells --print         the table of the result file

A cell's number in the table is its runs; a cell with a violation shows it. See tests/faults/onecell.py for what a run is.
"""

from __future__ import annotations

import argparse
import json
import logging
import signal
import sys
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from types import FrameType
from typing import Any

from tests.faults.onecell import ANSWERS, FORMS, POINTS, Cell, Outcome, run_cell
from tests.faults.routecell import RouteCell
from tests.faults.upsertcell import UpsertCell
from tests.simulation.results import RESULTS, commit_id, write_result

KINDS: dict[str, tuple[type[Cell], str]] = {
    "append": (Cell, "fault-matrix.json"),
    "upsert": (UpsertCell, "fault-matrix-upsert.json"),
    "route": (RouteCell, "fault-matrix-route.json"),
}
Job = tuple[str, str, int, str]
RUN_S_MAX = 60
"""Real seconds after which a run counts as stuck; one takes a third of a second."""


def run_one(job: Job) -> tuple[Job, Outcome]:
    point, answer, run, kind = job
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # every fault is on purpose
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(RUN_S_MAX)
    try:
        return job, run_cell(point, answer, run, KINDS[kind][0])
    except _Stuck as error:
        violation = f"LIVE: a run that takes seconds did not end: {error}"
        return job, Outcome(point=point, answer=answer, form=FORMS[run % len(FORMS)], violations=[violation])
    finally:
        signal.alarm(0)
        logging.disable(before)


class _Stuck(BaseException):
    """The world turns and turns, and no virtual time passes."""


def _too_long(_signal: int, frame: FrameType | None) -> None:
    raise _Stuck("; ".join(line.strip().replace("\n", " ") for line in traceback.format_stack(frame)[-6:]))


def table(cells: dict[str, Any]) -> str:
    """Points down, answers across in two blocks: runs per cell, or what went wrong."""
    lines = []
    for block in (ANSWERS[:9], ANSWERS[9:]):
        lines += ["| | " + " | ".join(block) + " |", "|---" * (len(block) + 1) + "|"]
        for point in POINTS:
            found = [cells.get(f"{point} {answer}", {}) for answer in block]
            lines.append(f"| {point} | " + " | ".join(_cell(one) for one in found) + " |")
        lines.append("")
    return "\n".join(lines)


def _cell(one: dict[str, Any]) -> str:
    bad = one.get("violations", [])
    return f"**{len(bad)} bad**: {bad[0][:60]}" if bad else str(one.get("runs", 0))


def summary(cells: dict[str, Any]) -> dict[str, Any]:
    return {
        "cells": len(cells),
        "runs": sum(one["runs"] for one in cells.values()),
        "runs_least": min((one["runs"] for one in cells.values()), default=0),
        "violations": sum(len(one["violations"]) for one in cells.values()),
        "rest": sum(one["rest"] for one in cells.values()),
        "not_fired": sum(one["runs"] - one["fired"] for one in cells.values()),
        "live_max_s": max((one["live_max_s"] for one in cells.values()), default=0.0),
        "loud_max_s": max((one["loud_max_s"] for one in cells.values()), default=0.0),
        "zombies": sum(one["forms"].get("zombie", 0) + one["forms"].get("late wake", 0) for one in cells.values()),
    }


def add(cells: dict[str, Any], outcome: Outcome) -> None:
    one = cells.setdefault(
        f"{outcome.point} {outcome.answer}",
        {"runs": 0, "rest": 0, "fired": 0, "met": 0, "live_max_s": 0.0, "loud_max_s": 0.0, "forms": {}, "violations": []},
    )
    one["runs"] += 1
    one["rest"] += outcome.rest
    one["fired"] += outcome.fired
    one["met"] += outcome.met
    one["live_max_s"] = max(one["live_max_s"], round(outcome.live_s, 2))
    one["loud_max_s"] = max(one["loud_max_s"], round(outcome.loud_s, 2))
    one["forms"] = dict(sorted((Counter(one["forms"]) + Counter([outcome.form])).items()))
    one["violations"] += [f"{outcome.form}: {what}" for what in outcome.violations]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.cells", description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--again", action="store_true", help="forget earlier results")
    parser.add_argument("--print", action="store_true", help="only print the table of the result file")
    parser.add_argument("--kind", choices=sorted(KINDS), default="append")
    options = parser.parse_args()
    name = KINDS[options.kind][1]
    path = RESULTS / name
    known: dict[str, Any] = json.loads(path.read_text()) if path.exists() and not options.again else {}
    if options.print:
        print(table(known["each"]))
        return 0
    commit = commit_id()
    cells: dict[str, Any] = known["each"] if known.get("commit") == commit and not commit.endswith("+") else {}
    begun, seconds = time.monotonic(), known.get("seconds", 0.0) if cells else 0.0
    jobs = [
        (point, answer, run, options.kind)
        for run in range(options.runs)
        for point in POINTS
        for answer in ANSWERS
        if cells.get(f"{point} {answer}", {"runs": 0})["runs"] <= run
    ]
    command = f"python -m tests.faults.cells --runs {options.runs}" + (f" --kind {options.kind}" if options.kind != "append" else "")

    def save() -> None:
        values = {**summary(cells), "seconds": round(seconds + time.monotonic() - begun, 1), "each": cells}
        write_result(name, command, values, commit=commit)

    with ProcessPoolExecutor(options.workers) as pool:
        for number, (job, outcome) in enumerate(pool.map(run_one, jobs, chunksize=4), 1):
            add(cells, outcome)
            for what in outcome.violations[:2]:
                print(f"{job}: {outcome.form}: {what}", flush=True)
            if number % 126 == 0:
                save()
    save()
    print(table(cells))
    print(json.dumps(summary(cells)))
    return 1 if any(one["violations"] for one in cells.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
