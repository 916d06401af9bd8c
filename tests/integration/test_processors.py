"""The three reference documents as they stand: `frazil land -f` against the doors of Polaris and Unity in front of SeaweedFS.

Rows are read past the doors, by PyIceberg. Documents commit once a minute; landing takes what waits when it starts and when it is stopped.
"""

from __future__ import annotations

import pathlib
import time
from collections.abc import Iterator

import pytest
from tests.integration.processors import BUCKET, DOCUMENTS, POLARIS_HOST, UNITY_HOST, Stage, staged, stop, until
from tests.servers import SeaweedFs

pytestmark = pytest.mark.server
TABLES = {
    "polaris.yaml": {"events": "analytics.streaming_events"},
    "unity-oauth.yaml": {"events": "analytics.events"},
    "unity-secret.yaml": {"events": "analytics.streaming_events", "transactions": "analytics.streaming_transactions"},
}
FAULTS = {"polaris.yaml": ["P5:1"], "unity-oauth.yaml": ["P3:1", "P4:1"], "unity-secret.yaml": ["P5:1"]}
"""Where processes kill themselves: a file is written, the commit is about to be sent, it is answered. All points: tests/unit/landing."""
LISTED_S = 4.0
"""After so long a segment has been seen: the bucket is listed thirty times per commit interval, every 2 s here. Nothing tells from
outside that a listing has been read, and the commit that would show it comes after a minute, or at the stop that follows."""
DOCUMENT_NAMES = sorted(TABLES)


