"""``make bench``: every benchmark, one after the other, each into its result file. Wants an idle machine.

    python -m benchmarks.all                      all that are older than the commit
    python -m benchmarks.all --only kernel,json   some
    python -m benchmarks.all --again              also those that were measured on this commit

It can be stopped and started again: a file measured on the present commit is not measured again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time

from benchmarks.results import RESULTS, ROOT, git, source_changed

BENCHMARKS = {
    "kernel": ["benchmarks/bench_kernel.py"],
    "json": ["benchmarks/bench_json.py"],
    "landing": ["benchmarks/bench_landing.py"],
    "values": ["benchmarks/bench_values.py"],
    "produce": ["benchmarks/bench_produce.py"],
    "fetch": ["benchmarks/bench_fetch.py"],
    "s3model": ["benchmarks/bench_s3model.py"],
    "rest-commits": ["benchmarks/bench_rest_commits.py"],
    "memory": ["benchmarks/bench_memory.py"],
    "scale": ["benchmarks/bench_scale.py"],
    "upsert": ["benchmarks/bench_upsert.py"],
}


def measured_here(name: str) -> bool:
    """Whether the result file was made on this very commit, with nothing changed."""
    path = RESULTS / f"bench-{name}.json"
    if not path.exists() or source_changed():
        return False
    document = json.loads(path.read_text())
    return document.get("commit") == git("rev-parse", "HEAD") and not document.get("dirty", True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(BENCHMARKS))
    parser.add_argument("--again", action="store_true")
    options = parser.parse_args()
    failed = []
    for name in options.only.split(","):
        if not options.again and measured_here(name):
            print(f"{name}: measured on this commit already")
            continue
        started = time.monotonic()
        out = RESULTS / f"bench-{name}.json"
        command = [sys.executable, *BENCHMARKS[name], "--out", str(out)]
        done = subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False)
        print(f"{name}: {'ok' if done.returncode == 0 else 'FAILED'} in {time.monotonic() - started:.0f} s", flush=True)
        if done.returncode:
            failed.append(name)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
