"""A route through real processes: a manifest, three tables by field, the tables by SQL."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import confluent_kafka
import pytest
from tests.compat.process import Processes, frazil

pytestmark = [pytest.mark.server]

MANIFEST = """
apiVersion: frazil.dev/v1
kind: Topic
metadata: {name: events}
spec: {partitions: 3}
---
apiVersion: frazil.dev/v1
kind: Table
metadata: {name: lake.events}
spec:
  topics: [events]
  commitIntervalSeconds: 1
  options:
    route: field:kind
    route.table: lake.events_{}
    route.map: "view:lake.views"
"""


def test_r07_three_tables_of_one_topic_by_a_manifest_through_real_processes(tmp_path: pathlib.Path) -> None:
    (tmp_path / "route.yaml").write_text(MANIFEST)
    data = ["-d", str(tmp_path / "data")]
    with Processes(tmp_path, settings=["landing.auto=false"]) as processes:
        processes.start("dev")
        at = ["-b", processes.bootstrap]
        done = frazil(*data, *at, "apply", "-f", str(tmp_path / "route.yaml"))
        assert done.returncode == 0, done.stderr
        producer = confluent_kafka.Producer({"bootstrap.servers": processes.bootstrap})
        for number in range(3_000):
            kind = ("order", "View", "view")[number % 3]
            producer.produce("events", json.dumps({"n": number, "kind": kind}).encode(), partition=number % 2)
        producer.produce("events", b'{"n": 1}', partition=2)
        assert producer.flush(20) == 0
        done = frazil(*data, *at, "land", "wait", "lake.events", "--timeout", "40")
        assert done.returncode == 0, done.stderr
        tables = ("lake.events_order", "lake.events_view", "lake.views")
        counts = [f"SELECT '{table}' AS t, count(*) AS n, count(DISTINCT n) AS d, min(n) AS low FROM {table}" for table in tables]
        letters = "SELECT code || ' ' || target_name AS t, count(*) AS n, 0 AS d, 0 AS low FROM lake.events_dead GROUP BY 1"
        found = ask(data, " UNION ALL ".join([*counts, letters]) + " ORDER BY 1")
        wanted = [{"t": table, "n": 1_000, "d": 1_000, "low": low} for low, table in enumerate(tables)]
        assert found == [*wanted, {"t": "route-none lake.events", "n": 1, "d": 0, "low": 0}]
        detail = json.loads(frazil(*data, "table", "describe", "lake.events", "-o", "json").stdout)
        assert [(fed["table"], fed["value"], fed["rows"]) for fed in detail["tables"]] == [
            ("lake.events_order", "order", 1_000),
            ("lake.events_view", "View", 1_000),
            ("lake.views", None, 1_000),
        ]


def ask(data: list[str], query: str) -> Any:
    done = frazil(*data, "sql", query, "-o", "json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]
