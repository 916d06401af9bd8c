"""What people and programs get on stdout."""

from __future__ import annotations

import json

import pytest
import yaml

from frazil.cli.output import Part, show, show_detail


def shown(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_columns_are_aligned_numbers_to_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    show(("name", "lag"), [("a", 5), ("long-name", 1234)], "table")
    assert shown(capsys) == ["NAME        LAG", "a             5", "long-name  1234"]


def test_a_wide_or_combining_character_does_not_shift_the_next_column(capsys: pytest.CaptureFixture[str]) -> None:
    show(("v", "w"), [("日本", "x"), ("e\u0301", "y"), ("abcd", "z")], "table")
    assert shown(capsys) == ["V     W", "日本  x", "e\u0301     y", "abcd  z"]


def test_a_value_stays_on_its_line_and_sends_nothing_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    show(("v",), [("a\nb\x1b[31m",)], "table")
    assert shown(capsys) == ["V", "a\\nb\\x1b[31m"]


def test_names_of_somebody_else_are_not_touched(capsys: pytest.CaptureFixture[str]) -> None:
    show(("Sum of n",), [(1,)], "table", verbatim=True)
    show(("Sum of n",), [(1,)], "json", verbatim=True)
    assert shown(capsys) == ["Sum of n", "       1", '{"Sum of n": 1}']


def test_json_keys_need_no_quoting_in_jq(capsys: pytest.CaptureFixture[str]) -> None:
    show(("freshness ms",), [(1,)], "json")
    assert shown(capsys) == ['{"freshness_ms": 1}']


def test_json_loses_no_column_that_has_the_name_of_another(capsys: pytest.CaptureFixture[str]) -> None:
    show(("a", "a", "a"), [(1, 2, 3)], "json", verbatim=True)
    assert json.loads(shown(capsys)[0]) == {"a": 1, "a_1": 2, "a_2": 3}


def test_json_is_json_for_numbers_it_cannot_say(capsys: pytest.CaptureFixture[str]) -> None:
    show(("x", "y"), [(float("nan"), float("-inf"))], "json")

    def refuse(constant: str) -> object:
        raise AssertionError(constant)

    assert json.loads(shown(capsys)[0], parse_constant=refuse) == {"x": "nan", "y": "-inf"}


def test_bytes_that_are_no_text_are_marked(capsys: pytest.CaptureFixture[str]) -> None:
    show(("v",), [(b"text",), (b"\xff\xfe",), (None,)], "table")
    assert shown(capsys) == ["V", "text", "base64://4=", "-"]


def test_lists_in_a_thing_are_objects_for_programs_and_blocks_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    part = Part("offsets", ("topic", "next offset"), [("t", 3)])
    show_detail([("group", "g")], [part], "json")
    show_detail([("group", "g")], [part], "table")
    first, *rest = shown(capsys)
    assert json.loads(first) == {"group": "g", "offsets": [{"topic": "t", "next_offset": 3}]}
    assert rest == ["group  g", "", "TOPIC  NEXT OFFSET", "t                3"]


def test_yaml_says_what_json_says(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [("yes", 1, None, b"\xff", float("nan"), {"k": ["\ud7ff", "\U0010ffff"]}), ("a: b\n- c", 2, True, b"t", -0.5, {})]
    columns = ("some name", "n", "b", "raw", "f", "d")
    show(columns, rows, "yaml")
    as_yaml = yaml.safe_load(capsys.readouterr().out)
    show(columns, rows, "json")
    assert as_yaml == [json.loads(line) for line in shown(capsys)]
    show_detail([("topic", "t")], [Part("partitions", ("p", "end offset"), [(0, 5)])], "yaml")
    assert yaml.safe_load(capsys.readouterr().out) == {"topic": "t", "partitions": [{"p": 0, "end_offset": 5}]}
    show(columns, [], "yaml")
    assert yaml.safe_load(capsys.readouterr().out) == []
