"""Apache Kafka as the source: `frazil land -f` of a KafkaProcessor lands what a read_committed consumer reads, each record once.

The server is Apache Kafka from Maven, the producers and the judge are librdkafka, tables are read by PyIceberg past our own code.
"""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import NoSuchTableError
from tests.compat.builds import CannotBuild
from tests.sources.kafka_server import Clients, KafkaServer, send, until
from tests.standins.rest_catalog import RestCatalogDouble

pytestmark = pytest.mark.server
FRAZIL = [sys.executable, "-m", "frazil"]
DOCUMENT = """
apiVersion: frazil.dev/v1
kind: KafkaProcessor
metadata: {{name: lands}}
spec:
  source:
    topics: [{topics}]
    kafka: {kafka}
  sink:
    catalog: {{type: rest, endpoint: "{catalog}"}}
    database: lake
  processing: {{commitIntervalSeconds: 1}}
"""


@dataclass
class Stage:
    kafka: KafkaServer
    clients: Clients
    catalog: RestCatalogDouble
    directory: pathlib.Path
    source: str = ""
    """``spec.source.kafka``; empty: the plain listener."""
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def document(self, *topics: str) -> str:
        path = self.directory / f"{'-'.join(topics)}.yaml"
        kafka = self.source or f'{{bootstrap: "{self.kafka.bootstrap}"}}'
        path.write_text(DOCUMENT.format(topics=", ".join(topics), kafka=kafka, catalog=self.catalog.uri))
        return str(path)

    def land(self, *topics: str, **variables: str) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            command = [*FRAZIL, "-s", "landing.progress_idle_ms=1000", "land", "-f", self.document(*topics)]
            self.processes.append(subprocess.Popen(command, env={**os.environ, **variables}, stdout=log, stderr=log))
        return self.processes[-1]

    @property
    def log(self) -> pathlib.Path:
        return self.directory / "land.log"

    def rows(self, table: str) -> list[dict[str, Any]]:
        catalog = RestCatalog("judge", uri=self.catalog.uri)
        try:
            return list(catalog.load_table(f"lake.{table}").scan().to_arrow().to_pylist())
        except NoSuchTableError:
            return []

    def landed(self, topic: str) -> list[tuple[int, int, bytes | None]]:
        return sorted((row["_kafka_partition"], row["_offset"], b'{"id": %d}' % row["id"]) for row in self.rows(topic))


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    directory = tmp_path_factory.mktemp("kafka")
    try:
        server = KafkaServer(directory / "server")
    except CannotBuild as why:
        pytest.skip(str(why))
    with server as kafka, RestCatalogDouble(directory / "warehouse") as catalog:
        found = Stage(kafka=kafka, clients=Clients(kafka.bootstrap), catalog=catalog, directory=directory)
        yield found
        for process in found.processes:
            process.kill()
            process.wait()


def test_f20_f09_f03_a_kafka_topic_lands_exactly(stage: Stage) -> None:
    """Transactions that commit and abort, a landing process that dies, a broker that dies, new partitions, a topic made anew."""
    clients, topic = stage.clients, "orders"
    clients.create(topic, 2)
    plain = clients.producer(**{"compression.type": "lz4", "enable.idempotence": True})
    one, other = (
        clients.producer(**{"transactional.id": name, "compression.type": codec}) for name, codec in (("a", "zstd"), ("b", "none"))
    )
    send(plain, topic, range(500), 2)
    one.begin_transaction()
    send(one, topic, range(500, 600), 2)
    other.begin_transaction()
    send(other, topic, range(600, 650), 2)
    send(plain, topic, range(650, 700), 2)
    one.commit_transaction(30)
    other.abort_transaction(30)
    process = stage.land(topic, FRAZIL_FAULT="P5:1")
    assert process.wait(30) == -signal.SIGKILL, stage.log.read_text()[-2000:]
    process = stage.land(topic)
    until(lambda: stage.landed(topic) == clients.committed(topic))
    assert len(stage.rows(topic)) == 650

    other.begin_transaction()
    send(other, topic, range(700, 800), 2)
    stage.kafka.kill()  # with a transaction open, and landing at work
    stage.kafka.start()
    send(plain, topic, range(800, 900), 2)
    until(lambda: other.commit_transaction(30) is None)
    clients.grow(topic, 4)
    until(lambda: len(clients.admin.list_topics(topic, timeout=10).topics[topic].partitions) == 4)
    late = clients.producer(**{"transactional.id": "c"})
    late.begin_transaction()
    send(late, topic, range(900, 920), 4)
    late.commit_transaction(30)
    want = clients.committed(topic)
    assert len(want) == 870
    until(lambda: stage.landed(topic) == want)

    done = subprocess.run(
        [
            *FRAZIL,
            "-o",
            "json",
            "land",
            "reset",
            f"lake.{topic}",
            "-f",
            stage.document(topic),
            "--partition",
            f"{topic}:0=0",
            "--delete-rows",
            "--yes",
        ],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    until(lambda: stage.landed(topic) == want)

    clients.delete(topic)
    clients.create(topic, 1)
    fresh = clients.producer()
    send(fresh, topic, range(1_000, 1_005), 1)
    until(lambda: len(stage.rows(topic)) == 875)
    assert sorted(row["id"] for row in stage.rows(topic))[-5:] == list(range(1_000, 1_005))
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0, stage.log.read_text()[-2000:]
