"""`apply`, `diff` and `land -f`: output, exit codes, where messages go. Landings are kept by a real store, topics by a fake broker."""

from __future__ import annotations

import json
import pathlib

import pytest
from tests.unit.cli.fakes import Rig, connect

TOPIC = "apiVersion: frazil.dev/v1\nkind: Topic\nmetadata: {name: orders}\nspec: {partitions: 3, configs: {retention.ms: 1000}}\n"
TABLE = "apiVersion: frazil.dev/v1\nkind: Table\nmetadata: {name: shop.orders}\nspec: {topics: [orders]}\n"
CATALOG = "apiVersion: frazil.dev/v1\nkind: Catalog\nmetadata: {name: lake}\nspec: {type: rest, endpoint: https://c}\n"
PROCESSOR = (pathlib.Path(__file__).resolve().parents[2] / "corpus" / "manifests" / "polaris.yaml").read_text()


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> Rig:
    rig = Rig()
    connect(rig, monkeypatch)
    monkeypatch.chdir(tmp_path)
    pathlib.Path("data").mkdir()
    monkeypatch.setenv("FRAZIL_DATA_DIR", "data")
    monkeypatch.delenv("FRAZIL_SECRETS_DIR", raising=False)
    pathlib.Path("topic.yaml").write_text(TOPIC)
    pathlib.Path("table.yaml").write_text(TABLE)
    return rig


def test_apply_says_what_it_did_on_stdout_and_nothing_else(rig: Rig) -> None:
    done = rig.run("apply", "-f", "topic.yaml", "-f", "table.yaml")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == "OBJECT             RESULT\ntopic orders       created\ntable shop.orders  created\n"
    again = rig.run("apply", "-f", "topic.yaml", "-f", "table.yaml", "-o", "json")
    assert [json.loads(line) for line in again.stdout.splitlines()] == [
        {"object": "topic orders", "result": "unchanged"},
        {"object": "table shop.orders", "result": "unchanged"},
    ]
    assert rig.kafka.topics["orders"].configs == {"retention.ms": "1000"}


def test_a_dry_run_does_nothing(rig: Rig) -> None:
    done = rig.run("apply", "-f", "topic.yaml", "-f", "table.yaml", "--dry-run")
    assert done.exit_code == 0 and "nothing was done" in done.stderr
    assert not rig.kafka.topics
    assert "created" in rig.run("apply", "-f", "table.yaml").stdout


def test_no_broker_is_asked_when_no_topic_is_in_question(rig: Rig) -> None:
    assert rig.run("apply", "-f", "table.yaml").exit_code == 0
    assert rig.addresses == []


def test_diff_has_the_exit_codes_of_diff(rig: Rig) -> None:
    done = rig.run("diff", "-f", "table.yaml")
    assert done.exit_code == 1 and done.stdout.startswith("--- table shop.orders (cluster)\n+++ table shop.orders (manifest)\n@@ ")
    rig.run("apply", "-f", "table.yaml")
    done = rig.run("diff", "-f", "table.yaml")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")
    pathlib.Path("table.yaml").write_text(TABLE.replace("orders]", "orders], value: raw"))
    done = rig.run("diff", "-f", "table.yaml")
    assert done.exit_code == 1 and "-value: json\n+value: raw\n" in done.stdout
    done = rig.run("diff", "-f", "nowhere.yaml")
    assert (done.exit_code, done.stdout) == (2, "") and "nowhere.yaml: No such file" in done.stderr


def test_manifests_come_from_stdin_directories_and_several_files(rig: Rig) -> None:
    assert "created" in rig.run("apply", "-f", "-", stdin=TABLE).stdout
    directory = pathlib.Path("all")
    directory.mkdir()
    (directory / "b.yml").write_text(TABLE)
    (directory / "a.json").write_text(json.dumps({"apiVersion": "frazil.dev/v1", "kind": "Topic", "metadata": {"name": "x"}, "spec": {}}))
    (directory / "notes.txt").write_text("not: [a manifest")
    (directory / "deeper").mkdir()
    (directory / "deeper" / "c.yaml").write_text("not: [a manifest")
    done = rig.run("apply", "-f", "all")
    assert done.stdout.splitlines()[1:] == ["topic x            created", "table shop.orders  unchanged"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no manifest in -"),
        ("# nothing\n---\n", "no manifest in -"),
        (TABLE.replace("topics", "topcis"), "frazil: stdin:4:8: spec: unknown key 'topcis'; did you mean 'topics'?"),
        (TABLE + "---\n" + TABLE, "Table/shop.orders is described at stdin:1:1 already"),
        (TABLE.replace("[orders]", "[orders], catalog: lake"), "no catalog 'lake' in the cluster"),
        (PROCESSOR, "reads bucket kafscale-data, and this cluster's objects are in file://"),
        ("a" * 1_100_000, "bytes are too many for a manifest"),
    ],
)
def test_a_manifest_that_cannot_be_is_one_line_on_stderr(rig: Rig, text: str, why: str) -> None:
    done = rig.run("apply", "-f", "-", stdin=text)
    assert (done.exit_code, done.stdout) == (1, "")
    assert why in done.stderr and done.stderr.count("\n") == 1


def test_an_empty_directory_is_said(rig: Rig) -> None:
    pathlib.Path("none").mkdir()
    assert "directory none holds no .yaml, .yml, .json file" in rig.run("apply", "-f", "none").stderr


def test_what_was_made_before_one_was_refused_is_said(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    from frazil.kit.errors import Refused

    async def refuse(name: str, **_: object) -> None:
        raise Refused("no more topics")

    text = TOPIC + "---\n" + TOPIC.replace("orders", "second")
    inner = rig.kafka.create_topic
    monkeypatch.setattr(rig.kafka, "create_topic", lambda name, **options: refuse(name) if name == "second" else inner(name, **options))
    done = rig.run("apply", "-f", "-", stdin=text)
    assert done.exit_code == 1 and "no more topics" in done.stderr
    assert done.stdout.splitlines()[1:] == ["topic orders  created"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (TOPIC, "land -f makes no topics; `frazil apply` Topic/orders"),
        (PROCESSOR + "\n---\n" + PROCESSOR.replace("events-polaris", "other"), "runs one IcebergProcessor and nothing beside it, but got"),
        (PROCESSOR + "\n---\n" + TABLE, "IcebergProcessor/events-polaris, Table/shop.orders; start one process for each"),
        (TABLE.replace("[orders]", "[orders], catalog: lake"), "table shop.orders: no catalog 'lake' in the cluster or in these manifests"),
        (
            TABLE + "---\n" + TABLE.replace("shop.orders", "a.b").replace("spec: {", "spec: {table: shop.orders, "),
            "writes table shop.orders",
        ),
        (CATALOG, "Catalog/lake lands nothing"),
    ],
)
def test_land_f_says_what_it_cannot_run(rig: Rig, text: str, why: str) -> None:
    done = rig.run("land", "-f", "-", stdin=text)
    assert done.exit_code == 1 and why in done.stderr


def test_land_f_does_not_write_a_table_of_another_manifest(rig: Rig) -> None:
    rig.run("apply", "-f", "table.yaml")
    text = TABLE.replace("shop.orders", "a.b").replace("spec: {", "spec: {table: shop.orders, ")
    assert "table shop.orders is written by Table/shop.orders" in rig.run("land", "-f", "-", stdin=text).stderr


def test_land_f_goes_without_a_subcommand(rig: Rig) -> None:
    done = rig.run("land", "-f", "table.yaml", "status")
    assert done.exit_code == 1 and "goes without a subcommand" in done.stderr
