"""Spark 3.5 and Iceberg's Java reader for tests: pyspark from PyPI, the Iceberg runtime from Maven Central, both into ``.cache/spark``.

Never part of an installation of Frazil. About 25 s the first time (340 MB of PyPI, 47 MB of Maven), nothing afterwards.

python -m tests.readers.spark_setup
"""

from __future__ import annotations

import fcntl
import os
import pathlib
import shutil
import subprocess
import sys

SPARK = "3.5.9"
ICEBERG = "1.10.2"
CACHE = pathlib.Path(__file__).resolve().parents[2] / ".cache" / "spark"
SITE = CACHE / f"pyspark-{SPARK}"
JAR = CACHE / f"iceberg-spark-runtime-3.5_2.12-{ICEBERG}.jar"


def missing() -> str:
    """Why Spark cannot run here; empty if it can (after ``install``)."""
    if shutil.which("java") is None:
        return "there is no java"
    if not JAR.exists() and shutil.which("mvn") is None:
        return "there is no mvn to fetch the Iceberg runtime with"
    return ""


def install() -> None:
    """Fetches what is not there. Several processes may call it at once."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not JAR.exists():
            artifact = f"org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:{ICEBERG}"
            _run(["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={CACHE}"])
        if not SITE.exists():
            part = CACHE / "part"
            shutil.rmtree(part, ignore_errors=True)
            _run([sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--target", str(part), f"pyspark=={SPARK}"])
            part.rename(SITE)


def environment() -> dict[str, str]:
    """For a Python process that imports pyspark."""
    return {**os.environ, "PYTHONPATH": str(SITE), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


if __name__ == "__main__":
    reason = missing()
    if reason:
        sys.exit(f"Spark cannot run here: {reason}")
    install()
