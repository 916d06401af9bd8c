"""Debian's kcat 1.7.1 (librdkafka 2.0.2), all codecs in turn. It has no admin verbs: the topic appears because it asks for it."""

from __future__ import annotations

import shutil
import subprocess

from tests.compat.clients import librdkafka
from tests.compat.flow import Client, Plan

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
HERE = shutil.which("kcat") is not None


def kcat(*arguments: str, data: bytes = b"", timeout_s: float = 60) -> bytes:
    done = subprocess.run(["kcat", "-q", *arguments], input=data, capture_output=True, timeout=timeout_s)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout


def create(plan: Plan) -> None:
    """The broker's auto-creation decides the number of partitions, so kcat's topic is made by name and then grown if needed."""
    kcat("-b", plan.bootstrap, "-L", "-t", plan.topic)
    librdkafka.grow(plan)


def produce(plan: Plan) -> int:
    """Every partition in five parts, one per codec; kcat exits with an error when a record is not acknowledged."""
    lanes: dict[int, list[bytes]] = {}
    for partition, value in plan.numbers():
        lanes.setdefault(partition, []).append(value)
    for partition, values in lanes.items():
        share = -(-len(values) // len(CODECS))
        for at, codec in enumerate(CODECS):
            part = b"\n".join(values[at * share : (at + 1) * share])
            kcat("-b", plan.bootstrap, "-P", "-t", plan.topic, "-p", str(partition), "-z", codec, data=part)
    return sum(map(len, lanes.values()))


def consume(plan: Plan, enough: int) -> list[tuple[int, bytes]]:
    """A balanced consumer (-G) that leaves after ``enough`` records; kcat commits what it printed when it leaves."""
    text = kcat("-b", plan.bootstrap, "-G", plan.group, "-c", str(enough), "-X", "auto.offset.reset=earliest", "-f", "%p %s\n", plan.topic)
    return [(int(line.split(b" ", 1)[0]), line.split(b" ", 1)[1]) for line in text.splitlines()]


CLIENT = Client("kcat 1.7.1", create, produce, consume, librdkafka.committed)
