"""The rows of the client matrix, and how each program is started and asked."""

from __future__ import annotations

import json
import pathlib
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.compat import builds

HERE = pathlib.Path(__file__).resolve().parent


def _python(name: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, "-m", f"tests.compat.programs.{name}"]


def _kcat() -> list[str]:
    builds.need("kcat")
    return _python("kcat")()


def _js() -> list[str]:
    return ["env", f"NODE_PATH={builds.js()}", "node", str(HERE / "js" / "program.js")]


def _java() -> list[str]:
    return ["java", "-Xmx512m", "-XX:+UseSerialGC", "-cp", builds.java(), "Program"]


def _go(name: str) -> Callable[[], list[str]]:
    return lambda: [str(builds.go() / name)]


@dataclass(frozen=True)
class Row:
    """A client in one of its settings. ``command`` raises CannotBuild where the client cannot be had."""

    name: str
    command: Callable[[], list[str]]
    idempotent: bool = False
    admin: bool = False
    transactions: bool = True


ROWS = (
    Row("confluent-kafka", _python("librdkafka")),
    Row("confluent-kafka idempotent", _python("librdkafka"), idempotent=True),
    Row("kafka-python", _python("kafka_python"), idempotent=True),
    Row("aiokafka", _python("aio")),
    Row("aiokafka idempotent", _python("aio"), idempotent=True),
    Row("kcat", _kcat, transactions=False),
    Row("kafkajs", _js, admin=True),
    Row("kafkajs idempotent", _js, idempotent=True),
    Row("Java", _java, idempotent=True, admin=True),
    Row("franz-go", _go("franz"), idempotent=True, admin=True),
    Row("sarama", _go("sarama"), admin=True),
    Row("sarama idempotent", _go("sarama"), idempotent=True),
)
"""Where a client has only one row, its producer is as its defaults make it."""

REFERENCE = "confluent-kafka"
"""Whose records every client must read."""


class Failed(AssertionError):
    """What the program answered instead."""


@dataclass
class Program:
    """A running client program; ``ask`` sends a verb and waits for its answer."""

    row: Row
    directory: pathlib.Path
    _process: subprocess.Popen[str] = field(init=False)
    _answers: queue.Queue[str] = field(init=False, default_factory=queue.Queue)
    _listener: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        with (self.directory / f"{self.slug}.stderr").open("ab") as errors:
            self._process = subprocess.Popen(
                self.row.command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, bufsize=1, cwd=HERE.parents[1]
            )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put("")

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.close()
            self._process.wait(5)
        except (subprocess.TimeoutExpired, BrokenPipeError):
            self._process.kill()
            self._process.wait()
        self._listener.join(5)
        self._process.stdout.close()

    @property
    def slug(self) -> str:
        return self.row.name.lower().replace(" ", "-")

    def ask(self, verb: str, *, patience: float = 150.0, **words: object) -> dict[str, Any]:
        """The program's answer. Raises Failed: it said no, ended, or took too long."""
        assert self._process.stdin is not None
        given = {"name": self.slug, "idempotent": int(self.row.idempotent), **words}
        self._process.stdin.write(" ".join([verb, *(f"{name}={value}" for name, value in given.items())]) + "\n")
        try:
            line = self._answers.get(timeout=patience)
        except queue.Empty:
            self._process.kill()
            raise Failed(f"{self.row.name}: no answer to {verb} in {patience:.0f} s") from None
        if not line:
            raise Failed(f"{self.row.name}: ended during {verb}: {self.errors()[-1500:]}")
        answer = json.loads(line)
        if "error" in answer:
            raise Failed(f"{self.row.name}: {verb}: {answer['error']}")
        return dict(answer["ok"])

    def errors(self) -> str:
        return (self.directory / f"{self.slug}.stderr").read_text(errors="replace")