@pytest.fixture(scope="module")
def the_stage(seaweedfs: SeaweedFs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(seaweedfs, tmp_path_factory.mktemp("stage")) as stage:
        yield stage


@pytest.fixture
def stage(the_stage: Stage) -> Iterator[Stage]:
    the_stage.clear()
    yield the_stage
    the_stage.clear()


def offsets_once(stage: Stage, table: str) -> None:
    """No offset twice."""
    seen = [(row["_kafka_partition"], row["_offset"]) for row in stage.rows(table)]
    assert len(seen) == len(set(seen))


def killed_at(stage: Stage, document: str, fault: str) -> None:
    """One landing process that kills itself at a fault point."""
    assert stage.land(document, FRAZIL_FAULT=fault).wait(60) == -9, stage.log(document)[-2000:]


def landed(stage: Stage, document: str, table: str, ids: range) -> None:
    """One landing process from start to clean stop, in which the table comes to hold exactly ``ids``."""
    process = stage.land(document)
    until(lambda: stage.ids(table) == list(ids) or process.poll() is not None)
    assert stop(process) == 0, stage.log(document)[-2000:]
    assert stage.ids(table) == list(ids)
    offsets_once(stage, table)


@pytest.mark.parametrize("document", DOCUMENT_NAMES)
def test_r27_a_bucket_of_sealed_segments_is_landed_exactly_also_when_killed(stage: Stage, document: str) -> None:
    """No cluster, no metadata store: segments as KafScale brokers write them, and the table's own progress."""
    for topic in TABLES[document]:
        stage.put_segment(topic, 0, 0, range(500))
        stage.put_segment(topic, 0, 500, range(500, 600))
        stage.put_segment(topic, 2, 0, range(600, 700))
    for fault in FAULTS[document]:
        killed_at(stage, document, fault)
    process = stage.land(document)
    for table in TABLES[document].values():
        until(lambda table=table: stage.ids(table) == list(range(700)))  # type: ignore[misc]
    for topic in TABLES[document]:
        stage.put_segment(topic, 0, 600, range(700, 800))
        stage.put_segment(topic, 0, 700, range(800, 900))
    time.sleep(LISTED_S)
    assert stop(process) == 0
    for table in TABLES[document].values():
        assert stage.ids(table) == list(range(900))
        offsets_once(stage, table)
    door = stage.polaris if document == "polaris.yaml" else stage.unity
    assert door.seen and not door.refusals()
    assert set(stage.proxy.seen) == {f"{POLARIS_HOST}:8181" if document == "polaris.yaml" else f"{UNITY_HOST}:443"}


def cluster(stage: Stage, *settings: str) -> list[str]:
    """Options of a cluster on the documents' bucket."""
    options = ["-s", f"store.objects=s3://{BUCKET}", "-s", "store.namespace=segments", "-s", "broker.port=0"]
    return options + [part for setting in settings for part in ("-s", setting)]


def start_broker(stage: Stage, *settings: str) -> str:
    """A broker; its address."""
    stage.start(*cluster(stage, *settings), "broker", log="broker")
    until(lambda: "listens on" in stage.log("broker"))
    return stage.log("broker").rpartition("listens on ")[2].split()[0]


def produce(stage: Stage, address: str, topic: str, ids: range) -> None:
    lines = "".join(f'{{"id": {number}}}\n' for number in ids)
    done = stage.run("-b", address, "produce", topic, sent=lines.encode())
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("document", DOCUMENT_NAMES)
def test_r27_a_bucket_with_our_marker_is_landed_from_the_live_tail(stage: Stage, document: str, tmp_path: pathlib.Path) -> None:
    """Nothing is sealed in this test: what lands can only come from bundles, found through the metadata store that the marker names."""
    address = start_broker(stage, f"store.metadata=sqlite://{tmp_path}/metadata.db", "broker.seal_age_ms=86400000")
    for topic in TABLES[document]:
        produce(stage, address, topic, range(300))
    killed_at(stage, document, "P5:1")
    process = stage.land(document)
    for table in TABLES[document].values():
        until(lambda table=table: stage.ids(table) == list(range(300)))  # type: ignore[misc]
    for topic in TABLES[document]:
        produce(stage, address, topic, range(300, 400))
    assert stop(process) == 0, stage.log(document)[-2000:]
    for table in TABLES[document].values():
        assert stage.ids(table) == list(range(400))
        offsets_once(stage, table)
    assert not [info.path for info in stage.files.get_file_info(_everything(stage)) if info.path.endswith(".kfs")]
    assert "live tail" in stage.log(document)


def _everything(stage: Stage):  # type: ignore[no-untyped-def]
    import pyarrow.fs

    return pyarrow.fs.FileSelector(BUCKET, recursive=True)


def test_r27_what_a_cluster_has_sealed_lands_without_it(stage: Stage, tmp_path: pathlib.Path) -> None:
    """The cluster is gone, marker and all: its sealed segments are a KafScale bucket."""
    address = start_broker(
        stage,
        f"store.metadata=sqlite://{tmp_path}/metadata.db",
        "broker.seal_age_ms=0",
        "broker.upkeep_interval_ms=300",
        "broker.collect_grace_ms=0",
    )
    produce(stage, address, "events", range(300))
    until(lambda: any(info.path.endswith(".index") for info in stage.files.get_file_info(_everything(stage))))
    stage.end()
    for info in stage.files.get_file_info(_everything(stage)):
        if info.is_file and not info.path.startswith(f"{BUCKET}/segments/"):
            stage.files.delete_file(info.path)
    landed(stage, "polaris.yaml", "analytics.streaming_events", range(300))
    assert "holds no Frazil cluster" in stage.log("polaris.yaml")


def test_f03_a_wiped_and_refilled_bucket_is_another_log(stage: Stage) -> None:
    stage.put_segment("events", 0, 0, range(100))
    landed(stage, "polaris.yaml", "analytics.streaming_events", range(100))
    stage.files.delete_dir_contents(BUCKET)
    stage.put_segment("events", 0, 0, range(100, 150), created_ms=2_000)
    process = stage.land("polaris.yaml")
    until(lambda: stage.ids("analytics.streaming_events") == list(range(150)))
    assert stop(process) == 0


def test_a_token_that_ends_is_renewed_in_time(stage: Stage) -> None:
    stage.unity.token_seconds = 4.0
    try:
        stage.put_segment("events", 0, 0, range(100))
        process = stage.land("unity-oauth.yaml")
        until(lambda: stage.ids("analytics.events") == list(range(100)))
        time.sleep(5)  # the token ends after 4 s of the real clock
        stage.put_segment("events", 0, 100, range(100, 200))
        time.sleep(LISTED_S)
        assert stop(process) == 0
        assert stage.ids("analytics.events") == list(range(200))
        assert len([seen for seen in stage.unity.seen if seen.path == "/oidc/v1/token"]) >= 2
    finally:
        stage.unity.token_seconds = 3600.0


def test_a_managed_catalog_is_left_alone_by_care(stage: Stage) -> None:
    """Two snapshots kept at most, ten commits: a catalog of our own would be cleaned up, Unity's is the service's business."""
    for number in range(12):
        stage.put_segment("events", 0, number * 10, range(number * 10, number * 10 + 10))
    landed(stage, "unity-oauth.yaml", "analytics.events", range(120))
    assert "remove-snapshots" not in stage.unity.updates and "add-snapshot" in stage.unity.updates


@pytest.mark.parametrize(
    ("document", "variables", "why"),
    [
        (
            "polaris.yaml",
            {"FRAZIL_SECRETS_DIR": "/nowhere"},
            "secret polaris-credentials: there is no directory /nowhere/polaris-credentials",
        ),
        ("polaris.yaml", {"FRAZIL_SECRETS_DIR": ""}, "FRAZIL_SECRETS_DIR is not set"),
    ],
)
def test_a_secret_that_is_not_there_ends_the_command(stage: Stage, document: str, variables: dict[str, str], why: str) -> None:
    done = stage.run("land", "-f", str(DOCUMENTS / document), **variables)
    assert done.returncode == 1 and why in done.stderr.decode()


def test_a_variable_that_is_not_set_ends_the_command(stage: Stage) -> None:
    del stage.environment["DATABRICKS_CLIENT_SECRET"]
    try:
        done = stage.run("land", "-f", str(DOCUMENTS / "unity-oauth.yaml"))
    finally:
        stage.environment["DATABRICKS_CLIENT_SECRET"] = stage.unity.door.client_secret
    assert done.returncode == 1
    assert "spec.sink.catalog.auth.client_secret: variable DATABRICKS_CLIENT_SECRET is not set" in done.stderr.decode()


def test_a_wrong_secret_is_said_and_lands_nothing(stage: Stage) -> None:
    stage.put_segment("events", 0, 0, range(10))
    process = stage.land("unity-oauth.yaml", DATABRICKS_CLIENT_SECRET="wrong-secret-1234")
    until(lambda: bool(stage.unity.refusals()) and "table analytics.events is" in stage.log("unity-oauth.yaml"))
    stop(process)
    text = stage.log("unity-oauth.yaml")
    assert "wrong-secret-1234" not in text
    assert stage.unity.refusals() and not stage.rows("analytics.events")


def test_a_cluster_whose_metadata_is_elsewhere_is_said(stage: Stage, tmp_path: pathlib.Path) -> None:
    address = start_broker(stage, f"store.metadata=sqlite://{tmp_path}/metadata.db")
    produce(stage, address, "events", range(10))
    stage.end()
    (tmp_path / "metadata.db").rename(tmp_path / "moved.db")
    done = stage.run("land", "-f", str(DOCUMENTS / "polaris.yaml"))
    assert done.returncode == 1
    assert f"whose metadata store sqlite://{tmp_path}/metadata.db is not on this machine" in done.stderr.decode()


def test_r35_another_manifest_that_writes_the_table_is_refused(stage: Stage, tmp_path: pathlib.Path) -> None:
    stage.put_segment("events", 0, 0, range(10))
    landed(stage, "polaris.yaml", "analytics.streaming_events", range(10))
    other = tmp_path / "other.yaml"
    other.write_text((DOCUMENTS / "polaris.yaml").read_text().replace("events-polaris", "another"))
    process = stage.start("land", "-f", str(other), log="other")
    until(lambda: "is written by manifest IcebergProcessor/events-polaris" in stage.log("other"))
    stop(process)
    assert stage.ids("analytics.streaming_events") == list(range(10))


def test_a_missing_segment_is_waited_for_and_said(stage: Stage) -> None:
    stage.put_segment("events", 0, 0, range(10))
    stage.put_segment("events", 0, 20, range(20, 30))
    process = stage.land("polaris.yaml")
    until(lambda: "offsets 10-19 are in no whole segment" in stage.log("polaris.yaml"))
    assert stage.ids("analytics.streaming_events") == list(range(10))
    stage.put_segment("events", 0, 10, range(10, 20))
    time.sleep(LISTED_S)
    assert stop(process) == 0
    assert stage.ids("analytics.streaming_events") == list(range(30))


APPLIED = """
apiVersion: frazil.dev/v1
kind: Topic
metadata: {name: orders}
spec: {partitions: 2}
---
apiVersion: frazil.dev/v1
kind: Catalog
metadata: {name: warehouse}
spec:
  type: unity
  endpoint: https://workspace.cloud.databricks.com/api/2.1/unity-catalog/iceberg
  warehouse: main
  auth: {type: oauth, client_id: "${DATABRICKS_CLIENT_ID}", client_secret: "${DATABRICKS_CLIENT_SECRET}"}
---
apiVersion: frazil.dev/v1
kind: Table
metadata: {name: shop.orders}
spec:
  topics: [orders]
  catalog: warehouse
  commitIntervalSeconds: 1
"""


def test_applied_manifests_land_in_a_cluster_with_local_stores(stage: Stage, tmp_path: pathlib.Path) -> None:
    """Topic, catalog and table by `apply` under a running `frazil dev`; rows in Unity; the verbs find the table there."""
    data = ["-d", str(tmp_path / "data")]
    stage.start(*data, "dev", "--port", "0", log="dev")
    until(lambda: "listens on" in stage.log("dev"))
    address = ["-b", stage.log("dev").rpartition("listens on ")[2].split()[0]]
    assert stage.run(*data, *address, "diff", "-f", "-", sent=APPLIED.encode()).returncode == 1
    done = stage.run(*data, *address, "apply", "-f", "-", sent=APPLIED.encode())
    assert done.returncode == 0, done.stderr
    assert [line.split()[-1] for line in done.stdout.decode().splitlines()] == ["RESULT", "created", "created", "created"]
    assert stage.run(*data, *address, "diff", "-f", "-", sent=APPLIED.encode()).returncode == 0
    produce_to = [*data, *address, "produce", "orders"]
    assert stage.run(*produce_to, sent=b"".join(b'{"id": %d}\n' % number for number in range(100))).returncode == 0
    done = stage.run(*data, *address, "land", "wait", "shop.orders", "--timeout", "30")
    assert done.returncode == 0, done.stderr.decode() + stage.log("dev")[-2000:]
    assert stage.ids("shop.orders") == list(range(100))
    done = stage.run(*data, "sql", "SELECT count(*) AS n, sum(id) AS s FROM shop.orders", "-o", "json")
    assert done.stdout.split() == b'{"n": 100, "s": 4950}'.split(), done.stderr
    paused = APPLIED.partition("---")[2] + "  paused: true\n"
    assert stage.run(*data, *address, "apply", "-f", "-", sent=paused.encode()).returncode == 0
    until(lambda: b"paused" in stage.run(*data, "land", "status").stdout)
    assert stage.run(*produce_to, sent=b"".join(b'{"id": %d}\n' % number for number in range(100, 150))).returncode == 0
    (tmp_path / "table.yaml").write_text(APPLIED.partition("---")[2])
    process = stage.start(*data, "land", "-f", str(tmp_path / "table.yaml"), log="table")
    until(lambda: " lands " in stage.log("table") and stage.ids("shop.orders") == list(range(150)))
    assert stop(process) == 0, stage.log("table")
    metadata = (tmp_path / "data" / "metadata.db").read_bytes() + b"".join(
        p.read_bytes() for p in (tmp_path / "data").glob("metadata.db-*")
    )
    assert stage.unity.door.client_secret.encode() not in metadata
    assert stage.unity.door.client_secret not in stage.log("dev")


@pytest.mark.parametrize("document", ["unity-secret.yaml"])
def test_a_reference_document_is_applied_to_the_cluster_of_its_bucket(stage: Stage, document: str, tmp_path: pathlib.Path) -> None:
    """The other way to run one: the cluster's own landing process takes it up."""
    settings = (f"store.metadata=sqlite://{tmp_path}/metadata.db", "landing.auto=false")
    address = start_broker(stage, *settings)
    for topic in TABLES[document]:
        produce(stage, address, topic, range(100))
    stage.start(*cluster(stage, *settings), "land", log="land")
    done = stage.run(*cluster(stage, *settings), "apply", "-f", str(DOCUMENTS / document))
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().count("created") == 1 + len(TABLES[document])
    for table in TABLES[document].values():
        until(lambda table=table: stage.ids(table) == list(range(100)))  # type: ignore[misc]
    assert "unchanged" in stage.run(*cluster(stage, *settings), "apply", "-f", str(DOCUMENTS / document)).stdout.decode()
    assert stage.run(*cluster(stage, *settings), "diff", "-f", str(DOCUMENTS / document)).returncode == 0
