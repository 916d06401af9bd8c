"""Apache Kafka itself, one node that is broker and controller, on loopback: started, killed, started again on its data.

    with KafkaServer(directory) as kafka:
        kafka.bootstrap

The jars come from Maven; ``CannotBuild`` says why there are none.
"""

from __future__ import annotations

import pathlib
import random
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from tests.compat.builds import built, need, run

VERSION = "4.4.0"
_POM = pathlib.Path(__file__).parent / "pom.xml"
_JAVA = ("java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


def jars() -> pathlib.Path:
    """Folder of the server's jars, fetched once."""
    need("java", "mvn")
    return built(
        "kafka-server",
        [_POM],
        lambda folder: run("mvn", "-q", "-B", "-f", str(_POM), "dependency:copy-dependencies", f"-DoutputDirectory={folder}"),
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class KafkaServer:
    """One cluster. ``extra``: more server properties. ``secure_port``: a second listener, with TLS and SASL, there."""

    def __init__(self, directory: pathlib.Path, extra: Mapping[str, str] | None = None, secure_port: int | None = None) -> None:
        self._jars = jars()
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        port, controller = free_port(), free_port()
        self.bootstrap = f"127.0.0.1:{port}"
        more = "" if secure_port is None else f",SASL_SSL://localhost:{secure_port}"
        self._properties = directory / "server.properties"
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}{more}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}{more}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL",
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(directory / "logs"),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
            "auto.create.topics.enable": "false",
            "file.delete.delay.ms": "0",
            **(extra or {}),
        }
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        self._process: subprocess.Popen[bytes] | None = None

    def format(self, *arguments: str) -> None:
        """Makes the data directory, once. ``arguments``: for example ``--add-scram``."""
        self._tool("kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", str(self._properties), *arguments)

    def start(self, timeout_s: float = 60.0) -> None:
        with (self._directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*_JAVA, "-cp", f"{self._jars}/*", "kafka.Kafka", str(self._properties)], stdout=log, stderr=log
            )
        host, _, port = self.bootstrap.partition(":")
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            assert self._process.poll() is None, (self._directory / "server.log").read_text()[-2000:]
            with socket.socket() as probe:
                if probe.connect_ex((host, int(port))) == 0:
                    return
            time.sleep(0.1)  # until the broker listens, or has ended
        raise AssertionError("Kafka does not listen")

    def kill(self) -> None:
        """As a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> KafkaServer:
        if not (self._directory / "logs").exists():
            self.format()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _tool(self, name: str, *arguments: str) -> None:
        run(*_JAVA, "-cp", f"{self._jars}/*", name, *arguments)


class Clients:
    """librdkafka against the server: the independent side of the tests."""

    def __init__(self, bootstrap: str, **config: Any) -> None:
        self._config = {"bootstrap.servers": bootstrap, "log_level": 0, **config}
        self.admin = AdminClient(self._config)

    def create(self, topic: str, partitions: int, **config: str) -> None:
        until(lambda: self.admin.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result() is None, patience_s=30)

    def delete(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result()

    def grow(self, topic: str, partitions: int) -> None:
        self.admin.create_partitions([NewPartitions(topic, partitions)])[topic].result()

    def drop_below(self, topic: str, partition: int, offset: int) -> None:
        """As retention does."""
        place = TopicPartition(topic, partition, offset)
        for future in self.admin.delete_records([place]).values():
            future.result()

    def producer(self, **config: Any) -> Producer:
        made = Producer({**self._config, "linger.ms": 2, **config})
        if "transactional.id" in config:
            made.init_transactions(30)
        return made

    def committed(self, topic: str) -> list[tuple[int, int, bytes | None]]:
        """(partition, offset, value) of every record that a read_committed consumer gets, to the end as it is now."""
        consumer = Consumer(
            {**self._config, "group.id": f"judge-{random.random()}", "isolation.level": "read_committed", "enable.partition.eof": True,
             "enable.auto.commit": False}
        )  # fmt: skip
        found = []
        try:
            partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
            consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
            left = set(partitions)
            while left:
                message = consumer.poll(30)
                assert message is not None, f"no end of {left}"
                error = message.error()
                if error is None:
                    found.append((message.partition(), message.offset(), message.value()))
                elif error.name() == "_PARTITION_EOF":
                    left.discard(message.partition())
                else:
                    raise AssertionError(error)
        finally:
            consumer.close()
        return sorted(found)


def send(producer: Producer, topic: str, ids: Sequence[int], partitions: int) -> None:
    """Record ``{"id": n}`` into partition n modulo ``partitions``; all are with the broker at the end."""
    for number in ids:
        producer.produce(topic, key=str(number).encode(), value=b'{"id": %d}' % number, partition=number % partitions)
    assert producer.flush(60) == 0


def until(condition: Any, patience_s: float = 60.0) -> None:
    """Waits for something that has to come."""
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.1)  # until the deadline above
