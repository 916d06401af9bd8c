"""Result files: what was measured, by which command, on which commit."""

from __future__ import annotations

import json
import pathlib
import subprocess
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results"


def commit_id() -> str:
    """The commit that is checked out; with ``+`` when product or tests differ from it."""
    head = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    changed = subprocess.run(
        ["git", "status", "--porcelain", "--", "src", "tests"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    return (head or "unknown") + ("+" if changed else "")


def write_result(name: str, command: str, values: dict[str, Any], *, commit: str = "") -> None:
    """Writes ``docs/results/{name}``. ``commit``: the one a long run began on."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"commit": commit or commit_id(), "command": command, **values}, indent=1, sort_keys=False)
    (RESULTS / name).write_text(text + "\n")
