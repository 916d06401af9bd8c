"""Result files of full forms: written with the commit and the tree of ``src`` they ran on; resumable while that tree is the same."""

from __future__ import annotations

import json
import pathlib
import subprocess
from typing import Any

RESULTS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "results"


def source_version() -> dict[str, str]:
    """The commit, and the git tree of ``src``: results hold as long as the latter stays."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True, cwd=RESULTS).stdout.strip()

    return {"commit": git("rev-parse", "HEAD"), "src": git("rev-parse", "HEAD:src")}


def load(name: str) -> dict[str, Any]:
    """Earlier results of the same source, or nothing."""
    path = RESULTS / name
    known = json.loads(path.read_text()) if path.exists() else {}
    return known if known.get("src") == source_version()["src"] else {}


def save(name: str, command: str, values: dict[str, Any]) -> None:
    """Writes the result file with its source version."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / name).write_text(json.dumps({**source_version(), "command": command, **values}, indent=1) + "\n")
