"""Runs in a process of its own that has pyspark: reads jobs as JSON lines, answers as JSON lines.

{"load": address of a metadata file, "name": …, "out": directory}   the whole table, twice (vectorised reading on and off), as Parquet
{"ask": name, "id": SQL text of the row id, "where": [SQL, …]} per predicate: [pushed down, after the full read, whether any was pushed]
"""

from __future__ import annotations

import json
import pathlib
import re
import sys
import time
from typing import Any

from pyspark.sql import SparkSession  # type: ignore[import-not-found]

AT_ONCE = 25


def main() -> None:
    jar, scratch = sys.argv[1], sys.argv[2]
    settings = {
        "spark.jars": jar, "spark.ui.enabled": "false", "spark.driver.memory": "1g", "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1", "spark.sql.shuffle.partitions": "1", "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.inMemoryColumnarStorage.partitionPruning": "false",
        "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED", "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.warehouse.dir": f"{scratch}/warehouse", "spark.local.dir": scratch, "spark.log.level": "ERROR",
        "spark.driver.extraJavaOptions": f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Duser.timezone=UTC -Dderby.system.home={scratch}",
    }  # fmt: skip
    builder = SparkSession.builder.master("local[2]").appName("readers")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    answer({"version": session.version})
    for line in sys.stdin:
        job = json.loads(line)
        started = time.monotonic()
        try:
            found = load(session, job) if "load" in job else ask(session, job)
        except Exception as error:
            found = {"error": f"{type(error).__name__}: {str(error)[:6000]}"}
        answer({**found, "seconds": round(time.monotonic() - started, 2)})


def answer(value: dict[str, Any]) -> None:
    print("\x1e" + json.dumps(value), flush=True)


def load(session: Any, job: dict[str, Any]) -> dict[str, Any]:
    session.catalog.clearCache()
    for vectorised in ("false", "true"):
        frame = session.read.format("iceberg").option("vectorization-enabled", vectorised).load(job["load"])
        frame.write.mode("overwrite").parquet(str(pathlib.Path(job["out"]) / f"vectorised-{vectorised}"))
    frame.createOrReplaceTempView(job["name"])
    frame.cache().count()
    # A frame of its own for what is pushed down: one whose plan is cached would be answered from the cache.
    session.read.format("iceberg").option("vectorization-enabled", "true").option("split-size", "134217727").load(
        job["load"]
    ).createOrReplaceTempView(job["name"] + "_live")
    return {"schema": frame.schema.simpleString()}


def ask(session: Any, job: dict[str, Any]) -> dict[str, Any]:
    row_id = job["id"]
    sums = f"count(*), coalesce(sum({row_id}), 0), coalesce(sum({row_id} * {row_id} % 1000003), 0)"
    found: list[Any] = []
    for start in range(0, len(job["where"]), AT_ONCE):
        part = job["where"][start : start + AT_ONCE]
        terms = []
        for where in part:
            chosen = f"CASE WHEN {where} THEN {row_id} END"
            terms += [f"count({chosen})", f"coalesce(sum({chosen}), 0)", f"coalesce(sum({chosen} * {chosen} % 1000003), 0)"]
        frame = session.sql(f"SELECT {', '.join(terms)} FROM {job['ask']}")
        assert "InMemoryTableScan" in plan_of(frame), "the full read must not be read again"
        row = [int(value) for value in frame.collect()[0]]
        for at, where in enumerate(part):
            frame = session.sql(f"SELECT {sums} FROM {job['ask']}_live WHERE {where}")
            plan = plan_of(frame)
            pushed = re.search(r"\[filters=(.*?), groupedBy", plan, re.DOTALL)
            assert "InMemoryTableScan" not in plan, "what is pushed down must read files"
            live = [int(value) for value in frame.collect()[0]]
            found.append([live, row[3 * at : 3 * at + 3], bool(pushed and pushed[1].strip()) or "LocalTableScan" in plan])
    return {"found": found}


def plan_of(frame: Any) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


if __name__ == "__main__":
    main()
