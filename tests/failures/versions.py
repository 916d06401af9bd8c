"""Corners of dependency versions: the oldest and the newest that are allowed, each in an environment of its own (F76).

    python -m tests.failures.versions        writes docs/results/versions.json; needs the network, takes a few minutes

In each: the smoke test (tests/failures/smoke.py) touches every way of writing, and ``frazil doctor``'s look at packages finds nothing.
A third environment has one package that is too old, which doctor must name.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib

from tests.simulation.results import ROOT, write_result

OLDEST = {
    "avro": "1.11.3",
    "click": "8.1",
    "crc32c": "2.7",
    "cramjam": "2.9",
    "duckdb": "1.5.5",
    "duckdb-extension-avro": "1.5.5",
    "duckdb-extension-httpfs": "1.5.5",
    "duckdb-extension-iceberg": "1.5.5",
    "h11": "0.14",
    "httpx": "0.27",
    "obstore": "0.12",
    "pyarrow": "18",
    "pyiceberg": "0.12.0",
    "pytz": "2024.1",
    "pyyaml": "6",
    "uvloop": "0.19",
}
"""The lower bounds that the smoke test has passed with; pyproject.toml declares exactly these (a test compares)."""
WRONG = ("pytz", "2023.3")
BESIDE = ("fastavro",)
"""Of the test's own reader."""


def declared() -> dict[str, str]:
    """Package → lower bound, as pyproject.toml has it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = {}
    for text in project["dependencies"]:
        match = re.match(r"([A-Za-z0-9_-]+)[^=><]*(?:>=|==)([0-9.]+)", text)
        assert match is not None, text
        found[match[1]] = match[2]
    return found


def environment(folder: pathlib.Path, pins: dict[str, str]) -> pathlib.Path:
    """A fresh environment with Frazil and these versions; its python."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    constraints = folder / "constraints.txt"
    constraints.write_text("".join(f"{name}=={version}\n" for name, version in pins.items()))
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "-c", str(constraints), str(ROOT), *BESIDE], check=True)
    return python


def run(python: pathlib.Path) -> dict[str, object]:
    """What the smoke test said."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [str(python), "-W", "error::DeprecationWarning:frazil", "-m", "tests.failures.smoke"],
        cwd=ROOT, env=clean, capture_output=True, text=True, check=False,
    )  # fmt: skip
    script = (
        "import importlib.metadata as m, json;"
        "from frazil.assembly.packages import requirements, version_of;"
        "print(json.dumps({r.name: version_of(r.name) for r in requirements()}))"
    )
    versions = subprocess.run([str(python), "-c", script], cwd="/", env=clean, capture_output=True, text=True, check=True)
    said = json.loads(done.stdout) if done.returncode == 0 else done.stderr[-600:]
    return {"exit": done.returncode, "said": said, "versions": json.loads(versions.stdout)}


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        result: dict[str, dict[str, object]] = {}
        for name, pins in (("oldest", OLDEST), ("newest", {})):
            result[name] = run(environment(root / name, pins))
            print(name, json.dumps(result[name]), flush=True)
        python = root / "newest" / "bin" / "python"
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--no-deps", "==".join(WRONG)], check=True)
        result["wrong"] = run(python)
        print("wrong", json.dumps(result["wrong"]), flush=True)
    passed = sum(result[name]["exit"] == 0 for name in ("oldest", "newest"))
    named = int(result["wrong"]["exit"] == 1 and WRONG[0] in str(result["wrong"]["said"]))
    write_result("versions.json", "python -m tests.failures.versions", {"corners_passed": passed, "wrong_named": named, "each": result})
    return 0 if passed == 2 and named else 1


if __name__ == "__main__":
    sys.exit(main())
