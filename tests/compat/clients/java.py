"""kafka-clients for Java with its defaults."""

from __future__ import annotations

import functools
import pathlib
import subprocess
import tempfile

from tests.compat import builds
from tests.compat.flow import Client, Plan

PROGRAM = pathlib.Path(__file__).parents[1] / "java" / "Flow.java"


@functools.cache
def class_path() -> str:
    """Jars and the compiled program. Raises CannotBuild."""
    jars = builds.java().split(":")[1]
    folder = tempfile.mkdtemp(prefix="frazil-java-")
    subprocess.run(["javac", "-d", folder, "-cp", jars, str(PROGRAM)], check=True, capture_output=True, timeout=60)
    return f"{folder}:{jars}"


def flow(verb: str, plan: Plan, count: int = 0) -> str:
    arguments = [verb, plan.bootstrap, plan.topic, plan.group, str(plan.partitions), str(count)]
    done = subprocess.run(["java", "-Xmx512m", "-cp", class_path(), "Flow", *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def _consume(plan: Plan, enough: int) -> list[tuple[int, bytes]]:
    lines = (line.split(" ", 1) for line in flow("consume", plan, enough).splitlines())
    return [(int(partition), value.encode()) for partition, value in lines]


CLIENT = Client(
    "Java",
    lambda plan: (flow("create", plan), None)[1],
    lambda plan: int(flow("produce", plan, plan.records)),
    _consume,
    lambda plan: int(flow("committed", plan)),
)
