"""Waiting until a table has what its topics hold."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.cli.fakes import FakeKafka, FakeTables, table_detail, table_row, topic

from frazil.admin.arrival import await_arrival
from frazil.kit.errors import Missing, RetryLater


def test_every_partition_of_every_topic_counts() -> None:
    kafka = FakeKafka(topics={"a": topic("a", [(0, 3), (5, 5)]), "b": topic("b", [(2, 4)])})
    tables = FakeTables(rows=[table_row("x.y", "a, b")], details={"x.y": table_detail("x.y", [("id-of-a", 0, 3), ("id-of-b", 0, 4)])})
    assert asyncio.run(await_arrival(kafka, tables, "x.y", timeout_s=0)) == 5


@pytest.mark.parametrize(
    ("progress", "words"),
    [
        ([("id-of-a", 0, 3), ("id-of-b", 0, 3)], r"b/0 is in the table up to offset 3 of 4"),
        ([("id-of-a", 0, 3)], r"b/0 is in the table up to offset 0 of 4"),
        ([("id-of-another", 0, 9), ("id-of-b", 0, 4)], r"a/0 is in the table up to offset 0 of 3"),
    ],
)
def test_what_is_behind_is_named(progress: list[tuple[str, int, int]], words: str) -> None:
    kafka = FakeKafka(topics={"a": topic("a", [(0, 3)]), "b": topic("b", [(2, 4)])})
    tables = FakeTables(rows=[table_row("x.y", "a, b")], details={"x.y": table_detail("x.y", progress)})
    with pytest.raises(RetryLater, match=words):
        asyncio.run(await_arrival(kafka, tables, "x.y", timeout_s=0))


def test_a_table_that_is_not_there_yet_is_waited_for_unless_nothing_was_produced() -> None:
    rows = [table_row("x.y", "a")]
    with pytest.raises(RetryLater, match="up to offset 0 of 1"):
        asyncio.run(await_arrival(FakeKafka(topics={"a": topic("a", [(0, 1)])}), FakeTables(rows=rows), "x.y", timeout_s=0))
    assert asyncio.run(await_arrival(FakeKafka(topics={"a": topic("a", [(0, 0)])}), FakeTables(rows=rows), "x.y", timeout_s=0)) == 0


def test_a_topic_that_does_not_exist_is_an_error_at_once() -> None:
    with pytest.raises(Missing, match="no topic 'a'"):
        asyncio.run(await_arrival(FakeKafka(), FakeTables(rows=[table_row("x.y", "a")]), "x.y", timeout_s=60))
