"""Real processes on one directory, killed at named points, and the checks after each death."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

import confluent_kafka
from tests.faults import readers

TOPIC = "orders"
TABLE = f"lake.{TOPIC}"
PARTITIONS = 3


class Violation(AssertionError):
    """A truth of docs/proof.md does not hold."""


@dataclass
class Deployment:
    """Broker and landing as separate processes over file store, SQLite metadata and SQL catalog."""

    directory: pathlib.Path
    port: int = 0
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    settings: tuple[str, ...] = ()
    """More of them, ``name=value``."""
    variables: dict[str, str] = field(default_factory=dict)
    """More environment."""

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        if not self.port:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self.port = int(probe.getsockname()[1])

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self, role: str, *, fault: str = "") -> None:
        """Starts ``broker`` or ``land``; ``fault`` is POINT:PASSAGE."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("FRAZIL_")} | self.variables
        marker = self.marker(role)
        marker.unlink(missing_ok=True)
        if fault:
            environment["FRAZIL_FAULT"] = f"{fault}:{marker}"
        command = [sys.executable, "-m", "frazil", "-d", str(self.directory), "-s", "landing.commit_interval_ms=1000"]
        command += [
            "-s",
            f"broker.default_partitions={PARTITIONS}",
            "-s",
            "broker.seal_age_ms=2000",
            "-s",
            "broker.upkeep_interval_ms=1000",
        ]
        command += [word for setting in self.settings for word in ("-s", setting)]
        log = (self.directory / f"{role}.log").open("ab")
        tail = ["broker", "--port", str(self.port)] if role == "broker" else ["land"]
        self.processes[role] = subprocess.Popen([*command, *tail], env=environment, stderr=log, stdout=log)
        log.close()
        if role == "broker":
            self._await_port()

    def _await_port(self) -> None:
        end = time.monotonic() + 30
        while time.monotonic() < end:
            if self.processes["broker"].poll() is not None:
                return
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=0.2).close()
                return
            except OSError:
                time.sleep(0.05)
        raise Violation("broker did not listen within 30 s: " + (self.directory / "broker.log").read_text()[-2000:])

    def marker(self, role: str) -> pathlib.Path:
        return self.directory / f"{role}.fired"

    def fired(self, role: str) -> bool:
        return self.marker(role).exists()

    def dead(self, role: str) -> bool:
        return self.processes[role].poll() is not None

    def stop(self, role: str, how: signal.Signals = signal.SIGTERM) -> int:
        process = self.processes[role]
        if process.poll() is None:
            process.send_signal(how)
        return process.wait(timeout=30)

    def close(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.wait(timeout=10)


@dataclass
class Workload:
    """A producer that remembers what was acknowledged where. Two in a hundred values are not JSON."""

    deployment: Deployment
    idempotent: bool
    acknowledged: dict[readers.Position, int] = field(default_factory=dict)
    attempted: int = 0
    failed: int = 0

    def __post_init__(self) -> None:
        self.producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self.deployment.bootstrap,
                "enable.idempotence": self.idempotent,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
                "linger.ms": 1,
                "batch.num.messages": 50,
                "message.timeout.ms": 60000,
                "log_level": 0,
            }
        )

    def send(self, count: int) -> None:
        """Queues ``count`` records with rising ids, spread over partitions."""
        for _ in range(count):
            number = self.attempted
            self.attempted += 1
            value = b"not json %d" % number if number % 50 == 7 else json.dumps({"id": number, "text": "x" * (number % 40)}).encode()
            self.producer.produce(TOPIC, value, partition=number % PARTITIONS, on_delivery=self._delivered(number))
            self.producer.poll(0)

    def _delivered(self, number: int):  # type: ignore[no-untyped-def]
        def done(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
            if error is not None:
                self.failed += 1
                return
            position = (message.partition() or 0, message.offset() or 0)
            if position in self.acknowledged:
                raise Violation(f"two records acknowledged at {position}")
            self.acknowledged[position] = number

        return done

    def settle(self) -> None:
        """Waits until everything queued is acknowledged."""
        left = self.producer.flush(60)
        if left or self.failed:
            raise Violation(f"{left} records not acknowledged, {self.failed} failed, although the broker is back")


def number_of(value: bytes) -> int:
    return int(value.rsplit(b" ", 1)[1]) if value.startswith(b"not json") else int(json.loads(value)["id"])


def check_log(deployment: Deployment, work: Workload) -> readers.LogContent:
    """Acknowledged records are where they were acknowledged; an idempotent producer's are there once and in order."""
    content = readers.read_log(deployment.bootstrap, TOPIC)
    for position, number in work.acknowledged.items():
        got = content.values.get(position)
        if got is None or number_of(got) != number:
            raise Violation(f"record {number} acknowledged at {position} reads {got!r}")
    if work.idempotent:
        for partition in range(PARTITIONS):
            numbers = [number_of(value) for (p, _), value in sorted(content.values.items()) if p == partition]
            if numbers != sorted(set(numbers)):
                raise Violation(f"partition {partition}: idempotent records doubled or out of order")
    return content


def check_table(deployment: Deployment, content: readers.LogContent, *, within_s: float = 10.0) -> float:
    """EO, WHOLE and LIVE: within ``within_s`` the table and its dead letters hold exactly the log. Returns the seconds it took."""
    started = time.monotonic()
    good = sorted(p for p, value in content.values.items() if not value.startswith(b"not json"))
    bad = sorted(p for p, value in content.values.items() if value.startswith(b"not json"))
    rows: list[readers.Position] = []
    while time.monotonic() - started < within_s:
        rows = readers.landed(deployment.directory, TABLE)
        if len(rows) >= len(good):
            break
        time.sleep(0.1)
    took = time.monotonic() - started
    letters = readers.dead_letters(deployment.directory, TABLE)
    if rows != good:
        twice = [p for p, n in Counter(rows).items() if n > 1][:5]
        raise Violation(
            f"table holds {len(rows)} rows, log {len(good)} good records after {took:.1f} s; twice: {twice}; "
            f"missing: {sorted(set(good) - set(rows))[:5]}; too many: {sorted(set(rows) - set(good))[:5]}"
        )
    if sorted(letters) != bad:
        raise Violation(f"dead letters {len(letters)} of {len(bad)}; twice: {[p for p, n in Counter(letters).items() if n > 1][:5]}")
    for table in (TABLE, f"{TABLE}_dead"):
        location = readers.metadata_location(deployment.directory, table)
        if location:
            readers.check_whole(location)
    return took


def fire_broker_point(deployment: Deployment, work: Workload, point: str, passage: int) -> float:
    """One death of the broker at ``point``; it is restarted without a fault; then everything is checked."""
    deployment.stop("broker")
    deployment.start("broker", fault=f"{point}:{passage}")
    end = time.monotonic() + 30
    while not deployment.dead("broker"):
        if time.monotonic() > end:
            raise Violation(f"{point}:{passage} did not fire within 30 s")
        work.send(20)
        work.producer.poll(0.02)
    if not deployment.fired("broker"):
        raise Violation(f"broker died without {point}: " + (deployment.directory / "broker.log").read_text()[-2000:])
    deployment.start("broker")
    work.settle()
    return check_table(deployment, check_log(deployment, work))


def fire_landing_point(deployment: Deployment, work: Workload, point: str, passage: int) -> float:
    """One death of landing at ``point``; it is restarted without a fault; then everything is checked."""
    deployment.stop("land")
    deployment.start("land", fault=f"{point}:{passage}")
    end = time.monotonic() + 40
    while not deployment.dead("land"):
        if time.monotonic() > end:
            raise Violation(f"{point}:{passage} did not fire within 40 s: " + (deployment.directory / "land.log").read_text()[-2000:])
        work.send(60)
        work.settle()
        time.sleep(0.2)
    if not deployment.fired("land"):
        raise Violation(f"landing died without {point}: " + (deployment.directory / "land.log").read_text()[-2000:])
    deployment.start("land")
    return check_table(deployment, check_log(deployment, work))
