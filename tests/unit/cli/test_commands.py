"""Commands against the admin ports in memory."""

from __future__ import annotations

import json
import pathlib

import pytest
from tests.unit.cli.fakes import Rig, connect, table_detail, table_row, topic

import frazil.assembly.verbs
from frazil.admin.bench import BenchPlan, BenchReport, Phase
from frazil.admin.port import GroupDetail, GroupOffsetRow, IncomingRecord, ResetWish, SqlAnswer
from frazil.cli import main
from frazil.cli.times import time_ms
from frazil.kit.names import TimestampMs


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    rig = Rig()
    connect(rig, monkeypatch)
    return rig


def test_global_options_may_stand_before_or_after_the_command(rig: Rig) -> None:
    rig.tables.rows = [table_row("lake.t", "t")]
    before = rig.run("-o", "json", "-d", "here", "table", "list")
    after = rig.run("table", "list", "-o", "json", "--data-dir", "here")
    between = rig.run("table", "-o", "json", "list", "-d", "here")
    assert before.stdout == after.stdout == between.stdout != ""
    assert rig.directories == ["here", "here", "here"]


def test_an_option_after_the_command_is_checked_like_one_before(rig: Rig) -> None:
    assert rig.run("topic", "list", "-o", "xml").exit_code == 2
    assert "want NAME=VALUE" in rig.run("topic", "list", "-s", "broker.port").stderr
    rig.run("topic", "list", "-s", "broker.port=7")
    assert rig.addresses == [("127.0.0.1", 7)]


def test_set_of_a_topic_is_a_topic_setting_and_not_one_of_the_process(rig: Rig) -> None:
    assert rig.run("topic", "create", "t", "--set", "retention.ms=5").exit_code == 0
    assert rig.kafka.topics["t"].configs == {"retention.ms": "5"}


@pytest.mark.parametrize("address", ["nowhere", "h:", ":1", "h:x", "h:0", "h:65536", "h:²"])
def test_an_address_that_cannot_be_is_refused_before_anybody_is_asked(rig: Rig, address: str) -> None:
    done = rig.run("-b", address, "topic", "list")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "want HOST:PORT" in done.stderr
    assert rig.addresses == []


def test_an_ipv6_address_loses_its_brackets(rig: Rig) -> None:
    rig.run("-b", "[::1]:9092", "topic", "list")
    assert rig.addresses == [("::1", 9092)]


def test_produce_sends_lines_and_reports_on_stderr(rig: Rig) -> None:
    done = rig.run("produce", "t", "-k", ":", stdin="a:1\nno key\nb:\n")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == "produced 3 records to t\n"
    assert [(r.key, r.value) for r in rig.kafka.produced] == [(b"a", b"1"), (None, b"no key"), (b"b", b"")]


def test_consume_prints_values_or_whole_records(rig: Rig) -> None:
    rig.kafka.records = [
        IncomingRecord(topic="t", partition=1, offset=7, timestamp_ms=5, key=b"k", value=b"\xff", headers=(("h", None),)),
        IncomingRecord(topic="t", partition=1, offset=8, timestamp_ms=5, key=None, value=None, headers=()),
    ]
    assert rig.run("consume", "t").stdout_bytes == b"\xff\n\n"
    first, second = (json.loads(line) for line in rig.run("consume", "t", "-o", "json", "-g", "g").stdout.splitlines())
    assert first == {
        "topic": "t", "partition": 1, "offset": 7, "timestamp_ms": 5, "key": "k", "value": "base64:/w==", "headers": [["h", None]],
    }  # fmt: skip
    assert second["value"] is None
    assert [plan.group for plan in rig.kafka.plans] == ["", "g"]


def test_alter_resets_with_an_empty_value_and_wants_something_to_do(rig: Rig) -> None:
    assert rig.run("topic", "alter", "t").exit_code == 1
    assert rig.run("topic", "alter", "t", "--set", "retention.ms=", "-p", "5").exit_code == 0
    assert rig.kafka.changes == [("t", {"retention.ms": None}), ("t", 5)]


def test_delete_asks_first(rig: Rig) -> None:
    rig.kafka.topics["t"] = topic("t", [(0, 1)])
    assert rig.run("topic", "delete", "t", stdin="n\n").exit_code == 1
    assert "t" in rig.kafka.topics
    assert rig.run("topic", "delete", "t", "--yes").exit_code == 0
    assert rig.kafka.topics == {}


