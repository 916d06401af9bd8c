"""Broker and landing as processes on a REST catalog: deaths at kill points, a catalog that misbehaves all the time. PyIceberg judges."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Mapping

import pytest
from pyiceberg.catalog.rest import RestCatalog as ForeignCatalog
from tests.faults.restcatalog import Open, check_exactly, misbehave, positions
from tests.faults.rig import TABLE, Deployment, Workload, check_log
from tests.servers import ACCESS_KEY, BUCKET, REGION, SECRET_KEY, SeaweedFs

pytestmark = pytest.mark.server


@pytest.fixture
def on_seaweedfs(seaweedfs: SeaweedFs, tmp_path: pathlib.Path, request: pytest.FixtureRequest) -> Deployment:
    """Log in S3, tables in the REST catalog, keys to them lent by it. The namespace is emptied first."""
    made = Deployment(
        tmp_path / "data",
        settings=(
            f"store.objects=s3://{BUCKET}/{seaweedfs.new_prefix()}",
            f"catalog.uri={seaweedfs.catalog}",
            "catalog.warehouse=s3://lake",
        ),
        variables={**seaweedfs.environment(), "FRAZIL_CATALOG_CREDENTIAL": f"{ACCESS_KEY}:{SECRET_KEY}"},
    )
    request.addfinalizer(made.close)
    catalog = foreign_of(seaweedfs)()
    catalog.create_namespace_if_not_exists("lake")
    for table in catalog.list_tables("lake"):
        catalog.drop_table(table)
    return made


def foreign_of(server: SeaweedFs) -> Open:
    properties = {
        "uri": server.catalog,
        "oauth2-server-uri": server.token_url,
        "credential": f"{ACCESS_KEY}:{SECRET_KEY}",
        "warehouse": server.warehouse,
        "s3.endpoint": server.s3,
        "s3.region": REGION,
        "s3.access-key-id": ACCESS_KEY,
        "s3.secret-access-key": SECRET_KEY,
    }
    return lambda: ForeignCatalog("judge", **properties)


@pytest.mark.parametrize("point", ["P4", "P5"])
def test_r16_landing_that_dies_on_a_rest_catalog_lands_each_record_once(seaweedfs: SeaweedFs, on_seaweedfs: Deployment, point: str) -> None:
    on_seaweedfs.start("broker")
    on_seaweedfs.start("land", fault=f"{point}:3")
    work = Workload(on_seaweedfs, idempotent=True)
    end = time.monotonic() + 40
    while not on_seaweedfs.dead("land"):
        assert time.monotonic() < end, f"{point} did not fire: " + (on_seaweedfs.directory / "land.log").read_text()[-2000:]
        work.send(60)
        work.settle()
        time.sleep(0.1)
    assert on_seaweedfs.fired("land")
    on_seaweedfs.start("land")
    check_exactly(on_seaweedfs, foreign_of(seaweedfs), check_log(on_seaweedfs, work))
    said = "".join(path.read_text() for path in on_seaweedfs.directory.glob("*.log"))
    assert SECRET_KEY not in said and "Bearer" not in said
    inside = {path.name.partition(".")[0] for path in on_seaweedfs.directory.rglob("*") if path.is_file()}
    assert inside <= {"metadata", "broker", "land", "lock"}, "no local data file, no local catalog"


def test_r16_landing_beside_a_catalog_that_misbehaves_all_the_time(tmp_path: pathlib.Path) -> None:
    """Every second commit meets a fault, tokens live two seconds, landing is killed in between: each record once."""
    assert misbehave(tmp_path, decks=1)["deaths_of_landing"] == 2


def test_verbs_on_a_rest_catalog(seaweedfs: SeaweedFs, on_seaweedfs: Deployment) -> None:
    on_seaweedfs.start("broker")
    on_seaweedfs.start("land")
    work = Workload(on_seaweedfs, idempotent=True)
    work.send(100)
    work.settle()
    check_exactly(on_seaweedfs, foreign_of(seaweedfs), check_log(on_seaweedfs, work))
    assert json.loads(frazil(on_seaweedfs, "sql", f"SELECT count(*) AS n, sum(id) AS s FROM {TABLE}")) == {"n": 98, "s": 4950 - 7 - 57}
    detail = json.loads(frazil(on_seaweedfs, "table", "describe", TABLE))
    assert detail["metadata"].startswith("s3://lake/lake/orders/metadata/")
    rows = [json.loads(line) for line in frazil(on_seaweedfs, "table", "list").splitlines()]
    assert TABLE in [row["table"] for row in rows]
    assert "lets us in" in frazil(on_seaweedfs, "doctor")
    explained = frazil(on_seaweedfs, "config", "explain")
    assert "FRAZIL_CATALOG_CREDENTIAL" in explained and SECRET_KEY not in explained
    frazil(on_seaweedfs, "table", "create", "lake.mine", "-t", "orders", "--column", "id long", "--column", "text string")
    end = time.monotonic() + 30
    while len(positions(foreign_of(seaweedfs), "lake.mine", ("_kafka_partition", "_offset"))) != 98:
        assert time.monotonic() < end, (on_seaweedfs.directory / "land.log").read_text()[-2000:]
        time.sleep(0.3)
    frazil(on_seaweedfs, "table", "drop", "lake.mine", "--purge")
    assert ("lake", "mine") not in foreign_of(seaweedfs)().list_tables("lake")


def frazil(deployment: Deployment, *arguments: str) -> str:
    settings = [word for setting in deployment.settings for word in ("-s", setting)]
    command = [sys.executable, "-m", "frazil", "-d", str(deployment.directory), "-o", "json", *settings, *arguments]
    environment: Mapping[str, str] = {**os.environ, **deployment.variables}
    port = ["-s", f"broker.port={deployment.port}"]
    done = subprocess.run([*command[:5], *port, *command[5:]], capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
