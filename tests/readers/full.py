"""The reader proof in full: PyIceberg, DuckDB and Spark on tables landed by the product, many predicates for every column.

python -m tests.readers.full [--seeds 3] [--per-column 24]

Writes docs/results/readers.json with its commit; resumes at the next seed while src is the same.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import sys
import tempfile
import time
from typing import Any

from pyiceberg.types import DecimalType, FloatType, IntegerType
from tests.faults import results
from tests.readers import spark_setup
from tests.readers.engines import DuckDB, PyIceberg, Spark
from tests.readers.judge import FAULTS, Wish, judge
from tests.readers.lake import Lake, land

TABLES = ("lake.wide", "lake.wide_dead", "lake.inferred", "lake.clock", "lake.floats", "lake.parted")
CHUNKS, RECORDS = 13, 100
"""As many chunks as there are kinds of text."""


def wish_of(lake: Lake, name: str, *, per_column: int, seed: int) -> Wish:
    return Wish(
        per_column=per_column,
        seed=seed,
        row_id=("partition", "offset") if name.endswith("_dead") else ("_kafka_partition", "_offset"),
        expected=lake.tables[name],
        promoted={"i": IntegerType(), "f": FloatType(), "dec9": DecimalType(9, 2)} if name == "lake.wide" else {},
        not_total=frozenset({"d", "g", "in.x"}) if name == "lake.floats" else frozenset(),
    )


def one_seed(seed: int, per_column: int) -> dict[str, Any]:
    """Every table of one seed before all readers."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="readers-") as directory:
        lake = land(pathlib.Path(directory) / "lake", seed=seed, chunks=CHUNKS, records=RECORDS)
        spark = Spark(pathlib.Path(directory) / "spark")
        readers = [DuckDB(), PyIceberg(), spark]
        try:
            verdicts = [
                judge(lake.catalog().load_table(name), name, readers, wish_of(lake, name, per_column=per_column, seed=seed))
                for name in TABLES
            ]
        finally:
            spark.close()
    versions = {reader.name: reader.version for reader in readers}
    found = {verdict.table: dataclasses.asdict(verdict) for verdict in verdicts}
    return {"seed": seed, "seconds": round(time.monotonic() - started), "versions": versions, "tables": found}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--per-column", type=int, default=24)
    options = parser.parse_args()
    reason = spark_setup.missing()
    if reason:
        print(f"Spark cannot run here: {reason}")
        return 1
    command = f"python -m tests.readers.full --seeds {options.seeds} --per-column {options.per_column}"
    version = results.source_version()
    """A long run names the commit it began on."""
    known = [run for run in results.load("readers.json").get("runs", []) if run["per_column"] == options.per_column]
    for seed in range(1, options.seeds + 1):
        if any(run["seed"] == seed for run in known):
            continue
        run = {**one_seed(seed, options.per_column), "per_column": options.per_column}
        known.append(run)
        save(command, version, known)
        for name, table in run["tables"].items():
            print(
                seed,
                name,
                {reader: sum(counts.values()) for reader, counts in table["predicates"].items()},
                len(table["differences"]),
                flush=True,
            )
    return 0 if known and not any(table["differences"] for run in known for table in run["tables"].values()) else 1


def save(command: str, version: dict[str, str], runs: list[dict[str, Any]]) -> None:
    tables = [(name, table) for run in runs for name, table in run["tables"].items()]
    least: dict[str, int] = {}
    total: dict[str, int] = {}
    for _, table in tables:
        for reader, counts in table["predicates"].items():
            least[reader] = min(least.get(reader, 1 << 30), *counts.values())
            total[reader] = total.get(reader, 0) + sum(counts.values())
    values = {
        **version,
        "versions": runs[0]["versions"],
        "predicates": total,
        "least_predicates_of_a_column": least,
        "differences": [difference for _, table in tables for difference in table["differences"]],
        "reader_faults": {
            name: {"what": FAULTS[name], "seen": sum(table["reader_faults"].get(name, 0) for _, table in tables)} for name in FAULTS
        },
        "cannot": {
            "spark": "a table with a time column: Spark has no such type",
            "pyiceberg": "predicates on lists and maps (also IS NULL) and comparisons of uuid; uuid columns are asked for NULL instead",
        },
        "runs": runs,
    }
    results.save("readers.json", command, values)


if __name__ == "__main__":
    sys.exit(main())
