"""Which tables there should be."""

from __future__ import annotations

from frazil.kit.names import TopicId, TopicName
from frazil.landing.discover import AutoLanding, auto_table, discover
from frazil.metadata.landings import LandingSpec
from frazil.metadata.topics import TopicRecord


def topic(name: str, created_ms: int = 0) -> TopicRecord:
    return TopicRecord(name=TopicName(name), topic_id=TopicId(name.encode().ljust(16)), partitions=1, incarnation=1, created_ms=created_ms)


def test_f44_names_that_kafka_tells_apart_stay_apart() -> None:
    names = ("orders.v1", "orders-v1", "orders_v1", "Orders")
    assert len({auto_table("lake", name) for name in names}) == 4
    assert auto_table("lake", "orders.v1") == "lake.orders__v1"


def test_topics_of_a_spec_and_internal_topics_get_no_table_of_their_own() -> None:
    spec = LandingSpec(table="x.a", topics=("a",))
    found = discover([spec], [topic("a"), topic("b"), topic("__consumer_offsets")], AutoLanding(namespace="n"), interval_ms=5_000)
    assert [one.table for one in found.specs] == ["n.b", "x.a"]
    assert found.specs[0].commit_interval_ms == 5_000
    assert discover([spec], [topic("b")], None, interval_ms=5_000).specs == (spec,)


def test_of_two_topics_for_one_table_the_older_keeps_it_whatever_the_order() -> None:
    topics = [topic("a__b", 2), topic("a.b", 1)]
    for order in (topics, topics[::-1]):
        found = discover([], order, AutoLanding(), interval_ms=1)
        assert [one.topics for one in found.specs] == [("a.b",)]
        assert [(one.table, one.topics) for one in found.refusals] == [("default.a__b (a__b)", ("a__b",))]


def test_a_topic_named_like_a_dead_letter_table_is_refused() -> None:
    found = discover([], [topic("a"), topic("a_dead")], AutoLanding(), interval_ms=1)
    assert [one.table for one in found.specs] == ["default.a"]
    assert "dead-letter table of default.a" in found.refusals[0].why
