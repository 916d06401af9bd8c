"""Wrong names, settings, directories and stores: one clear line on stderr, an exit code other than 0, never a traceback."""

from __future__ import annotations

import asyncio
import pathlib
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator

import pytest
from tests.compat.process import Processes, clean_environment, frazil, free_port
from tests.faults import batches
from tests.faults.mutate import produce_frame

from frazil.admin.connection import BrokerConnection
from frazil.wire.errors import ErrorCode
from frazil.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from frazil.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from frazil.wire.messages.registry import ApiKey

pytestmark = [pytest.mark.server]

BAD_NAMES = ["../x", "..", ".", "", "a" * 250, "a b", "a/b", "a\\b", "a:b", "a*", "/etc/passwd", "ä", "a\n", "a\0b", "..%2f", "~", "a!2"]


def refusal(*arguments: str, variables: dict[str, str] | None = None, timeout_s: float = 60.0) -> str:
    """The one line that a command ends with."""
    done = frazil(*arguments, variables=variables, timeout_s=timeout_s)
    lines = done.stderr.splitlines()
    assert done.returncode not in (0, 139), (done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr, done.stderr[-3000:]
    assert lines and lines[-1].startswith(("frazil: ", "Error: ")), done.stderr
    assert len([line for line in lines if line.startswith(("frazil: ", "Error: "))]) == 1, done.stderr
    assert len(lines[-1]) < 700
    return lines[-1]


# ── settings ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("broker: {prot: 1}", "did you mean 'broker.port'"),
        ("brokr: {port: 1}", "did you mean 'broker.port'"),
        ("landing: {comit_interval_ms: 1000}", "did you mean 'landing.commit_interval_ms'"),
        ("broker: {port: many}", "broker.port must be a whole number, not 'many'"),
        ("broker: {port: 70000}", "at most 65535"),
        ("broker: {port: [1]}", "broker.port must be a whole number"),
        ("broker: {auto_create_topics: 7}", "must be true or false"),
        ("broker: [1, 2]", "'broker' is a group of settings"),
        ("broker: 5", "'broker' is a group of settings"),
        ("data_dir: {x: 1}", "did you mean 'data_dir'"),
        ("landing: {commit_interval_ms: 5}", "at least 1000"),
        ("landing: {commit_interval_ms: 1e400}", "must be a whole number"),
        ("landing: {commit_interval_ms: 99999999999999999999999}", "at most"),
        ("- 1", "the top must be a mapping"),
        ("1: 2", "the top must be a mapping"),
        ("a: [", "is not YAML"),
        ("!!python/object/apply:os.system ['true']", "is not YAML"),
        ("\t", "is not YAML"),
    ],
)
def test_yaml_settings(tmp_path: pathlib.Path, text: str, expected: str):
    path = tmp_path / "settings.yaml"
    path.write_text(text)
    assert expected in refusal("-c", str(path), "config", "explain")
    assert expected in refusal("config", "explain", variables={"FRAZIL_CONFIG": str(path)})


def test_settings_files_that_cannot_be_read(tmp_path: pathlib.Path):
    path = tmp_path / "settings.yaml"
    path.write_bytes(b"\xff\xfe\0")
    assert "is not YAML" in refusal("-c", str(path), "config", "explain")
    assert "No such file" in refusal("-c", str(tmp_path / "none.yaml"), "config", "explain")
    assert "directory" in refusal("-c", str(tmp_path), "config", "explain")


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("FRAZIL_BROKER_PROT", "1", "did you mean 'FRAZIL_BROKER_PORT'"),
        ("FRAZIL_X", "1", "unknown variable FRAZIL_X"),
        ("FRAZIL_BROKER_PORT", "", "broker.port must be a whole number"),
        ("FRAZIL_LANDING_AUTO", "maybe", "must be true or false"),
        ("FRAZIL_BROKER_ID", "-1", "at least 0"),
    ],
)
def test_variables(name: str, value: str, expected: str):
    assert expected in refusal("config", "explain", variables={name: value})


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-s", "broker.flush_intervall_ms=3", "config", "explain"], "did you mean 'broker.flush_interval_ms'"),
        (["-s", "novalue", "config", "explain"], "want NAME=VALUE"),
        (["-s", "broker.id=99999999999999", "config", "explain"], "at most"),
        (["-s", "broker.id=1.5", "config", "explain"], "whole number"),
        (["-s", "log_level=loud", "broker"], "want one of"),
        (["broker", "--prot", "3"], "--port"),
        (["brokr"], "broker"),
        (["-b", "nowhere", "topic", "list"], "want HOST:PORT"),
        (["-b", "127.0.0.1:1", "topic", "list"], "no broker answers at 127.0.0.1:1"),
        (["-b", "127.0.0.1:1", "produce", "x"], "no broker answers"),
    ],
)
def test_flags(tmp_path: pathlib.Path, arguments: list[str], expected: str):
    assert expected in refusal("-d", str(tmp_path / "d"), *arguments)


