"""The type matrix before three readers: every row landed by the product, one table per format, read by PyIceberg, DuckDB and Spark.

python -m tests.readers.matrix

Writes docs/results/types.json with its commit. Times of day are in tables of their own, which Spark cannot read. The directory is kept
when a path is given.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import pathlib
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import confluent_kafka
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from tests.compat.process import Processes, frazil
from tests.faults import results
from tests.readers import evolved, spark_setup
from tests.readers.engines import Answer, DuckDB, PyIceberg, Reader, Spark, SparkRefused
from tests.readers.judge import FAULTS
from tests.readers.typematrix import Load, framed, loads
from tests.readers.values import same
from tests.standins.schema_registry import SchemaRegistry

from frazil.catalogs.schema import to_arrow
from frazil.landing.columns import METADATA_NAMES
from frazil.schemas.ddl import describe


@dataclass
class Found:
    """What the readers saw. ``values``: compared ones, by reader's way."""

    tables: int = 0
    records: int = 0
    dead: int = 0
    types: int = 0
    values: dict[str, int] = field(default_factory=dict)
    refused: dict[str, list[str]] = field(default_factory=dict)
    """By reader: the tables it cannot read."""
    reader_faults: dict[str, int] = field(default_factory=dict)
    differences: list[str] = field(default_factory=list)


def land(directory: pathlib.Path, tables: Sequence[Load]) -> SqlCatalog:
    """Every table, by a broker and a landing of the product, with a schema registry."""
    registry = SchemaRegistry()
    settings = ["landing.commit_interval_ms=1000", f"registry.url={registry.url}"]
    with Processes(directory, settings=settings) as processes:
        processes.start("dev")
        _create(directory, processes, tables)
        catalog = SqlCatalog("frazil", uri=f"sqlite:///{directory}/data/catalog.db")
        producer = confluent_kafka.Producer({"bootstrap.servers": processes.bootstrap, "linger.ms": 5, "log_level": 0})
        numbers = {
            load.name: registry.register(f"{load.name}-value", load.schema[1], kind=load.schema[0]) for load in tables if load.schema
        }
        # The good ones first and in a commit of their own, so that the bad ones meet the columns that these brought.
        for bad in (False, True):
            for load in tables:
                for value, code in zip(framed(load, numbers.get(load.name, 0)), load.codes, strict=True):
                    if bool(code) is bad:
                        producer.produce(load.name, value, partition=0)
            assert producer.flush(30) == 0
            wait_for_rows(
                catalog, {f"types.{load.name}{'_dead' if bad else ''}": sum(bool(code) is bad for code in load.codes) for load in tables}
            )
        evolved.land(directory, processes, catalog)
        assert processes.stop("dev") == 0, processes.log("dev")[-3000:]
        assert "Traceback" not in processes.log("dev"), processes.log("dev")[-3000:]
    registry.close()
    return catalog


def _create(directory: pathlib.Path, processes: Processes, tables: Sequence[Load]) -> None:
    """All landings by one manifest."""
    documents = [
        {
            "apiVersion": "frazil.dev/v1",
            "kind": "Table",
            "metadata": {"name": f"types.{load.name}"},
            "spec": {"topics": [load.name], "value": load.kind, **({"columns": list(load.columns)} if load.columns else {})},
        }
        for load in tables
    ]
    manifest = directory / "tables.yaml"
    manifest.write_text("\n---\n".join(map(json.dumps, documents)))
    done = frazil("-d", str(directory / "data"), "-b", processes.bootstrap, "apply", "-f", str(manifest), timeout_s=60)
    assert done.returncode == 0, done.stderr


def wait_for_rows(catalog: SqlCatalog, rows: Mapping[str, int]) -> None:
    """Until every table has its rows."""
    missing = {name: count for name, count in rows.items() if count}
    deadline = time.monotonic() + 60
    while missing:
        for name, count in list(missing.items()):
            with contextlib.suppress(NoSuchTableError):
                snapshot = catalog.load_table(name).current_snapshot()
                if snapshot is not None and snapshot.summary is not None and snapshot.summary["total-records"] == str(count):
                    del missing[name]
        assert time.monotonic() < deadline, f"never landed: {missing}"
        time.sleep(0.1)  # polls the catalog until the deadline above


