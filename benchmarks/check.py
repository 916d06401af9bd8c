"""``make bench-check``: judges the committed result files by their thresholds. Nothing is measured here.

Each line of THRESHOLDS names a result file, a value in it (dotted path), a comparison and a bound. A missing file or value fails.
Benchmarks (files named bench-*.json) fail also when their commit is more than AGE_COMMITS_MAX commits ago, or when the source had
changes that were not committed: a speed is a property of the code it was measured on.
"""

from __future__ import annotations

import json
import operator
import pathlib
import subprocess
import sys
from dataclasses import dataclass

RESULTS = pathlib.Path(__file__).resolve().parents[1] / "docs" / "results"
AGE_COMMITS_MAX = 20
COMPARE = {"<=": operator.le, ">=": operator.ge, "==": operator.eq}


@dataclass(frozen=True)
class Threshold:
    file: str
    value: str
    how: str
    bound: float
    proves: str


THRESHOLDS = (
    Threshold("demo.json", "rows", "==", 336_776, "1.1 demo: rows"),
    Threshold("demo.json", "distance", "==", 350_217_607, "1.1 demo: sum(distance)"),
    Threshold("demo.json", "no_delay", "==", 8_255, "1.1 demo: dep_delay is null"),
    Threshold("demo.json", "visible_s", "<=", 60, "1.1 demo: first produce to last row visible, seconds"),
    Threshold("demo-s3.json", "rows", "==", 336_776, "2.2 demo on S3 and a REST catalog: rows"),
    Threshold("demo-s3.json", "distance", "==", 350_217_607, "2.2 demo on S3: sum(distance)"),
    Threshold("demo-s3.json", "local_data_files", "==", 0, "2.2 demo on S3: data files on the local disk"),
    Threshold("bench-s3model.json", "results.valid", "==", 1, "2.5 S3 model: the machine was idle for a tenth"),
    Threshold("bench-s3model.json", "results.lost", "==", 0, "2.5 S3 model: records lost"),
    Threshold("bench-s3model.json", "results.produce_p50_ms", "<=", 150, "2.5 S3 model, balanced, 50 MB/s: produce p50, ms"),
    Threshold("bench-s3model.json", "results.produce_p99_ms", "<=", 400, "2.5 S3 model: produce p99, ms"),
    Threshold("bench-s3model.json", "results.end_to_end_p99_ms", "<=", 1_000, "2.5 S3 model: produce to consume p99, ms"),
    Threshold("bench-s3model.json", "results.puts_as_r13_says", "==", 1, "2.5 S3 model: PUTs per second with 1,000 partitions"),
    Threshold("kill-points.json", "points_count", "==", 12, "1.3 kill points: points"),
    Threshold("kill-points.json", "fires_min", ">=", 15, "1.3 kill points: fires of the least fired point"),
    Threshold("kill-points.json", "live_max_s", "<=", 10, "1.3 kill points: slowest LIVE, seconds"),
    Threshold("simulation.json", "hours", ">=", 20, "1.4 simulation: simulated hours"),
    Threshold("simulation.json", "violations", "==", 0, "1.4 simulation: violations"),
    Threshold("planted.json", "caught", "==", 9, "1.4 planted faults caught"),
    Threshold("planted.json", "seeds_max", "<=", 50, "1.4 planted faults: most seeds needed"),
    Threshold("commits.json", "commits", ">=", 2_000, "1.6 commits to one table"),
    Threshold("commits.json", "ratio", "<=", 1.3, "1.6 CPU of the last 200 / of 50-250"),
    Threshold("commits.json", "commit_cpu_ms_last.mean", "<=", 20, "1.6 CPU of the last 200, ms"),
    Threshold("commits.json", "reader.error_count", "==", 0, "1.6 errors of the continuous DuckDB reader"),
    Threshold("retention-hour.json", "objects_constant", "==", 1, "1.7 object count returns to a constant"),
    Threshold("retention-hour.json", "freshness_unharmed", "==", 1, "1.7 the other table's freshness is unharmed"),
    Threshold("mutations.json", "mutations", ">=", 100_000, "1.8 mutated frames"),
    Threshold("mutations.json", "lost", "==", 0, "1.8 records of the good client lost"),
)


def find(document: object, path: str) -> float | None:
    """The value at a dotted path, or None."""
    for name in path.split("."):
        document = document.get(name) if isinstance(document, dict) else None
    return document if isinstance(document, int | float) else None


def age_commits(commit: str) -> int | None:
    """How many commits were made since ``commit``; None when it is not in this history."""
    command = ["git", "-C", str(RESULTS.parent), "rev-list", "--count", f"{commit}..HEAD"]
    ancestor = ["git", "-C", str(RESULTS.parent), "merge-base", "--is-ancestor", commit, "HEAD"]
    if subprocess.run(ancestor, capture_output=True, check=False).returncode:
        return None
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def stale(document: dict[str, object]) -> str | None:
    """Why a benchmark's result does not speak for the present code, or None."""
    if document.get("dirty", True):
        return "was measured with changes that are in no commit"
    age = age_commits(str(document.get("commit", "")))
    if age is None:
        return "its commit is not in this history (a shallow clone?)"
    return f"is {age} commits old (at most {AGE_COMMITS_MAX})" if age > AGE_COMMITS_MAX else None


def judge_ages() -> int:
    """Prints one line for each benchmark file that the thresholds name; how many are stale."""
    failed = 0
    for name in sorted({threshold.file for threshold in THRESHOLDS if threshold.file.startswith("bench-")}):
        path = RESULTS / name
        why = stale(json.loads(path.read_text())) if path.exists() else "is missing"
        failed += why is not None
        print(f"{'ok  ' if why is None else 'FAIL'} {name} {why or 'is of the present code'}")
    return failed


def main() -> int:
    failed = judge_ages()
    for threshold in THRESHOLDS:
        path = RESULTS / threshold.file
        value = find(json.loads(path.read_text()), threshold.value) if path.exists() else None
        ok = value is not None and COMPARE[threshold.how](value, threshold.bound)
        failed += not ok
        shown = "missing" if value is None else f"{value:,}"
        print(f"{'ok  ' if ok else 'FAIL'} {threshold.proves}: {shown} (want {threshold.how} {threshold.bound:,})")
    print(f"{len(THRESHOLDS)} thresholds, {failed} lines failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