def test_describe_is_one_object_with_objects_in_it(rig: Rig) -> None:
    rig.kafka.topics["t"] = topic("t", [(2, 9)], {"retention.ms": "5"})
    rig.kafka.groups["g"] = GroupDetail(
        group="g",
        state="Empty",
        protocol="",
        members=(),
        offsets=(GroupOffsetRow(topic="t", partition=0, committed_offset=4, end_offset=9),),
    )
    rig.tables.details["lake.t"] = table_detail("lake.t", [("id-of-t", 0, 9)])
    described = json.loads(rig.run("topic", "describe", "t", "-o", "json").stdout)
    assert described["configs"] == {"retention.ms": "5"}
    assert described["partitions"] == [{"partition": 0, "start": 2, "end": 9, "records": 7, "leader": 0}]
    offsets = json.loads(rig.run("group", "describe", "g", "-o", "json").stdout)["offsets"]
    assert offsets == [{"topic": "t", "partition": 0, "committed": 4, "end": 9, "lag": 5}]
    table = json.loads(rig.run("table", "describe", "lake.t", "-o", "json").stdout)
    assert table["columns"] == [{"column": "id", "type": "long"}]
    assert table["progress"] == [{"topic_id": "id-of-t", "partition": 0, "next_offset": 9}]


def test_status_counts_dead_letters_and_says_how_to_see_them(rig: Rig) -> None:
    rig.tables.rows = [table_row("lake.bad", "bad", dead_letters=5), table_row("lake.good", "good")]
    done = rig.run("land", "status", "-o", "json")
    assert [json.loads(line)["dead_letters"] for line in done.stdout.splitlines()] == [5, 0]
    assert "frazil deadletter show lake.bad" in done.stderr
    assert "lake.good" not in done.stderr
    assert done.exit_code == 0


def test_status_of_a_table_that_is_not_well_is_exit_code_2(rig: Rig) -> None:
    rig.tables.rows = [table_row("lake.t", "t", state="stalled")]
    assert rig.run("land", "status").exit_code == 2


def test_an_empty_status_is_explained(rig: Rig) -> None:
    assert "no table is landed yet" in rig.run("land", "status").stderr


def test_wait_ends_when_the_table_has_what_the_topic_holds(rig: Rig) -> None:
    rig.kafka.topics["t"] = topic("t", [(0, 2)])
    rig.tables.rows = [table_row("lake.t", "t")]
    rig.tables.details["lake.t"] = table_detail("lake.t", [("id-of-t", 0, 1)])
    done = rig.run("land", "wait", "lake.t", "--timeout", "20")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "lake.t has all 2 records\n")


def test_wait_gives_up_with_exit_code_1(rig: Rig) -> None:
    done = rig.run("land", "wait", "lake.t", "--timeout", "0")
    assert done.exit_code == 1
    assert "landing has not taken it up" in done.stderr


def test_tables_are_created_and_altered_with_options(rig: Rig) -> None:
    made = rig.run("table", "create", "a.b", "-t", "x", "-t", "y", "--column", "id long", "--option", "recreated=fill")
    assert made.exit_code == 0
    wish = rig.tables.wishes[0]
    assert (wish.table, wish.topics, wish.columns, wish.options) == ("a.b", ("x", "y"), ("id long",), {"recreated": "fill"})
    assert rig.run("table", "alter", "a.b", "--option", "paused=").exit_code == 0
    assert rig.tables.changes == [("a.b", {"paused": None}, None)]
    assert "nothing to change" in rig.run("table", "alter", "a.b").stderr


def test_sql_takes_the_question_from_stdin_and_keeps_column_names(rig: Rig) -> None:
    rig.tables.answer = SqlAnswer(columns=("n", "Sum(n)"), rows=((1, 2),))
    assert rig.run("sql", stdin="select 1").stdout == "n  Sum(n)\n1       2\n"
    assert rig.tables.questions == ["select 1"]
    assert "no question" in rig.run("sql", stdin=" \n").stderr


def test_explain_writes_values_as_yaml_does(rig: Rig) -> None:
    lines = rig.run("config", "explain", "-o", "json", "-s", "broker.auto_create_topics=no").stdout.splitlines()
    leaf = next(item for item in map(json.loads, lines) if item["setting"] == "broker.auto_create_topics")
    assert (leaf["value"], leaf["source"], leaf["variable"]) == ("false", "flag", "FRAZIL_BROKER_AUTO_CREATE_TOPICS")


def test_every_command_has_a_help_text(rig: Rig) -> None:
    for name, command in main.commands.items():
        done = rig.run(name, "-h")
        assert done.exit_code == 0
        assert command.help
        assert " ".join(command.help.splitlines()[0].split()) in " ".join(done.stdout.split())


