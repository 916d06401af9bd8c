"""The three readers behind one shape: ``load`` reads a whole table, ``ask`` answers predicates, pushed down and after that full read."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import duckdb
import duckdb_extension_avro
import duckdb_extension_iceberg
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyiceberg
from pyiceberg.expressions.visitors import bind
from pyiceberg.io.pyarrow import expression_to_pyarrow
from pyiceberg.table import Table
from tests.readers import spark_setup
from tests.readers.predicates import Tree, expression, sql

Digest: TypeAlias = "tuple[int, int, int]"
"""Rows, the sum of their ids, and a sum that depends on each id."""


@dataclass(frozen=True)
class Answer:
    pushed: Digest
    filtered: Digest
    used: bool
    """Whether the reader did use the predicate before reading rows (as far as it tells)."""


class Reader(Protocol):
    name: str
    version: str

    def load(self, table: Table, name: str) -> dict[str, pa.Table]:
        """The whole table; more than one result when the reader has more than one way."""
        ...

    def ask(self, row_id: tuple[str, str], trees: Sequence[Tree]) -> list[Answer | str | None]:
        """Of the table loaded last. None: the reader cannot say it; a text: it failed."""
        ...


class PyIceberg:
    name = "pyiceberg"
    version = pyiceberg.__version__

    def load(self, table: Table, name: str) -> dict[str, pa.Table]:
        self._table = table
        self._full = table.scan().to_arrow()
        self._files = len(list(table.scan().plan_files()))
        return {self.name: self._full}

    def ask(self, row_id: tuple[str, str], trees: Sequence[Tree]) -> list[Answer | str | None]:
        return [self._one(row_id, tree) for tree in trees]

    def ask_strictly(self, row_id: tuple[str, str], tree: Tree) -> Answer | str | None:
        """With a ``!=`` that is false for null everywhere."""
        return self._one(row_id, tree, strict=True)

    def _one(self, row_id: tuple[str, str], tree: Tree, *, strict: bool = False) -> Answer | str | None:
        wanted = expression(tree, strict=strict)
        if wanted is None:
            return None
        try:
            scan = self._table.scan(row_filter=wanted, selected_fields=row_id)
            used = len(list(scan.plan_files())) < self._files
            pushed = _digest(scan.to_arrow(), row_id)
            bound = bind(self._table.schema(), wanted, case_sensitive=True)
            filtered = _digest(self._full.filter(expression_to_pyarrow(bound, self._table.schema())), row_id)
        except Exception as error:
            return f"{type(error).__name__}: {str(error)[:300]}"
        return Answer(pushed, filtered, used)


def _digest(rows: pa.Table, row_id: tuple[str, str]) -> Digest:
    partitions, offsets = rows.column(row_id[0]).cast(pa.int64()), rows.column(row_id[1])
    ids: Any = pc.add(pc.multiply(partitions, pa.scalar(1_000_000)), offsets)
    numbers = ids.to_pylist()
    return len(numbers), sum(numbers), sum(number * number % 1_000_003 for number in numbers)


class DuckDB:
    name = "duckdb"
    version = duckdb.__version__

    def __init__(self) -> None:
        self._connection = duckdb.connect()
        self._connection.execute("SET TimeZone = 'UTC'")
        for extension in (duckdb_extension_avro, duckdb_extension_iceberg):
            found = sorted(pathlib.Path(extension.__path__[0]).glob(f"extensions/v{duckdb.__version__}/*.duckdb_extension"))
            self._connection.load_extension(str(found[0]))

    def load(self, table: Table, name: str) -> dict[str, pa.Table]:
        self._location = table.metadata_location.replace("'", "''")
        self._connection.execute(f"CREATE OR REPLACE TEMP TABLE full_read AS SELECT * FROM iceberg_scan('{self._location}')")
        return {self.name: self._connection.execute("SELECT * FROM full_read").to_arrow_table()}

    def ask(self, row_id: tuple[str, str], trees: Sequence[Tree]) -> list[Answer | str | None]:
        return [self._one(row_id, tree) for tree in trees]

    def _one(self, row_id: tuple[str, str], tree: Tree) -> Answer | str | None:
        number = f'({row_id[0]}::BIGINT * 1000000 + "{row_id[1]}")'
        where = sql(tree, "duckdb")
        sums = f"count(*), coalesce(sum({number}), 0), coalesce(sum({number} * {number} % 1000003), 0)"
        try:
            pushed = self._row(f"SELECT {sums} FROM iceberg_scan('{self._location}') WHERE {where}")
            # As an aggregate's filter it is applied to rows, never to a scan.
            terms = ", ".join(
                f"{term} FILTER (WHERE {where})" for term in ("count(*)", f"sum({number})", f"sum({number} * {number} % 1000003)")
            )
            filtered = self._row(f"SELECT {terms} FROM full_read")
        except duckdb.Error as error:
            return f"{type(error).__name__}: {str(error)[:300]}"
        return Answer(pushed, filtered, used=True)

    def _row(self, question: str) -> Digest:
        row = self._connection.execute(question).fetchone()
        assert row is not None
        return int(row[0]), int(row[1] or 0), int(row[2] or 0)


class Spark:
    name = "spark"

    def __init__(self, scratch: pathlib.Path) -> None:
        spark_setup.install()
        scratch.mkdir(parents=True, exist_ok=True)
        self._scratch = scratch
        self._loaded = 0
        worker = pathlib.Path(__file__).with_name("spark_worker.py")
        self._log = (scratch / "spark.log").open("wb")
        self._process = subprocess.Popen(
            [sys.executable, str(worker), str(spark_setup.JAR), str(scratch)],
            env=spark_setup.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, cwd=scratch,
        )  # fmt: skip
        self.version = f"{self._read()['version']} with Iceberg {spark_setup.ICEBERG}"

    def load(self, table: Table, name: str) -> dict[str, pa.Table]:
        self._loaded += 1
        out = self._scratch / f"full-{self._loaded}"
        self._view = f"t{self._loaded}"
        self._call({"load": table.metadata_location, "name": self._view, "out": str(out)})
        return {f"{self.name}, {way.name}": pq.read_table(way) for way in sorted(out.iterdir())}

    def ask(self, row_id: tuple[str, str], trees: Sequence[Tree]) -> list[Answer | str | None]:
        number = f"(CAST({row_id[0]} AS BIGINT) * 1000000 + `{row_id[1]}`)"
        job = {"ask": self._view, "id": number, "where": [sql(tree, "spark") for tree in trees]}
        found = self._call(job)["found"]
        return [one if isinstance(one, str) else Answer(tuple(one[0]), tuple(one[1]), one[2]) for one in found]

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._process.stdout.close()
        self._log.close()

    def _call(self, job: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(job).encode() + b"\n")
        self._process.stdin.flush()
        found = self._read()
        if "error" in found:
            raise SparkRefused(found["error"])
        return found

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        while line := self._process.stdout.readline():
            if line.startswith(b"\x1e"):
                return dict(json.loads(line[1:]))
        raise SparkRefused("the worker ended: " + (self._scratch / "spark.log").read_text(errors="replace")[-3000:])


class SparkRefused(Exception):
    """Spark could not do it, in its words."""
