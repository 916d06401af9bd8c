"""kafka-clients for Java with its defaults."""

from __future__ import annotations

import subprocess

from tests.compat import builds
from tests.compat.flow import Client, Plan


def flow(verb: str, plan: Plan, count: int = 0) -> str:
    arguments = [verb, plan.bootstrap, plan.topic, plan.group, str(plan.partitions), str(count)]
    done = subprocess.run(["java", "-Xmx512m", "-cp", builds.java(), "Flow", *arguments], capture_output=True, text=True, timeout=120)
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