def test_table_list_shows_where_refused_records_are(rig: Rig) -> None:
    rig.tables.rows = [table_row("lake.a", "a", dead_letters=2), table_row("lake.b", "b", dead_letters=None), table_row("lake.c", "c")]
    found = [json.loads(line) for line in rig.run("-o", "json", "table", "list").stdout.splitlines()]
    assert [(row["table"], row["state"]) for row in found] == [
        ("lake.a", "idle"), ("lake.a_dead", "dead letters"), ("lake.b", "idle"), ("lake.c", "idle"),
    ]  # fmt: skip


def test_bench_hands_over_the_plan_and_shows_phases(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[BenchPlan] = []

    async def load(host: str, port: int, plan: BenchPlan, *, notice: object) -> BenchReport:
        plans.append(plan)
        phases = (Phase(name="produce", records=10, bytes=10_000, seconds=2.0, p50_ms=1.234, p99_ms=2.0, p999_ms=3.0, max_ms=4.0),)
        return BenchReport(phases=phases, errors=0, first_error="", missing=len(plans) - 1)

    monkeypatch.setattr(frazil.assembly.verbs, "bench", load)
    done = rig.run("bench", "-n", "10", "--size", "5", "-p", "3", "-z", "zstd", "--acks", "1", "-o", "json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["p50_ms"] == 1.23 and json.loads(done.stdout)["records_per_s"] == 5
    plan = plans[0]
    assert (plan.records, plan.seconds, plan.warmup_s, plan.record_bytes, plan.partitions) == (10, 0.0, 0.0, 5, 3)
    assert (plan.codec, plan.acks) == ("zstd", 1)
    assert plan.topics[0].startswith("__"), "a topic of a load is not landed"
    lossy = rig.run("bench", "-t", "mine")
    assert (lossy.exit_code, plans[1].topics, plans[1].seconds) == (1, ("mine",), 10.0)
    assert "1 record(s) of the topic were not read" in lossy.stderr


@pytest.mark.parametrize(
    ("text", "why"),
    [("[1]", "want a mapping"), ("a: [", "w.yaml: "), ("typo: 1", "unknown key 'typo'"), ("subscriptionsPerTopic: 2", "not offered")],
)
def test_a_workload_that_cannot_be_run_is_refused(rig: Rig, tmp_path: pathlib.Path, text: str, why: str) -> None:
    (tmp_path / "w.yaml").write_text(text)
    done = rig.run("bench", "-w", str(tmp_path / "w.yaml"))
    assert done.exit_code == 1 and why in done.stderr


def test_group_reset_shows_first_and_does_it_when_told(rig: Rig) -> None:
    shown = rig.run("group", "reset", "g", "--to", "latest", "-t", "t", "-o", "json")
    assert json.loads(shown.stdout) == {"topic": "t", "partition": 0, "committed": None, "new": 5}
    assert "nothing was changed" in shown.stderr and rig.kafka.changes == []
    done = rig.run("group", "reset", "g", "--to-time", "2026-01-31T12:00:00.250+01:00", "--execute")
    assert "group g was reset" in done.stderr
    assert [row.new_offset for row in rig.kafka.changes[0][1]] == [5]  # type: ignore[attr-defined]
    assert rig.kafka.resets == [
        ("g", ResetWish(topics=("t",), to="latest", to_ms=None)),
        ("g", ResetWish(topics=(), to="", to_ms=1_769_857_200_250)),
    ]
    for wrong in ((), ("--to", "latest", "--to-time", "1h"), ("--to-time", "soon")):
        assert rig.run("group", "reset", "g", *wrong).exit_code == 1
    assert len(rig.kafka.resets) == 2


def test_times_are_points_or_how_long_ago() -> None:
    class Fixed:
        def now_ms(self) -> TimestampMs:
            return TimestampMs(10_000_000_000)

        def monotonic_ms(self) -> float:
            return 0.0

    assert time_ms("1970-01-01T00:00:01Z", "--x") == time_ms("1970-01-01 00:00:01", "--x") == 1_000
    assert time_ms("1969-12-31", "--x") == -86_400_000
    assert [10_000_000_000 - time_ms(text, "--x", Fixed()) for text in ("250ms", "90s", "15m", "2h", "7d")] == [
        250, 90_000, 900_000, 7_200_000, 604_800_000,
    ]  # fmt: skip


def test_consume_from_a_time_and_produce_with_headers(rig: Rig) -> None:
    rig.run("consume", "t", "--from-time", "1970-01-01T00:00:02Z")
    assert rig.kafka.plans[0].start_ms == 2_000
    done = rig.run("produce", "t", "-H", "a=1", "--header", "b=x=y", "-H", "c=", stdin="v\n")
    assert done.exit_code == 0
    assert rig.kafka.produced[0].headers == (("a", b"1"), ("b", b"x=y"), ("c", b""))
    assert "want NAME=VALUE" in rig.run("produce", "t", "-H", "a", stdin="v\n").stderr
