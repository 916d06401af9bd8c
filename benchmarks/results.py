"""The frame of every benchmark's result file: what was measured, on which commit, with which versions, on which machine.

``write`` is the only way a file comes into ``docs/results/``; ``benchmarks/check.py`` judges the files by thresholds and by age.
"""

from __future__ import annotations

import json
import os
import pathlib
import platform
import subprocess
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"
LIBRARIES = ("pyarrow", "pyiceberg", "duckdb", "crc32c", "cramjam", "frazil-native")


def git(*words: str) -> str:
    """Output of one git command in the project."""
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True).stdout.strip()


def source_changed() -> bool:
    """Whether files that a result depends on differ from the commit."""
    return bool(git("status", "--porcelain", "--", "src", "native", "benchmarks", "examples"))


def versions(more: Iterable[str] = ()) -> dict[str, str]:
    """Versions of the libraries that matter to a result."""
    found = {"python": platform.python_version()}
    for name in (*LIBRARIES, *more):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    return found


def machine() -> dict[str, Any]:
    """Processor, cores, system and how busy it was before the run."""
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":", 1)[1].strip() for line in lines if "model name" in line), "")
    return {
        "cpu": model,
        "cpus": os.cpu_count(),
        "system": platform.platform(),
        "load_before": round(os.getloadavg()[0], 2),
    }


def frame(command: str, what: str, results: Mapping[str, Any], more_versions: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The whole document of one result file."""
    return {
        "what": what,
        "command": command,
        "commit": git("rev-parse", "HEAD"),
        "dirty": source_changed(),
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": {**versions(), **(more_versions or {})},
        "results": dict(results),
    }


def write(path: str | pathlib.Path, document: Mapping[str, Any]) -> None:
    """Writes a result file as a whole or not at all."""
    target = pathlib.Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_suffix(".part")
    part.write_text(json.dumps(document, indent=2) + "\n")
    part.replace(target)
