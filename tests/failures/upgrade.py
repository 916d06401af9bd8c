"""An older release and this one on the same data, by turns and side by side (F77).

    python -m tests.failures.upgrade [--minutes 1]      writes docs/results/upgrade.json; needs the git history

The older release lands 0 to 99, this one three batches, the older one three more, then both land at once; brokers change with them, then
an old broker with a new landing and the other way round. Judges: the readers of tests/faults, and the table's columns and field ids.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.faults import readers
from tests.faults.rig import TABLE, Deployment, Violation, Workload, check_log, check_table
from tests.simulation.results import ROOT, write_result

OLD_RELEASE = "5cf415e"
"""The last commit before landing took other shapes, sources and catalogs: what people may have in use."""


def fields(directory: Path) -> dict[str, tuple[int, Any]]:
    """Columns of the table: field id and type by name."""
    location = readers.metadata_location(directory, TABLE)
    assert location is not None
    metadata = json.loads(readers.local(location).read_text())
    schema = next(one for one in metadata["schemas"] if one["schema-id"] == metadata["current-schema-id"])
    return {field["name"]: (field["id"], field["type"]) for field in schema["fields"]}


class Turns:
    """One data directory under changing releases."""

    def __init__(self, directory: Path, old: Path) -> None:
        self.sources = {"old": str(old / "src"), "new": str(ROOT / "src")}
        self.broker = Deployment(directory)
        self.landings = {release: replace(self.broker, processes={}) for release in self.sources}
        self.work = Workload(self.broker, idempotent=True)
        self.columns: dict[str, tuple[int, Any]] = {}
        self.steps: list[dict[str, Any]] = []

    def begin(self, broker: str, *landings: str) -> None:
        """Stops everything, then starts this broker and these landings."""
        self.end()
        self.broker.variables = {"PYTHONPATH": self.sources[broker]}
        self.broker.start("broker")
        for release in landings:
            self.landings[release].variables = {"PYTHONPATH": self.sources[release]}
            self.landings[release].start("land")

    def end(self) -> None:
        for deployment in (*self.landings.values(), self.broker):
            for role in tuple(deployment.processes):
                deployment.stop(role)
                del deployment.processes[role]

    def land(self, name: str, batches: int, size: int = 100) -> None:
        """Produces, and waits until each batch is landed; then looks at rows and columns."""
        took = []
        for _ in range(batches):
            self.work.send(size)
            self.work.settle()
            took.append(check_table(self.broker, check_log(self.broker, self.work), within_s=30.0))
        found = fields(self.broker.directory)
        if self.columns and found != self.columns:
            raise Violation(f"{name}: columns were {self.columns}, are {found}")
        self.columns = found
        for release, deployment in self.landings.items():
            if any(process.poll() is not None for process in deployment.processes.values()):
                raise Violation(f"{name}: the {release} landing ended")
        self.steps.append({"step": name, "records": self.work.attempted, "live_max_s": round(max(took), 2)})
        print(self.steps[-1], flush=True)


def story(directory: Path, old: Path, minutes: float) -> Turns:
    turns = Turns(directory, old)
    try:
        turns.begin("old", "old")
        turns.land("old lands 0 to 99", 1)
        turns.begin("new", "new")
        turns.land("new, three batches", 3)
        turns.begin("old", "old")
        turns.land("old again, three batches", 3)
        turns.begin("new", "old")
        turns.land("new broker, old landing", 2)
        turns.begin("old", "new")
        turns.land("old broker, new landing", 2)
        turns.begin("new", "old", "new")
        end = time.monotonic() + minutes * 60
        while time.monotonic() < end:
            turns.land("both land at once", 5)
        turns.begin("new", "new")
        turns.land("new alone", 1)
    finally:
        turns.end()
        for deployment in (*turns.landings.values(), turns.broker):
            deployment.close()
    return turns


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.failures.upgrade", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long both releases land at once")
    options = parser.parse_args()
    violations: list[str] = []
    steps: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        old = Path(folder) / "old"
        old.mkdir()
        archive = subprocess.run(["git", "-C", str(ROOT), "archive", OLD_RELEASE, "src"], check=True, capture_output=True)
        subprocess.run(["tar", "x", "-C", str(old)], input=archive.stdout, check=True)
        try:
            steps = story(Path(folder) / "data", old, options.minutes).steps
        except (Violation, AssertionError) as error:
            violations.append(str(error)[:2_000])
            for log in sorted((Path(folder) / "data").glob("*.log")):
                print(f"--- {log.name}\n{log.read_text()[-3_000:]}", file=sys.stderr)
    values = {"old": OLD_RELEASE, "violations": len(violations), "what": violations, "steps": steps}
    write_result("upgrade.json", f"python -m tests.failures.upgrade --minutes {options.minutes}", values)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
