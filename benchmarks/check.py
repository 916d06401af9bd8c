"""``make bench-check``: judges the committed result files by their thresholds. Nothing is measured here.

Each line of THRESHOLDS names a result file, a value in it (dotted path), a comparison and a bound. A missing file or value fails.
Benchmarks (files named bench-*.json) fail also when their commit is more than AGE_COMMITS_MAX commits ago, or when the source had
changes that were not committed: a speed is a property of the code it was measured on.
"""

from __future__ import annotations

import json
import operator
import pathlib
import subprocess
import sys
from dataclasses import dataclass

RESULTS = pathlib.Path(__file__).resolve().parents[1] / "docs" / "results"
AGE_COMMITS_MAX = 20
COMPARE = {"<=": operator.le, ">=": operator.ge, "==": operator.eq}


@dataclass(frozen=True)
class Threshold:
    file: str
    value: str
    how: str
    bound: float
    proves: str


THRESHOLDS = (
    Threshold("demo.json", "rows", "==", 336_776, "1.1 demo: rows"),
    Threshold("demo.json", "distance", "==", 350_217_607, "1.1 demo: sum(distance)"),
    Threshold("demo.json", "no_delay", "==", 8_255, "1.1 demo: dep_delay is null"),
    Threshold("demo.json", "visible_s", "<=", 60, "1.1 demo: first produce to last row visible, seconds"),
    Threshold("demo-s3.json", "rows", "==", 336_776, "2.2 demo on S3 and a REST catalog: rows"),
    Threshold("demo-s3.json", "distance", "==", 350_217_607, "2.2 demo on S3: sum(distance)"),
    Threshold("demo-s3.json", "local_data_files", "==", 0, "2.2 demo on S3: data files on the local disk"),
    Threshold("client-matrix.json", "cells", "==", 60, "2.1 clients: cells (12 rows x 5 codecs)"),
    Threshold("client-matrix.json", "left_out", "==", 0, "2.1 clients: cells left out"),
    Threshold("client-matrix.json", "records", ">=", 100_000, "2.1 clients: records a cell"),
    Threshold("readers.json", "least_predicates_of_a_column.duckdb", ">=", 20, "2.3 readers: predicates a column, DuckDB"),
    Threshold("readers.json", "least_predicates_of_a_column.pyiceberg", ">=", 20, "2.3 readers: predicates a column, PyIceberg"),
    Threshold("readers.json", "least_predicates_of_a_column.spark", ">=", 20, "2.3 readers: predicates a column, Spark"),
    Threshold("readers.json", "differences", "==", 0, "2.3 readers: differences"),
    Threshold("kernel-batches.json", "inputs", ">=", 1_000_000, "2.4 kernel and twin, batches: inputs"),
    Threshold("kernel-batches.json", "differences", "==", 0, "2.4 kernel and twin, batches: differences"),
    Threshold("kernel-json.json", "inputs", ">=", 1_000_000, "2.4 kernel and twin, JSON: inputs"),
    Threshold("kernel-json.json", "differences", "==", 0, "2.4 kernel and twin, JSON: differences"),
    Threshold("kernel-avro.json", "inputs", ">=", 1_000_000, "3.5 kernel and twin, Avro: inputs"),
    Threshold("kernel-avro.json", "differences", "==", 0, "3.5 kernel and twin, Avro: differences"),
    Threshold("kernel-protobuf.json", "inputs", ">=", 1_000_000, "3.5 kernel and twin, Protobuf: inputs"),
    Threshold("kernel-protobuf.json", "differences", "==", 0, "3.5 kernel and twin, Protobuf: differences"),
    Threshold("kernel-produce.json", "inputs", ">=", 1_000_000, "2.4 kernel and twin, produce bursts: inputs"),
    Threshold("kernel-produce.json", "differences", "==", 0, "2.4 kernel and twin, produce bursts: differences"),
    Threshold("rest-catalog.json", "lost", "==", 0, "2.7 faults of a REST catalog: records lost"),
    Threshold("rest-catalog.json", "doubled", "==", 0, "2.7 faults of a REST catalog: records doubled"),
    Threshold("fault-matrix.json", "cells", "==", 126, "3.2 fault matrix: cells (7 points x 18 answers)"),
    Threshold("fault-matrix.json", "runs_least", ">=", 5, "3.2 fault matrix: runs of the cell with fewest"),
    Threshold("fault-matrix.json", "not_fired", "==", 0, "3.2 fault matrix: runs in which the point was not reached"),
    Threshold("fault-matrix.json", "violations", "==", 0, "3.2 fault matrix: violations of EO, WHOLE, LIVE, LOUD"),
    Threshold("fault-matrix.json", "live_max_s", "<=", 60, "3.2 fault matrix: slowest LIVE, seconds"),
    Threshold("fault-matrix-upsert.json", "runs_least", ">=", 5, "3.2 fault matrix, one row per key: runs of the cell with fewest"),
    Threshold("fault-matrix-upsert.json", "violations", "==", 0, "3.2 fault matrix, one row per key: violations"),
    Threshold("fault-matrix-route.json", "runs_least", ">=", 5, "3.2 fault matrix, routes: runs of the cell with fewest"),
    Threshold("fault-matrix-route.json", "violations", "==", 0, "3.2 fault matrix, routes: violations"),
    Threshold("versions.json", "corners_passed", "==", 2, "3.1 F76: corners of dependency versions that pass"),
    Threshold("versions.json", "wrong_named", "==", 1, "3.1 F76: a wrong package is named"),
    Threshold("upgrade.json", "violations", "==", 0, "3.1 F77: old and new release by turns and side by side: violations"),
    Threshold("types.json", "differences", "==", 0, "3.3 type matrix: values that a reader sees otherwise"),
    Threshold("types.json", "columns", ">=", 100, "3.3 type matrix: columns read by all three readers"),
    Threshold("types.json", "values_compared.duckdb", ">=", 500, "3.3 type matrix: values compared, DuckDB"),
    Threshold("sources.json", "exact.landing_killed", ">=", 5, "3.4 Kafka source: kills of landing, rows exact"),
    Threshold("sources.json", "exact.broker_killed", ">=", 1, "3.4 Kafka source: kills of the broker, rows exact"),
    Threshold("sources.json", "exact.transactions_aborted", ">=", 1, "3.4 Kafka source: aborted transactions, none of them landed"),
    Threshold("sources.json", "kafscale.buckets", ">=", 100, "3.4 KafScale buckets landed exactly"),
    Threshold("catalog-servers.json", "servers", ">=", 3, "3.7 real catalog servers that took landings, kills and expiry"),
    Threshold("bench-scale.json", "results.four_topics.ratio", ">=", 1.8, "3.5 landing by two processes / by one, from a full log"),
    Threshold("bench-scale.json", "results.lost_or_doubled", "==", 0, "3.5 landing by two processes: rows lost or doubled"),
    Threshold("bench-kernel.json", "results.none_mb_s_min", ">=", 1_000, "2.4 decode, not compressed, MB/s a core"),
    Threshold("bench-kernel.json", "results.lz4_mb_s_min", ">=", 800, "2.4 decode, lz4, MB/s a core"),
    Threshold("bench-kernel.json", "results.zstd_mb_s_min", ">=", 550, "2.4 decode, zstd, MB/s a core"),
    Threshold("bench-json.json", "results.s.mb_s.kernel", ">=", 450, "2.4 JSON to Arrow, 279-byte events, MB/s a core"),
    Threshold("bench-json.json", "results.b.mb_s.kernel", ">=", 450, "2.4 JSON to Arrow, 1-KB nested events, MB/s a core"),
    Threshold("bench-json.json", "results.s.same_rows_as_pyarrow", "==", 1, "2.4 JSON: same rows as pyarrow, 279-byte events"),
    Threshold("bench-json.json", "results.b.same_rows_as_pyarrow", "==", 1, "2.4 JSON: same rows as pyarrow, 1-KB events"),
    Threshold("bench-landing.json", "results.kernel_mb_s_min", ">=", 180, "3.5 landing, JSON in lz4 to committed Parquet, MB/s a core"),
    Threshold("bench-values.json", "results.avro_mb_s_min", ">=", 200, "3.5 landing, Avro, MB/s of JSON a core"),
    Threshold("bench-values.json", "results.protobuf_mb_s_min", ">=", 200, "3.5 landing, Protobuf, MB/s of JSON a core"),
    Threshold("bench-values.json", "results.times_library_min", ">=", 5, "3.5 landing, Avro and Protobuf, times the library way"),
    Threshold("bench-produce.json", "results.produce_mb_per_second", ">=", 500, "2.4 produce, 1 KB, librdkafka defaults, MB/s"),
    Threshold("bench-produce.json", "results.single_requests_per_second", ">=", 40_000, "2.4 single-record idempotent requests/s"),
    Threshold("bench-produce.json", "results.uncounted", "==", 0, "2.4 produce: acknowledged records not counted"),
    Threshold("bench-produce.json", "results.sqlite_full", "==", 1, "2.4 produce: SQLite with synchronous=FULL"),
    Threshold("bench-fetch.json", "results.fetch_mb_per_second", ">=", 1_000, "2.4 fetch from the cache, MB/s"),
    Threshold("bench-fetch.json", "results.uncounted", "==", 0, "2.4 fetch: records not counted"),
    Threshold("bench-upsert.json", "results.keys", ">=", 20_000_000, "3.6 upsert: keys"),
    Threshold("bench-upsert.json", "results.updates", ">=", 10_000_000, "3.6 upsert: updates and deletes"),
    Threshold("bench-upsert.json", "results.differences", "==", 0, "3.6 upsert: rows that differ from the replay"),
    Threshold("bench-upsert.json", "results.events_per_second", ">=", 50_000, "3.6 upsert: events/s, folding included"),
    Threshold("bench-upsert.json", "results.peak_rss_mb", "<=", 2_147, "3.6 upsert: peak memory of the landing process, MB"),
    Threshold("bench-upsert.json", "results.query_ratio_median", "<=", 2.0, "3.6 upsert: query / the same of a clean table, median"),
    Threshold("bench-memory.json", "results.ratio_max", "<=", 1.3, "2.6 peak memory / sum of named bounds"),
    Threshold("bench-memory.json", "results.broker_lowered", "<=", 0.8, "2.6 broker: peak with small bounds / with large ones"),
    Threshold("bench-memory.json", "results.landing_lowered", "<=", 0.8, "2.6 landing: peak with small bounds / with large ones"),
    Threshold("bench-s3model.json", "results.valid", "==", 1, "2.5 S3 model: the machine was idle for a tenth"),
    Threshold("bench-s3model.json", "results.lost", "==", 0, "2.5 S3 model: records lost"),
    Threshold("bench-s3model.json", "results.produce_p50_ms", "<=", 150, "2.5 S3 model, balanced, 50 MB/s: produce p50, ms"),
    Threshold("bench-s3model.json", "results.produce_p99_ms", "<=", 400, "2.5 S3 model: produce p99, ms"),
    Threshold("bench-s3model.json", "results.end_to_end_p99_ms", "<=", 1_000, "2.5 S3 model: produce to consume p99, ms"),
    Threshold("bench-s3model.json", "results.puts_as_r13_says", "==", 1, "2.5 S3 model: PUTs per second with 1,000 partitions"),
    Threshold("kill-points.json", "points_count", "==", 12, "1.3 kill points: points"),
    Threshold("kill-points.json", "fires_min", ">=", 15, "1.3 kill points: fires of the least fired point"),
    Threshold("kill-points.json", "live_max_s", "<=", 10, "1.3 kill points: slowest LIVE, seconds"),
    Threshold("simulation.json", "hours", ">=", 20, "1.4 simulation: simulated hours"),
    Threshold("simulation.json", "violations", "==", 0, "1.4 simulation: violations"),
    Threshold("planted.json", "caught", "==", 9, "1.4 planted faults caught"),
    Threshold("planted.json", "seeds_max", "<=", 50, "1.4 planted faults: most seeds needed"),
    Threshold("commits.json", "commits", ">=", 2_000, "1.6 commits to one table"),
    Threshold("commits.json", "ratio", "<=", 1.3, "1.6 CPU of the last 200 / of 50-250"),
    Threshold("commits.json", "commit_cpu_ms_last.mean", "<=", 20, "1.6 CPU of the last 200, ms"),
    Threshold("commits.json", "reader.error_count", "==", 0, "1.6 errors of the continuous DuckDB reader"),
    Threshold("retention-hour.json", "objects_constant", "==", 1, "1.7 object count returns to a constant"),
    Threshold("retention-hour.json", "freshness_unharmed", "==", 1, "1.7 the other table's freshness is unharmed"),
    Threshold("mutations.json", "mutations", ">=", 100_000, "1.8 mutated frames"),
    Threshold("mutations.json", "lost", "==", 0, "1.8 records of the good client lost"),
)


