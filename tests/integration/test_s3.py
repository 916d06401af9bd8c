"""The log and the tables in a bucket of SeaweedFS: deaths in the middle of a PUT, a cold restart, old metadata, wrong keys."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator

import obstore
import pytest
from obstore.store import S3Store
from tests.faults.readers import LogContent, Position
from tests.faults.rig import TABLE, Deployment, Workload, check_log, number_of
from tests.servers import ACCESS_KEY, BUCKET, READER_KEY, READER_SECRET, REGION, SECRET_KEY, SeaweedFs

pytestmark = [pytest.mark.server]


@pytest.fixture
def deployment(seaweedfs: SeaweedFs, tmp_path: pathlib.Path) -> Iterator[Deployment]:
    made = Deployment(
        tmp_path / "data",
        settings=(f"store.objects=s3://{BUCKET}/{seaweedfs.new_prefix()}",),
        variables=seaweedfs.environment(),
    )
    yield made
    made.close()


def frazil(deployment: Deployment, *arguments: str) -> subprocess.CompletedProcess[str]:
    settings = [word for setting in deployment.settings for word in ("-s", setting)]
    command = [sys.executable, "-m", "frazil", "-d", str(deployment.directory), *settings, *arguments]
    environment = {**os.environ, **deployment.variables}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)


def keys(server: SeaweedFs, deployment: Deployment, end: str) -> list[str]:
    """Objects of the deployment whose key ends so."""
    store = S3Store(
        BUCKET,
        endpoint=server.s3,
        region=REGION,
        access_key_id=ACCESS_KEY,
        secret_access_key=SECRET_KEY,
        client_options={"allow_http": True},
    )
    prefix = deployment.settings[0].rpartition("/")[2]
    return [found["path"] for page in obstore.list(store, prefix) for found in page if found["path"].endswith(end)]


def landed(deployment: Deployment, table: str) -> list[Position]:
    asked = frazil(deployment, "-o", "json", "sql", f"SELECT _kafka_partition AS p, _offset AS o FROM {table} ORDER BY ALL")
    if asked.returncode:
        assert "Not landed" in asked.stderr, asked.stderr
        return []
    return [(int(row["p"]), int(row["o"])) for row in map(json.loads, asked.stdout.splitlines())]


def check_table(deployment: Deployment, content: LogContent) -> None:
    """The table holds exactly the good records of the log."""
    good = sorted(position for position, value in content.values.items() if not value.startswith(b"not json"))
    end = time.monotonic() + 30
    while (rows := landed(deployment, TABLE)) != good:
        log = (deployment.directory / "land.log").read_text()[-1500:]
        assert len(rows) <= len(good), "rows are doubled"
        assert time.monotonic() < end, f"{len(rows)} of {len(good)} rows\n{log}"
        time.sleep(0.3)


@pytest.mark.parametrize("idempotent", [False, True])
def test_r25_a_broker_that_dies_in_a_put_to_s3_loses_and_doubles_nothing(deployment: Deployment, *, idempotent: bool) -> None:
    deployment.start("broker")
    deployment.start("land")
    work = Workload(deployment, idempotent=idempotent)
    work.send(100)
    work.settle()
    for point in ("B2", "B3"):
        deployment.stop("broker")
        deployment.start("broker", fault=f"{point}:2")
        end = time.monotonic() + 30
        while not deployment.dead("broker"):
            assert time.monotonic() < end, f"{point} did not fire"
            work.send(20)
            work.producer.poll(0.02)
        assert deployment.fired("broker")
        deployment.start("broker")
        work.settle()
    check_table(deployment, check_log(deployment, work))


@pytest.mark.parametrize("point", ["P2", "P5"])
def test_r16_landing_that_dies_in_s3_lands_each_record_once(deployment: Deployment, point: str) -> None:
    deployment.start("broker")
    deployment.start("land", fault=f"{point}:2")
    work = Workload(deployment, idempotent=False)
    end = time.monotonic() + 40
    while not deployment.dead("land"):
        assert time.monotonic() < end, f"{point} did not fire"
        work.send(60)
        work.settle()
        time.sleep(0.1)
    assert deployment.fired("land")
    deployment.start("land")
    check_table(deployment, check_log(deployment, work))


def test_sealed_segments_and_bundles_are_read_from_s3_after_a_cold_start(seaweedfs: SeaweedFs, deployment: Deployment) -> None:
    deployment.start("broker")
    work = Workload(deployment, idempotent=True)
    work.send(400)
    work.settle()
    end = time.monotonic() + 30
    while not keys(seaweedfs, deployment, ".kfs"):
        assert time.monotonic() < end, "nothing was sealed"
        time.sleep(0.2)
    work.send(100)
    work.settle()
    assert deployment.stop("broker") == 0
    deployment.start("broker")
    content = check_log(deployment, work)
    assert sorted(number_of(value) for value in content.values.values()) == list(range(500))
    doctor = frazil(deployment, "doctor").stdout
    assert "answers in" in doctor and "holds a cluster; bundles are cut every 40 ms, 4 at once" in doctor, doctor
    inside = sorted(path.name for path in deployment.directory.rglob("*") if path.is_file())
    assert {name.partition(".")[0] for name in inside} <= {"metadata", "catalog", "broker", "lock"}, inside


def test_r22_old_metadata_over_the_bucket_is_refused_and_restored(deployment: Deployment, tmp_path: pathlib.Path) -> None:
    copy = tmp_path / "yesterday.db"
    deployment.start("broker")
    work = Workload(deployment, idempotent=False)
    work.send(60)
    work.settle()
    with sqlite3.connect(deployment.directory / "metadata.db") as source, sqlite3.connect(copy) as target:
        source.backup(target)
    work.send(60)
    work.settle()
    assert deployment.stop("broker") == 0
    for name in ("metadata.db-wal", "metadata.db-shm"):
        (deployment.directory / name).unlink(missing_ok=True)
    shutil.copy(copy, deployment.directory / "metadata.db")
    deployment.start("broker")
    assert deployment.processes["broker"].wait(30) == 1
    assert "metadata is older than the bucket" in (deployment.directory / "broker.log").read_text()
    end = time.monotonic() + 30
    while (done := frazil(deployment, "restore", "--yes")).returncode != 0:
        assert "is registered" in done.stderr, done.stderr
        assert time.monotonic() < end
        time.sleep(1)
    deployment.start("broker")
    after = Workload(deployment, idempotent=True)
    after.attempted = 1000
    after.send(60)
    after.settle()
    for partition in {p for p, _ in work.acknowledged}:
        highest = max(offset for p, offset in work.acknowledged if p == partition)
        assert min(offset for p, offset in after.acknowledged if p == partition) > highest


@pytest.mark.parametrize(
    ("settings", "variables", "words"),
    [
        ((), {"AWS_ACCESS_KEY_ID": READER_KEY, "AWS_SECRET_ACCESS_KEY": READER_SECRET}, ("403", "s3:PutObject")),
        ((), {"AWS_SECRET_ACCESS_KEY": "wrong"}, ("s3.secret_access_key",)),
        ((), {"AWS_ACCESS_KEY_ID": "nobody"}, ("s3.access_key_id",)),
        (("store.objects=s3://no-such-bucket/x",), {}, ("no bucket no-such-bucket",)),
        (("s3.allow_http=false",), {}, ("s3.allow_http",)),
    ],
)
def test_what_is_wrong_with_the_store_is_said_at_the_start(
    deployment: Deployment, settings: tuple[str, ...], variables: dict[str, str], words: tuple[str, ...]
) -> None:
    deployment.settings += settings
    deployment.variables |= variables
    deployment.start("broker")
    assert deployment.processes["broker"].wait(30) == 1
    said = (deployment.directory / "broker.log").read_text()
    for word in words:
        assert word in said
    assert SECRET_KEY not in said
    assert "Traceback" not in said