def compare(catalog: SqlCatalog, tables: Sequence[Load], readers: Sequence[Reader]) -> Found:
    """Columns, rows and dead letters of every table, by every reader."""
    found = Found(tables=len(tables))
    for load in tables:
        name = f"types.{load.name}"
        table = catalog.load_table(name)
        types = tuple(text for text in describe(to_arrow(_schema_of(table))) if text.split(" ")[0] not in METADATA_NAMES)
        if types != load.types:
            found.differences.append(f"{name}: columns {sorted(set(types) ^ set(load.types))}")
        found.types += len(types)
        wanted = [row for row in load.read if row is not None]
        found.records += len(load.read)
        for reader in readers:
            try:
                ways = reader.load(table, name)
            except SparkRefused:
                found.refused.setdefault(reader.name, []).append(name)
                continue
            for way, read in ways.items():
                rows = sorted(read.to_pylist(), key=lambda row: row["_offset"])
                _compare(name, way, rows, wanted, found)
        codes = [code for code in load.codes if code]
        if codes:
            letters = sorted(catalog.load_table(name + "_dead").scan().to_arrow().to_pylist(), key=lambda row: row["offset"])
            found.dead += len(letters)
            if [letter["code"] for letter in letters] != codes:
                found.differences.append(f"{name}_dead: {[letter['code'] for letter in letters]}, not {codes}")
    return found


def compare_evolved(catalog: SqlCatalog, readers: Sequence[Reader]) -> Found:
    """The table whose columns changed: its rows, and predicates on columns that old files lack or have under another name."""
    found = Found(tables=1, records=len(evolved.READ))
    table = catalog.load_table(evolved.TABLE)
    for reader in readers:
        for way, read in reader.load(table, evolved.TABLE).items():
            rows = sorted(read.to_pylist(), key=lambda row: row["_offset"])
            _compare(evolved.TABLE, way, rows, evolved.READ, found)
        answers = reader.ask(("_kafka_partition", "_offset"), [tree for tree, _ in evolved.QUESTIONS])
        for (tree, rows_wanted), answer in zip(evolved.QUESTIONS, answers, strict=True):
            if not isinstance(answer, Answer) or (answer.pushed[0], answer.filtered[0]) != (rows_wanted, rows_wanted):
                found.differences.append(f"{evolved.TABLE}: {reader.name} answers {answer} to {tree}, not {rows_wanted}")
    return found


def _schema_of(table: Any) -> dict[str, Any]:
    return dict(table.schema().model_dump(by_alias=True))


def _compare(name: str, way: str, rows: list[dict[str, Any]], wanted: Sequence[dict[str, Any]], found: Found) -> None:
    if len(rows) != len(wanted):
        found.differences.append(f"{name}: {way} shows {len(rows)} rows of {len(wanted)}")
        return
    for number, (row, truth) in enumerate(zip(rows, wanted, strict=True)):
        for column, value in truth.items():
            found.values[way] = found.values.get(way, 0) + 1
            if _form(row[column], value) == same(value):
                continue
            if way == "pyiceberg" and row[column] == [] and value is None:
                fault = "pyiceberg-list-of-struct-null"
                found.reader_faults[fault] = found.reader_faults.get(fault, 0) + 1
                continue
            found.differences.append(f"{name}.{column}, record {number}: {way} shows {row[column]!a}, not {value!a}")


def _form(shown: Any, value: Any) -> Any:
    """As ``same``; an empty map looks like an empty list, whichever the reader made of it."""
    form = same(shown)
    return [] if form == {} and value == [] else form


def run(directory: pathlib.Path) -> dict[str, Any]:
    started = time.monotonic()
    tables = (*loads(time=False), *loads(time=True))
    catalog = land(directory / "lake", tables)
    spark = Spark(directory / "spark")
    readers: list[Reader] = [DuckDB(), PyIceberg(), spark]
    try:
        found, changed = compare(catalog, tables, readers), compare_evolved(catalog, readers)
    finally:
        spark.close()
    return {
        "seconds": round(time.monotonic() - started),
        "versions": {reader.name: reader.version for reader in readers},
        "tables": found.tables,
        "columns": found.types,
        "records": found.records,
        "dead_letters": found.dead,
        "values_compared": found.values,
        "cannot_read": found.refused,
        "reader_faults": {name: {"what": FAULTS[name], "seen": seen} for name, seen in found.reader_faults.items()},
        "values_compared_of_the_table_that_evolved": changed.values,
        "differences": found.differences + changed.differences,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?", type=pathlib.Path)
    options = parser.parse_args()
    if reason := spark_setup.missing():
        print(f"Spark cannot run here: {reason}")
        return 1
    with tempfile.TemporaryDirectory(prefix="types-") as scratch:
        values = run(options.directory or pathlib.Path(scratch))
    results.save("types.json", "python -m tests.readers.matrix", values)
    print(values)
    return 1 if values["differences"] else 0


if __name__ == "__main__":
    sys.exit(main())
