"""A table whose columns changed in every way while it was landed, for readers that go by field id and those that only say so: a type
that changes and comes back, new nested fields, one that is left out, one that is renamed, and files from before each (F31, F33, F37, F94).
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

import confluent_kafka
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.types import LongType, StringType
from tests.compat.process import Processes, frazil
from tests.readers.predicates import Check, Leaf, Tree

TABLE = "evolved.t"
PHASES: tuple[tuple[dict[str, Any], ...], ...] = (
    ({"id": 1, "v": 7, "user": "ann", "c": {"id": 1}, "l": [{"id": 1}]},),
    (
        {"id": 2, "l": [None]},
        {"id": 3, "v": "x", "user": "eve", "c": {"id": 2, "d": {"n": "a"}}, "l": [{"id": 2, "e": True}, {"id": "two"}], "new": 5},
    ),
    ({"id": 4, "v": 9, "user": "late", "l": []}, {"id": 5, "v": ["y"], "customer": "bob", "c": {"id": None, "d": {"n": "b"}}, "l": []}),
)
"""One commit each; before the last one ``user`` is renamed ``customer``."""
READ: tuple[dict[str, Any], ...] = (
    {
        "id": 1,
        "v": 7,
        "v__string": None,
        "customer": "ann",
        "c": {"id": 1, "d": None},
        "l": [{"id": 1, "e": None, "id__string": None}],
        "new": None,
    },
    {"id": 2, "v": None, "v__string": None, "customer": None, "c": None, "l": [None], "new": None},
    {
        "id": 3,
        "v": None,
        "v__string": "x",
        "customer": "eve",
        "c": {"id": 2, "d": {"n": "a"}},
        "l": [{"id": 2, "e": True, "id__string": None}, {"id": None, "e": None, "id__string": "two"}],
        "new": 5,
    },
    {"id": 4, "v": 9, "v__string": None, "customer": "late", "c": None, "l": [], "new": None},
    {"id": 5, "v": None, "v__list_string": ["y"], "customer": "bob", "c": {"id": None, "d": {"n": "b"}}, "l": [], "new": None},
)
QUESTIONS: tuple[tuple[Tree, int], ...] = (
    (Check(Leaf(("customer",), StringType()), "=", ("ann",)), 1),
    (Check(Leaf(("customer",), StringType()), ">", ("b",)), 3),
    (Check(Leaf(("new",), LongType()), "=", (5,)), 1),
    (Check(Leaf(("new",), LongType()), "null"), 4),
    (Check(Leaf(("v",), LongType()), ">=", (7,)), 2),
    (Check(Leaf(("v__string",), StringType()), "=", ("x",)), 1),
    (Check(Leaf(("v__string",), StringType()), "null"), 4),
)
"""Predicates on columns that old files lack or have under another name, with the rows they select."""


def land(directory: pathlib.Path, processes: Processes, catalog: SqlCatalog) -> None:
    """The table, phase by phase."""
    from tests.readers.matrix import wait_for_rows

    common = ("-d", str(directory / "data"), "-b", processes.bootstrap, "table")
    create = ("create", TABLE, "-t", "evolved", "--commit-interval-ms", "1000", "--option", "evolve.conflict=suffix")
    rename = ("alter", TABLE, "--option", "paused=", "--option", "evolve.rename=user:customer")
    producer = confluent_kafka.Producer({"bootstrap.servers": processes.bootstrap, "log_level": 0})
    rows = 0
    for number, phase in enumerate(PHASES):
        last = number == len(PHASES) - 1
        if not number:
            _run(*common, *create)
        if last:
            # A landing takes an option up within seconds, so records that are not to be landed without it must wait for it.
            _run(*common, "alter", TABLE, "--option", "paused=true")
            _wait_until_paused(common[:-1])
        for record in phase:
            producer.produce("evolved", json.dumps(record).encode(), partition=0)
        assert producer.flush(30) == 0
        if last:
            _run(*common, *rename)
        rows += len(phase)
        wait_for_rows(catalog, {TABLE: rows})


def _run(*words: str) -> str:
    done = frazil(*words, timeout_s=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _wait_until_paused(common: tuple[str, ...]) -> None:
    for _ in range(20):
        done = frazil(*common, "land", "status", "-o", "json", timeout_s=60)  # its exit code says that a paused table is not well
        if any(json.loads(line)["state"] == "paused" for line in done.stdout.splitlines() if TABLE in line):
            return
    raise AssertionError(f"{TABLE} was not paused: {done.stdout}")
