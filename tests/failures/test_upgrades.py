"""F76, F77: versions of packages, and of what is stored. Full forms: tests/failures/versions.py and tests/failures/upgrade.py."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.failures.registry import Case, Naive, failure, must
from tests.failures.versions import OLDEST, declared
from tests.simulation.results import ROOT

from frazil.assembly.packages import package_troubles, requirements
from frazil.catalogs.port import LoadedTable
from frazil.catalogs.progress import progress_value, read_progress
from frazil.kit.errors import Corrupt, Refused
from frazil.log.pins import _decode as decode_pin
from frazil.metadata.landings import LandingSpec, LandingStatus
from frazil.objects.stores.memory import MemoryBucket, MemoryObjects

# --- F76 --------------------------------------------------------------------------------------------------------------


def at_first_use(installed: dict[str, str | None]) -> tuple[str, ...]:
    """The import works; what is missing shows when a rare path comes to it."""
    return () if installed["pyiceberg"] else ("No module named 'pyiceberg'",)


def at_the_start(installed: dict[str, str | None]) -> tuple[str, ...]:
    return package_troubles(requirements(), lambda name: installed.get(name, OLDEST.get(name)))


@failure(
    "F76",
    title="A clash of versions at the start, or at first use",
    others="share an environment with anything and notice a wrong version hours later, on a rare path",
    promise="the lower bounds are those that were tested, a locked set is shipped (deploy/locked.txt), and `frazil doctor` names a package"
    " that is missing or of another version",
    prevented=("frazil.assembly.packages:package_troubles", "frazil.assembly.doctor:examine"),
    wrong=Naive("a version is noticed when something of it is missing", at_first_use, at_the_start),
)
def test_f76_a_wrong_package_is_named(case: Case) -> None:
    must(case.way(dict(OLDEST)) == (), "RULE", "the oldest allowed versions will do")
    (said,) = case.way({**OLDEST, "pyiceberg": None}) or ("",)
    must("pyiceberg" in said, "LOUD", said)
    said = " ".join(case.way({**OLDEST, "pyiceberg": "0.9.1"}))
    must("pyiceberg is 0.9.1" in said, "LOUD", said or "nothing is said about pyiceberg 0.9.1")
    must(declared() == OLDEST, "RULE", "the declared lower bounds are the tested ones")
    locked = dict(line.split("==") for line in (ROOT / "deploy" / "locked.txt").read_text().splitlines() if "==" in line)
    lower = {name.lower().replace("_", "-"): version for name, version in locked.items()}
    for requirement in requirements():
        version = lower.get(requirement.name)
        must(version is not None and requirement.accepts(version), "RULE", f"{requirement} is locked at {version}")


# --- F77 --------------------------------------------------------------------------------------------------------------

SPEC = LandingSpec(table="x.t", topics=("t",))


def newer(value: bytes, name: str = "format") -> bytes:
    """The record as a later release might write it: another format, a field that changes what the others mean."""
    return json.dumps({**json.loads(value), name: 99, "offsets_are_relative": True}).encode()


def half_read(record: str) -> Any:
    """Takes the fields it knows."""
    return json.loads(newer(SPEC.encode()))["table"]


def refused(record: str) -> Any:
    readers: dict[str, Callable[[], Any]] = {
        "landing": lambda: LandingSpec.decode(newer(SPEC.encode()), where="landings/x.t"),
        "status": lambda: LandingStatus.decode(newer(LandingStatus(table="x.t", state="idle").encode()), where="landing-status/x.t"),
        "pin": lambda: decode_pin("pins/x.t", newer(b'{"format":1,"updated_ms":0,"offsets":{}}')),
        "progress": lambda: _progress(99),
    }
    return readers[record]()


def _progress(version: int) -> Any:
    import asyncio

    snapshot = {"snapshot-id": 1, "sequence-number": 1, "summary": {"operation": "append"}}
    text = json.dumps({"v": version, "snapshot": 1, "sequence": 1, "next": {"c/1": {"00" * 16: [7]}}})
    metadata = {
        "format-version": 2, "table-uuid": "u", "location": "memory:///t", "current-snapshot-id": 1, "snapshots": [snapshot],
        "refs": {"main": {"snapshot-id": 1, "type": "branch"}}, "properties": {"frazil.progress": text}, "last-sequence-number": 1,
    }  # fmt: skip
    table = LoadedTable(ident="x.t", metadata=metadata, metadata_location="memory:///t/m.json")
    assert version == 99 or progress_value(metadata, where="x.t")
    return asyncio.run(read_progress(MemoryObjects(MemoryBucket(), None), table))  # type: ignore[arg-type] # the clock is not asked


@failure(
    "F77",
    title="An upgrade breaks the second batch, or changes columns or identity",
    others="read state of another version as far as they understand it",
    promise="every stored record has a format number, and one that this program does not know is refused with the way out; older and newer"
    " releases land one table by turns and side by side (tests/failures/upgrade.py)",
    prevented=("frazil.metadata.values:decode", "frazil.log.pins:read_pins", "frazil.catalogs.progress:read_progress"),
    wrong=Naive("fields that are known are used", half_read, refused),
)
def test_f77_an_unknown_format_is_refused(case: Case) -> None:
    for record in ("landing", "status", "pin", "progress"):
        try:
            found = case.way(record)
        except (Refused, Corrupt) as error:
            must("99" in str(error) or "format" in str(error) or "version" in str(error), "LOUD", error)
            continue
        must(False, "RULE", f"a {record} of an unknown format was read as {found!r}")
