"""What the Tab key brings."""

from __future__ import annotations

import subprocess

import pytest
from click.shell_completion import BashComplete
from tests.unit.cli.fakes import Rig, connect, table_row, topic

import frazil.assembly.verbs
from frazil.admin.port import GroupDetail
from frazil.cli import main
from frazil.kit.errors import RetryLater


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    rig = Rig()
    connect(rig, monkeypatch)
    rig.kafka.topics = {name: topic(name, [(0, 0)]) for name in ("orders", "orders.v2", "visits")}
    rig.kafka.groups = {"g1": GroupDetail(group="g1", state="Empty", protocol="", members=(), offsets=())}
    rig.tables.rows = [table_row("lake.orders", "orders"), table_row("lake.visits", "visits")]
    return rig


def words(*typed: str) -> list[str]:
    *before, last = typed
    return [item.value for item in BashComplete(main, {}, "frazil", "_FRAZIL_COMPLETE").get_completions(before, last)]


def test_commands_options_and_choices(rig: Rig) -> None:
    assert {"topic", "table", "completion"} <= set(words("t") + words("c"))
    assert "--follow" in words("consume", "--f")
    assert words("-o", "") == ["table", "json", "yaml"]


def test_names_of_topics_groups_and_tables(rig: Rig) -> None:
    assert words("consume", "ord") == words("topic", "describe", "ord") == words("produce", "ord") == ["orders", "orders.v2"]
    assert words("group", "describe", "") == ["g1"]
    assert words("table", "describe", "lake.v") == words("land", "wait", "lake.v") == ["lake.visits"]
    assert words("table", "create", "-t", "vi") == ["visits"]
    assert words("topic", "create", "ord") == [], "a new topic needs a new name"


def test_options_typed_before_say_whom_to_ask(rig: Rig) -> None:
    words("-b", "far:9", "topic", "describe", "")
    assert rig.addresses == [("far", 9)]
    words("-d", "there", "table", "describe", "")
    assert rig.directories == ["there"]


def test_nobody_there_is_no_names_and_no_noise(rig: Rig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(*_: object, **__: object) -> object:
        raise RetryLater("no broker answers")

    monkeypatch.setattr(frazil.assembly.verbs, "open_kafka", refuse)
    assert words("topic", "describe", "") == []
    assert words("-b", "nonsense", "topic", "describe", "") == []
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell(rig: Rig, shell: str) -> None:
    done = rig.run("completion", shell)
    assert done.exit_code == 0
    assert f"_FRAZIL_COMPLETE={shell}_complete" in done.stdout


def test_bash_takes_its_script(rig: Rig) -> None:
    script = rig.run("completion", "bash").stdout
    done = subprocess.run(["bash", "-c", script + "\ncomplete -p frazil"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "_frazil_completion" in done.stdout