@pytest.mark.parametrize(
    ("setting", "role", "expected"),
    [
        ("store.objects=s3x://bucket", "broker", "known: file, memory"),
        ("store.objects=nonsense", "broker", "file:///"),
        ("store.metadata=foo://x", "broker", "known: memory, sqlite"),
        ("store.metadata=sqlite://", "broker", "sqlite:///"),
        ("store.catalog=foo://x", "land", "known: "),
        ("broker.host=nosuch.invalid", "broker", "cannot listen on nosuch.invalid"),
        ("broker.host=192.0.2.1", "broker", "cannot listen on 192.0.2.1"),
    ],
)
def test_addresses(tmp_path: pathlib.Path, setting: str, role: str, expected: str):
    assert expected in refusal("-d", str(tmp_path / "d"), "-s", setting, role)


# ── directories and stores ──────────────────────────────────────────────────────────────────────────────────────────────


def test_data_directories_that_cannot_be(tmp_path: pathlib.Path):
    file = tmp_path / "file"
    file.touch()
    for role in ("broker", "land", "dev"):
        assert "data dir" in refusal("-d", str(file), role)
        assert "data dir" in refusal("-d", str(file / "below"), role)
        assert "data dir" in refusal("-d", "/proc/frazil", role)
    for command in (["table", "list"], ["sql", "select 1"], ["land", "status"]):
        assert "no data directory" in refusal("-d", str(tmp_path / "none"), *command)
    assert not (tmp_path / "none").exists()


def test_stores_that_are_not_what_they_should_be(tmp_path: pathlib.Path):
    for name in ("metadata.db", "objects"):
        directory = tmp_path / f"swapped-{name}"
        directory.mkdir()
        if name == "objects":
            (directory / name).touch()
        else:
            (directory / name).mkdir()
        assert str(directory / name) in refusal("-d", str(directory), "broker")
    for name, role in (("metadata.db", "broker"), ("catalog.db", "land")):
        directory = tmp_path / f"garbage-{name}"
        directory.mkdir()
        (directory / name).write_bytes(b"not a database, but long enough to look like one" * 200)
        assert str(directory / name) in refusal("-d", str(directory), role)


def test_a_database_that_is_damaged_inside(tmp_path: pathlib.Path):
    with Processes(tmp_path) as started:
        started.start("broker")
        assert started.stop("broker") == 0
    directory = started.directory / "data"
    path = directory / "metadata.db"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + b"\xa5" * (len(whole) - 100))
    for side in ("metadata.db-wal", "metadata.db-shm"):
        (directory / side).unlink(missing_ok=True)
    line = refusal("-d", str(directory), "broker", "--port", str(free_port()))
    assert "metadata.db" in line


def test_a_bucket_of_another_cluster_and_a_damaged_marker(tmp_path: pathlib.Path):
    with Processes(tmp_path / "a") as one, Processes(tmp_path / "b") as other:
        one.start("broker")
        one.stop("broker")
        other.start("broker")
        other.stop("broker")
    shutil.rmtree(tmp_path / "b" / "data" / "objects")
    shutil.copytree(tmp_path / "a" / "data" / "objects", tmp_path / "b" / "data" / "objects")
    for role in ("broker", "land"):
        assert "belongs to cluster" in refusal("-d", str(tmp_path / "b" / "data"), role)
    for marker in (tmp_path / "a" / "data" / "objects").rglob("instance-*"):
        marker.write_text("garbage")
    assert "instance marker" in refusal("-d", str(tmp_path / "a" / "data"), "broker")


