"""Broker and landing as processes on a REST catalog: deaths at kill points, a catalog that misbehaves all the time. PyIceberg judges."""

from __future__ import annotations

import json
import os
import pathlib
import random
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence

import pytest
from pyiceberg.catalog.rest import RestCatalog as ForeignCatalog
from pyiceberg.exceptions import NoSuchTableError
from tests.faults.readers import LogContent, Position
from tests.faults.rig import TABLE, Deployment, Workload, check_log
from tests.servers import ACCESS_KEY, BUCKET, REGION, SECRET_KEY, SeaweedFs
from tests.standins.rest_catalog import DoubleRules, RestCatalogDouble

pytestmark = pytest.mark.server

Open = Callable[[], ForeignCatalog]


def positions(open_foreign: Open, table: str, columns: Sequence[str]) -> list[Position]:
    """Positions of all rows by PyIceberg's own client; duplicates stay."""
    try:
        found = open_foreign().load_table(table).scan(selected_fields=tuple(columns)).to_arrow()
    except NoSuchTableError:
        return []
    return sorted(zip(*(found[name].to_pylist() for name in columns), strict=True))


def check_exactly(deployment: Deployment, open_foreign: Open, content: LogContent, *, within_s: float = 40.0) -> None:
    """The table holds the good records of the log, its dead letters the bad ones, each once."""
    good = sorted(at for at, value in content.values.items() if not value.startswith(b"not json"))
    bad = sorted(at for at, value in content.values.items() if value.startswith(b"not json"))
    end = time.monotonic() + within_s
    while True:
        rows = positions(open_foreign, TABLE, ("_kafka_partition", "_offset"))
        letters = positions(open_foreign, f"{TABLE}_dead", ("partition", "offset"))
        if rows == good and letters == bad:
            return
        log = (deployment.directory / "land.log").read_text()[-2500:]
        assert len(rows) <= len(good) and len(letters) <= len(bad), (
            f"doubled: {len(rows)} of {len(good)}, {len(letters)} of {len(bad)}\n{log}"
        )
        assert time.monotonic() < end, f"{len(rows)} of {len(good)} rows, {len(letters)} of {len(bad)} letters\n{log}"
        time.sleep(0.3)


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
    chance = random.Random(20)
    words = (
        "409",
        "409/a",
        "429(0)",
        "500/n",
        "500/a",
        "502/a",
        "503(0)",
        "504/n",
        "cut/n",
        "cut/a",
        "garbage/a",
        "late(0.5)",
        "late(2)",
        "401",
    )
    rules = DoubleRules(client_id="id", client_secret="the-client-secret", scope="all", token_seconds=2.0, prefix="main", page=1)
    with RestCatalogDouble(tmp_path / "warehouse", rules) as double:
        deployment = Deployment(
            tmp_path / "data",
            settings=(f"catalog.uri={double.uri}", "catalog.scope=all"),
            variables={"FRAZIL_CATALOG_CREDENTIAL": "id:the-client-secret"},
        )
        properties = {
            "uri": double.uri,
            "oauth2-server-uri": f"{double.uri}/v1/oauth/tokens",
            "credential": "id:the-client-secret",
            "scope": "all",
        }
        try:
            deployment.start("broker")
            deployment.start("land")
            work = Workload(deployment, idempotent=True)
            deck = [*words]
            chance.shuffle(deck)
            double.script(*(word for fault in deck for word in (fault, "ok")))
            end, kills = time.monotonic() + 120, 2
            while double.faults:
                assert time.monotonic() < end, (
                    f"{len(double.faults)} words left\n" + (deployment.directory / "land.log").read_text()[-2000:]
                )
                double.load_faults.extend(["500/n"] if chance.random() < 0.1 else [])
                work.send(80)
                work.settle()
                if kills and len(double.faults) < 10 * kills:
                    kills -= 1
                    deployment.processes["land"].kill()
                    deployment.processes["land"].wait()
                    deployment.start("land")
                time.sleep(0.3)
            double.load_faults.clear()
            double.settle()
            check_exactly(deployment, lambda: ForeignCatalog("judge", **properties), check_log(deployment, work))
            met = {seen.status for seen in double.seen if seen.method == "POST" and "/tables/" in seen.path}
            assert {0, 200, 401, 409, 429, 500, 502, 503, 504} <= met
            assert sum(1 for seen in double.seen if seen.path.endswith("/oauth/tokens")) >= 5
            assert "the-client-secret" not in (deployment.directory / "land.log").read_text()
        finally:
            deployment.close()


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
