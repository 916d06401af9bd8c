"""Everything around `frazil land -f` for the reference documents: SeaweedFS, the doors of Polaris and Unity, a proxy to their names."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow.fs
import trustme
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import NoSuchTableError
from tests.servers import ACCESS_KEY, REGION, SECRET_KEY, SeaweedFs
from tests.standins.catalog_gateway import POLARIS, UNITY, Gateway, running_gateway
from tests.standins.connect_proxy import ConnectProxy, running_proxy

from frazil.records import build_batch
from frazil.records.building import BatchOptions, Record
from frazil.segments.kfs import build_segment

DOCUMENTS = pathlib.Path(__file__).resolve().parents[1] / "corpus" / "manifests"
BUCKET = "kafscale-data"
NAMESPACES = {("analytics",), ("shop",)}
POLARIS_HOST, UNITY_HOST = "polaris.internal", "workspace.cloud.databricks.com"
FRAZIL = [sys.executable, "-m", "frazil"]


@dataclass
class Stage:
    """What a process of ours finds around it."""

    server: SeaweedFs
    polaris: Gateway
    unity: Gateway
    proxy: ConnectProxy
    directory: pathlib.Path
    environment: dict[str, str]
    files: pyarrow.fs.FileSystem
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def land(self, document: str, *arguments: str, **variables: str) -> subprocess.Popen[bytes]:
        """`frazil land -f` on the document as it stands; returns when it has begun to land."""
        before = self.log(document).count(" lands ")
        process = self.start("land", "-f", str(DOCUMENTS / document), *arguments, log=document, **variables)
        until(lambda: self.log(document).count(" lands ") > before or process.poll() is not None)
        return process

    def start(self, *arguments: str, log: str, **variables: str) -> subprocess.Popen[bytes]:
        output = (self.directory / f"{log}.log").open("ab")
        process = subprocess.Popen([*FRAZIL, *arguments], env={**self.environment, **variables}, stdout=output, stderr=output)
        output.close()
        self.processes.append(process)
        return process

    def run(self, *arguments: str, sent: bytes = b"", **variables: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run([*FRAZIL, *arguments], env={**self.environment, **variables}, input=sent, capture_output=True, timeout=120)

    def log(self, document: str) -> str:
        path = self.directory / f"{document}.log"
        return path.read_text() if path.exists() else ""

    def catalog(self) -> RestCatalog:
        """SeaweedFS' own catalog, past the doors."""
        return RestCatalog(
            "seaweed",
            **{
                "uri": self.server.catalog, "warehouse": self.server.warehouse,
                "oauth2-server-uri": self.server.token_url, "credential": f"{ACCESS_KEY}:{SECRET_KEY}",
                "s3.endpoint": self.server.s3, "s3.access-key-id": ACCESS_KEY, "s3.secret-access-key": SECRET_KEY, "s3.region": REGION,
            },
        )  # fmt: skip

    def rows(self, table: str) -> list[dict[str, Any]]:
        """All rows, read by PyIceberg; none when there is no table."""
        try:
            return list(self.catalog().load_table(table).scan().to_arrow().to_pylist())
        except NoSuchTableError:
            return []

    def ids(self, table: str) -> list[int]:
        return sorted(row["id"] for row in self.rows(table))

    def put_segment(self, topic: str, partition: int, base: int, ids: range, *, created_ms: int = 1_000, prefix: str = "segments/") -> None:
        """A sealed segment with its index, as a KafScale broker stores it."""
        records = [Record(key=b"k", value=b'{"id": %d}' % number, timestamp_ms=1_764_547_200_000 + number) for number in ids]
        batch = build_batch(records, options=BatchOptions(base_offset=base))
        segment = build_segment([batch], created_ms=created_ms)
        stem = f"{BUCKET}/{prefix}{topic}/{partition}/segment-{base:020d}"
        for ending, data in ((".kfs", segment.kfs), (".index", segment.index)):
            with self.files.open_output_stream(stem + ending) as stream:
                stream.write(data)

    def clear(self) -> None:
        """Ends processes, empties the bucket, drops the tables of these tests."""
        self.end()
        self.files.delete_dir_contents(BUCKET, missing_dir_ok=True)
        catalog = self.catalog()
        for namespace in NAMESPACES & set(catalog.list_namespaces()):
            for ident in catalog.list_tables(namespace):
                catalog.drop_table(ident)
        for gateway in (self.polaris, self.unity):
            gateway.seen.clear()
            gateway.updates.clear()
        self.proxy.seen.clear()
        for log in self.directory.glob("*.log"):
            log.unlink()

    def end(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        self.processes.clear()


def stop(process: subprocess.Popen[bytes]) -> int:
    """A clean end."""
    process.send_signal(signal.SIGTERM)
    return process.wait(60)


def until(what: Callable[[], bool], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "took too long"
        time.sleep(0.1)


@contextlib.contextmanager
def staged(server: SeaweedFs, directory: pathlib.Path) -> Iterator[Stage]:
    authority = trustme.CA()
    ca_file = directory / "ca.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    secret_files(directory / "secrets")
    files = pyarrow.fs.S3FileSystem(
        access_key=ACCESS_KEY,
        secret_key=SECRET_KEY,
        region=REGION,
        endpoint_override=server.s3,
        allow_bucket_creation=True,
        allow_bucket_deletion=False,
    )
    files.create_dir(BUCKET)
    with (
        running_gateway(POLARIS, server, authority, POLARIS_HOST) as polaris,
        running_gateway(UNITY, server, authority, UNITY_HOST) as unity,
        running_proxy({f"{POLARIS_HOST}:8181": polaris.port, f"{UNITY_HOST}:443": unity.port}) as proxy,
    ):
        environment = {
            **{name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG")},
            **server.environment(),
            "HTTPS_PROXY": proxy.url,
            "FRAZIL_CATALOG_CA_FILE": str(ca_file),
            "FRAZIL_SECRETS_DIR": str(directory / "secrets"),
            "FRAZIL_DATA_DIR": str(directory / "data"),
            "DATABRICKS_CLIENT_ID": UNITY.client_id,
            "DATABRICKS_CLIENT_SECRET": UNITY.client_secret,
        }
        stage = Stage(server, polaris, unity, proxy, directory, environment, files)
        try:
            yield stage
        finally:
            stage.end()


def secret_files(directory: pathlib.Path) -> None:
    """The secrets that the documents name."""
    for name, values in {
        "polaris-credentials": {"client_id": POLARIS.client_id, "client_secret": POLARIS.client_secret, "audience": POLARIS.audience},
        "unity-catalog-credentials": {"client_id": UNITY.client_id, "client_secret": UNITY.client_secret},
    }.items():
        (directory / name).mkdir(parents=True)
        for key, value in values.items():
            (directory / name / key).write_text(value + "\n")