# ── one at a time ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
def test_second_of_a_kind(tmp_path: pathlib.Path):
    """A second dev on one directory, a taken port, a broker id in use."""
    with Processes(tmp_path) as first:
        first.start("dev")
        try:
            assert "is in use by process" in refusal("-d", str(tmp_path / "data"), "dev")
            taken = str(first.port)
            for where, broker_id in (("e", 0), ("data", 1)):
                arguments = ["-d", str(tmp_path / where), "-s", f"broker.id={broker_id}", "broker", "--port", taken]
                assert f"cannot listen on 127.0.0.1:{taken}: Address already in use" in refusal(*arguments)
            assert "broker id 0 is in use at 127.0.0.1" in refusal("-d", str(tmp_path / "data"), "broker", "--port", str(free_port()))
            done = frazil("-d", str(tmp_path / "f"), "-s", f"broker.port={taken}", "dev", timeout_s=60)
            assert done.returncode == 1
            assert "Traceback" not in done.stderr
            assert done.stderr.splitlines()[-1] == "frazil: broker did not start; its message is above"
            assert f"cannot listen on 127.0.0.1:{taken}" in done.stderr
        finally:
            assert first.stop("dev") == 0


# ── topic names ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    with Processes(tmp_path_factory.mktemp("names")) as processes:
        processes.start("broker")
        yield processes
        assert processes.alive("broker")
        assert "Traceback" not in processes.log("broker")


def topics(served: Processes) -> set[str]:
    async def ask() -> set[str]:
        connection = BrokerConnection("127.0.0.1", served.port)
        answer = await connection.ask(ApiKey.METADATA, 9, MetadataRequest(topics=None), MetadataResponse)
        await connection.close()
        return {topic.name or "" for topic in answer.topics}

    return asyncio.run(ask())


def inside(served: Processes) -> set[pathlib.Path]:
    return set(served.directory.parent.glob("*"))


def test_topic_names_over_the_wire(served: Processes):
    async def ask() -> None:
        connection = BrokerConnection("127.0.0.1", served.port)
        for version in (2, 5, 7):
            request = CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in BAD_NAMES])
            made = await connection.ask(ApiKey.CREATE_TOPICS, version, request, CreateTopicsResponse)
            assert [(t.name, t.error_code) for t in made.topics] == [(name, ErrorCode.INVALID_TOPIC_EXCEPTION) for name in BAD_NAMES]
        for version in (1, 4, 9, 12):
            wanted = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in BAD_NAMES], allow_auto_topic_creation=True)
            seen = await connection.ask(ApiKey.METADATA, version, wanted, MetadataResponse)
            assert [t.error_code for t in seen.topics] == [ErrorCode.INVALID_TOPIC_EXCEPTION] * len(BAD_NAMES)
        await connection.close()

    around = inside(served)
    asyncio.run(ask())
    assert topics(served) == set()
    assert inside(served) == around


def test_topic_names_in_produce(served: Processes):
    async def send(name: str) -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(produce_frame(batches.good([b"x"]), name))
        answer = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
        writer.close()
        at = 4 + 4 + 2 + len(name.encode()) + 4 + 4
        return int.from_bytes(answer[at : at + 2], "big")

    around = inside(served)
    for name in BAD_NAMES:
        code = asyncio.run(send(name))
        assert code in (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (name, code)
    assert topics(served) == set()
    assert inside(served) == around


@pytest.mark.parametrize("name", ["../x", "..", "", "a" * 250, "a b", "a/b", "ä"])
def test_topic_names_on_the_command_line(served: Processes, name: str):
    assert "INVALID_TOPIC_EXCEPTION" in refusal("-b", served.bootstrap, "topic", "create", "--", name)
    done = subprocess.run(
        [sys.executable, "-m", "frazil", "-b", served.bootstrap, "produce", "--", name],
        input="x\n", capture_output=True, text=True, env=clean_environment(), timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    assert "INVALID_TOPIC_EXCEPTION" in done.stderr
    assert "Traceback" not in done.stderr
    for command in (["topic", "describe"], ["topic", "delete", "--yes"], ["consume"]):
        refusal("-b", served.bootstrap, *command, "--", name)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["topic", "create", "ok", "-p", "99999999"], "INVALID_PARTITIONS"),
        (["topic", "create", "ok", "--set", "retention.msx=3"], "did you mean retention.ms?"),
        (["topic", "create", "ok", "--set", "retention.ms=soon"], "is not a number"),
        (["topic", "create", "ok", "--set", "retention.ms"], "want NAME=VALUE"),
        (["topic", "describe", "nosuch"], "there is no topic 'nosuch'"),
        (["group", "describe", "nosuch"], "there is no group 'nosuch'"),
        (["group", "delete", "nosuch"], "GROUP_ID_NOT_FOUND"),
    ],
)
def test_wrong_values_on_the_command_line(served: Processes, arguments: list[str], expected: str):
    assert expected in refusal("-b", served.bootstrap, *arguments)
