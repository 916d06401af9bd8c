"""A long comparison of kernel and twin, chunk by chunk: it may be stopped, and goes on as long as both sides are the same source."""

from __future__ import annotations

import argparse
import json
import pathlib
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping

from frazil.kit.kernel import kernel

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results"
"""Where the result files are."""


def version_of(sources: Mapping[str, str]) -> dict[str, str]:
    """The commit, the git tree of each of ``sources`` (path by name), and what in them is in no commit."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True, cwd=ROOT).stdout.strip()

    trees = {name: git("rev-parse", f"HEAD:{path}") for name, path in sources.items()}
    return {"commit": git("rev-parse", "HEAD"), **trees, "dirty": git("status", "--porcelain", "--", *sources.values())}


def compare(
    module: str, result: pathlib.Path, sources: Mapping[str, str], run_chunk: Callable[[int, int], Counter[str]], *, chunk: int
) -> int:
    """The command line of ``python -m {module}``. ``run_chunk(seed, count)`` raises at the first difference."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--again", action="store_true", help="forget earlier results")
    options = parser.parse_args()
    if kernel() is None:
        print("there is no kernel here", file=sys.stderr)
        return 1
    version = version_of(sources)
    known = json.loads(result.read_text()) if result.exists() and not options.again else {}
    same = all(known.get(key) == version[key] for key in (*sources, "dirty")) and known.get("seed") == options.seed
    done, found, seconds = (known["inputs"], Counter(known["found"]), known["seconds"]) if same else (0, Counter[str](), 0.0)
    while done < options.count:
        started = time.monotonic()
        found += run_chunk(options.seed * 1_000_000 + done // chunk, chunk)
        done, seconds = done + chunk, seconds + time.monotonic() - started
        values = {
            "command": f"python -m {module} --count {options.count} --seed {options.seed}",
            "inputs": done,
            "differences": 0,
            "seed": options.seed,
            "seconds": round(seconds, 1),
        }
        result.write_text(json.dumps({**version, **values, "found": dict(sorted(found.items()))}, indent=1) + "\n")
        print(f"{done} inputs, {seconds:.0f} s, no difference", flush=True)
    return 0