def find(document: object, path: str) -> float | None:
    """The value at a dotted path, the length of a list or mapping there, or None."""
    for name in path.split("."):
        document = document.get(name) if isinstance(document, dict) else None
    if isinstance(document, list | dict):
        return len(document)
    return document if isinstance(document, int | float) else None


def age_commits(commit: str) -> int | None:
    """How many commits were made since ``commit``; None when it is not in this history."""
    command = ["git", "-C", str(RESULTS.parent), "rev-list", "--count", f"{commit}..HEAD"]
    ancestor = ["git", "-C", str(RESULTS.parent), "merge-base", "--is-ancestor", commit, "HEAD"]
    if subprocess.run(ancestor, capture_output=True, check=False).returncode:
        return None
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def stale(document: dict[str, object]) -> str | None:
    """Why a benchmark's result does not speak for the present code, or None."""
    if document.get("dirty", True):
        return "was measured with changes that are in no commit"
    age = age_commits(str(document.get("commit", "")))
    if age is None:
        return "its commit is not in this history (a shallow clone?)"
    return f"is {age} commits old (at most {AGE_COMMITS_MAX})" if age > AGE_COMMITS_MAX else None


def judge_ages() -> int:
    """Prints one line for each benchmark file that the thresholds name; how many are stale."""
    failed = 0
    for name in sorted({threshold.file for threshold in THRESHOLDS if threshold.file.startswith("bench-")}):
        path = RESULTS / name
        why = stale(json.loads(path.read_text())) if path.exists() else "is missing"
        failed += why is not None
        print(f"{'ok  ' if why is None else 'FAIL'} {name} {why or 'is of the present code'}")
    return failed


def main() -> int:
    failed = judge_ages()
    for threshold in THRESHOLDS:
        path = RESULTS / threshold.file
        value = find(json.loads(path.read_text()), threshold.value) if path.exists() else None
        ok = value is not None and COMPARE[threshold.how](value, threshold.bound)
        failed += not ok
        shown = "missing" if value is None else f"{value:,}"
        print(f"{'ok  ' if ok else 'FAIL'} {threshold.proves}: {shown} (want {threshold.how} {threshold.bound:,})")
    print(f"{len(THRESHOLDS)} thresholds, {failed} lines failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
