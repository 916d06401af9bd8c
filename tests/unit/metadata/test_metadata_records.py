"""Typed records: what is written, what is refused, and that every change is a compare-and-swap that settles lost answers."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from tests.simulation.loop import run_virtual

from frazil.kit.clock import LoopClock
from frazil.kit.errors import Bug, Conflict, Corrupt, FrazilError, Missing, OutcomeUnknown, Refused, RetryLater
from frazil.kit.names import TopicId, TopicName
from frazil.metadata import prefix_end, read_one
from frazil.metadata.change import settle
from frazil.metadata.cluster import (
    BrokerRecord,
    InstanceRecord,
    check_marker,
    deregister_broker,
    list_brokers,
    mark_instance,
    marker_bytes,
    marker_key,
    next_producer_ids,
    open_instance,
    register_broker,
)
from frazil.metadata.faulty import CommitFault, FaultyMetadata
from frazil.metadata.landings import (
    LandingSpec,
    LandingStatus,
    delete_landing,
    get_landing,
    list_landings,
    list_statuses,
    put_landing,
    put_status,
)
from frazil.metadata.port import Write
from frazil.metadata.stores.memory import MemoryMetadata, MemoryState
from frazil.metadata.topics import DeletedTopic, TopicRecord, Topics, forget_deleted_topic, list_deleted_topics
from frazil.metadata.values import decode, encode

LOST = (CommitFault.LOST_APPLIED, CommitFault.LOST_UNAPPLIED, CommitFault.LOST_LATE, CommitFault.UNAVAILABLE)


class Cluster:
    def __init__(self) -> None:
        self.clock = LoopClock()
        self.state = MemoryState()
        self.store = FaultyMetadata(MemoryMetadata(self.state, self.clock), random.Random(1))
        self.chance = random.Random(2)

    def topics(self) -> Topics:
        return Topics(self.store, self.clock, self.chance)


def run(body: Callable[[Cluster], Awaitable[None]]) -> None:
    async def main() -> None:
        await body(Cluster())

    run_virtual(main())


RECORDS = (
    TopicRecord(name=TopicName("t"), topic_id=TopicId(bytes(range(16))), partitions=3, incarnation=2, created_ms=5, configs={"é": "x"}),
    DeletedTopic(topic_id=TopicId(bytes(range(16))), name=TopicName("t"), incarnation=1, partitions=3, deleted_ms=9),
    InstanceRecord(cluster_id="abc", incarnation=3, shards=8, marked=True),
    BrokerRecord(broker_id=1, host="h", port=9092, rack="r", started_ms=7),
    LandingSpec(table="a.b", topics=("t", "u"), value="raw", columns=("id long",), metadata_columns=False, options={"k": "v"}),
    LandingStatus(table="a.b", state="failed", stage="decode", reason="why", topic="t", partition=4, snapshot_id=2**62),
)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
class TestEveryRecord:
    def test_reads_back_and_writes_equal_bytes(self, record: TopicRecord) -> None:
        again = type(record).decode(record.encode(), where="k")
        assert again == record
        assert again.encode() == record.encode()

    def test_names_its_format_and_refuses_another(self, record: TopicRecord) -> None:
        fields = json.loads(record.encode())
        assert fields["format"] == 1
        for other in (0, 2, 99):
            with pytest.raises(Refused, match=f"k: format {other}"):
                type(record).decode(json.dumps({**fields, "format": other}).encode(), where="k")

    def test_unknown_fields_of_a_known_format_are_ignored(self, record: TopicRecord) -> None:
        fields = json.loads(record.encode())
        assert type(record).decode(json.dumps({**fields, "later": 1}).encode(), where="k") == record

    def test_any_missing_or_ill_typed_field_is_corrupt(self, record: TopicRecord) -> None:
        fields = json.loads(record.encode())
        for name in fields:
            for value in (None, [1], {"a": 1}, 1.5):
                with pytest.raises(Corrupt, match="k:"):
                    type(record).decode(json.dumps({**fields, name: value}).encode(), where="k")
            with pytest.raises(Corrupt):
                type(record).decode(json.dumps({key: v for key, v in fields.items() if key != name}).encode(), where="k")


@pytest.mark.parametrize("value", [b"", b"x", b"[]", b"1", b"{}", b'{"format":"1"}', b"\xff\xfe", b'{"format":1,"n":tru'])
def test_what_is_no_record_is_corrupt(value: bytes) -> None:
    with pytest.raises(Corrupt, match="some/key"):
        decode(value, where="some/key").number("n")


def test_a_reader_may_take_the_format_before_its_own() -> None:
    old = encode({"n": 1}, record_format=1)
    assert decode(old, where="k", formats=(2, 1)).number("n") == 1
    with pytest.raises(Refused, match="reads 2 and 1"):
        decode(encode({"n": 1}, record_format=3), where="k", formats=(2, 1))


def test_true_is_not_a_number() -> None:
    with pytest.raises(Corrupt):
        decode(b'{"format":1,"n":true}', where="k").number("n")


def test_prefix_end() -> None:
    assert prefix_end("log/") == "log0"
    for prefix in ("", "é", "\x7f"):
        with pytest.raises(Bug):
            prefix_end(prefix)


# topics


def test_a_topic_is_created_found_changed_and_deleted() -> None:
    async def body(cluster: Cluster) -> None:
        topics, other = cluster.topics(), cluster.topics()
        made = await topics.create("orders", 3, {"retention.ms": "1000"})
        assert made.incarnation == 1
        assert topics.get("orders") == topics.by_id(made.topic_id) == made
        assert other.get("orders") is None
        await other.refresh()
        assert other.get("orders") == made
        with pytest.raises(Conflict):
            await other.create("orders", 1)
        grown = await other.set_partitions("orders", 5)
        assert (grown.partitions, grown.topic_id) == (5, made.topic_id)
        assert await topics.set_partitions("orders", 5) == grown
        with pytest.raises(Refused):
            await topics.set_partitions("orders", 4)
        changed = await topics.set_configs("orders", {"a": "1", "retention.ms": None})
        assert changed.configs == {"a": "1"}
        assert (await topics.set_configs("orders", {"b": "2"})).configs == {"a": "1", "b": "2"}
        assert (await topics.set_configs("orders", {"c": "3"}, keep_others=False)).configs == {"c": "3"}
        await other.refresh()
        assert other.get("orders") == topics.get("orders")
        await topics.delete("orders")
        assert topics.get("orders") is None
        assert topics.by_id(made.topic_id) is None
        await other.refresh()
        assert other.all() == ()
        for change in (topics.delete("orders"), topics.set_partitions("orders", 9), topics.set_configs("orders", {})):
            with pytest.raises(Missing):
                await change

    run(body)


def test_r05_the_count_of_incarnations_survives_deletion() -> None:
    async def body(cluster: Cluster) -> None:
        topics = cluster.topics()
        ids = set()
        for incarnation in range(1, 5):
            made = await topics.create("orders", 1)
            assert made.incarnation == incarnation
            ids.add(made.topic_id)
            if incarnation < 4:
                await topics.delete("orders")
        assert len(ids) == 4
        gone = await list_deleted_topics(cluster.store)
        assert sorted(deleted.incarnation for deleted in gone) == [1, 2, 3]
        assert {deleted.topic_id for deleted in gone} == ids - {made.topic_id}
        for deleted in gone:
            await forget_deleted_topic(cluster.store, deleted.topic_id)
            await forget_deleted_topic(cluster.store, deleted.topic_id)
        assert await list_deleted_topics(cluster.store) == ()
        await topics.delete("orders")
        assert (await topics.create("orders", 1)).incarnation == 5

    run(body)


def test_a_view_that_slept_through_deletion_and_its_cleaning_still_sees_it() -> None:
    async def body(cluster: Cluster) -> None:
        topics, sleeper = cluster.topics(), cluster.topics()
        made = await topics.create("a", 1)
        await topics.create("b", 1)
        await sleeper.refresh()
        await topics.delete("a")
        await forget_deleted_topic(cluster.store, made.topic_id)
        await topics.create("c", 1)
        await sleeper.refresh()
        assert [record.name for record in sleeper.all()] == ["b", "c"]
        assert sleeper.by_id(made.topic_id) is None
        await topics.delete("b")
        again = await topics.create("b", 2)
        await sleeper.refresh()
        assert sleeper.get("b") == again
        assert [record.topic_id for record in sleeper.all()] == [again.topic_id, sleeper.get("c").topic_id]  # type: ignore[union-attr] # there

    run(body)


def test_a_refresh_without_changes_reads_nothing() -> None:
    async def body(cluster: Cluster) -> None:
        topics = cluster.topics()
        for n in range(20):
            await topics.create(f"t{n}", 1)
        await topics.delete("t3")
        await topics.refresh()
        read = await cluster.store.range("topics/", "topics0", after=topics.revision)
        assert read.entries == ()
        assert len(topics.all()) == 19

    run(body)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "x" * 250, "é", "a\0"])
def test_bad_names_are_refused(name: str) -> None:
    async def body(cluster: Cluster) -> None:
        with pytest.raises(Refused) as caught:
            await cluster.topics().create(name, 1)
        assert not isinstance(caught.value, Conflict)
        assert cluster.state.revision == 0

    run(body)


@pytest.mark.parametrize("partitions", [-1, 0, 10_001])
def test_bad_partition_counts_are_refused(partitions: int) -> None:
    async def body(cluster: Cluster) -> None:
        topics = cluster.topics()
        with pytest.raises(Refused):
            await topics.create("t", partitions)
        await topics.create("t", 10_000)
        with pytest.raises(Refused):
            await topics.set_partitions("t", partitions)

    run(body)


def test_names_that_differ_in_dot_and_underscore_collide() -> None:
    async def body(cluster: Cluster) -> None:
        topics = cluster.topics()
        for name in ("a.b", "a_b", "a-b", "a.b.c"):
            await topics.create(name, 1)
        assert topics.collisions("a.b") == ("a_b",)
        assert topics.collisions("a_b.c") == ("a.b.c",)
        assert topics.collisions("x") == ()

    run(body)


def test_topic_ids_are_uuids_that_tools_can_take() -> None:
    async def body(cluster: Cluster) -> None:
        topics = cluster.topics()
        for n in range(300):
            made = await topics.create(f"t{n}", 1)
            assert len(made.topic_id) == 16
            assert made.topic_id[6] >> 4 == 4
            assert made.topic_id[8] >> 6 == 2
            assert made.topic_id[0] >> 2 != 62  # base64url '-'

    run(body)


@pytest.mark.parametrize("fault", LOST)
def test_r02_lost_answers_of_topic_changes_are_settled(fault: CommitFault) -> None:
    async def body(cluster: Cluster) -> None:
        topics, other = cluster.topics(), cluster.topics()
        cluster.store.force(fault)
        made = await topics.create("t", 1)
        assert made.incarnation == 1
        cluster.store.force(fault)
        await topics.set_partitions("t", 4)
        cluster.store.force(fault)
        await topics.set_configs("t", {"a": "1"})
        await cluster.store.late_commits()
        await other.refresh()
        assert other.get("t") == topics.get("t") == replace(made, partitions=4, configs={"a": "1"})
        cluster.store.force(fault)
        assert (await topics.delete("t")).topic_id == made.topic_id
        await cluster.store.late_commits()
        assert [deleted.topic_id for deleted in await list_deleted_topics(cluster.store)] == [made.topic_id]
        assert (await topics.create("t", 1)).incarnation == 2

    run(body)


def test_r02_a_create_whose_answer_is_lost_and_that_is_deleted_meanwhile_is_not_made_twice() -> None:
    async def body(cluster: Cluster) -> None:
        mine, other = cluster.topics(), Topics(MemoryMetadata(cluster.state, cluster.clock), cluster.clock, random.Random(9))
        cluster.store.force(CommitFault.LOST_APPLIED)
        creating = asyncio.ensure_future(mine.create("t", 1))
        while (await read_one(cluster.store, "topics/t")).version == 0:
            await asyncio.sleep(0)
        await other.delete("t")
        made = await creating
        await mine.refresh()
        assert mine.get("t") is None
        assert [deleted.topic_id for deleted in await list_deleted_topics(cluster.store)] == [made.topic_id]

    run(body)


def test_a_create_that_somebody_else_wins_is_a_conflict_even_after_a_lost_answer() -> None:
    async def body(cluster: Cluster) -> None:
        mine, other = cluster.topics(), Topics(MemoryMetadata(cluster.state, cluster.clock), cluster.clock, random.Random(9))
        cluster.store.force(CommitFault.LOST_UNAPPLIED)
        creating = asyncio.ensure_future(mine.create("t", 1))
        await asyncio.sleep(0.001)
        won = await other.create("t", 2)
        with pytest.raises(Conflict):
            await creating
        await mine.refresh()
        assert mine.get("t") == won

    run(body)


def test_f82_two_clients_configure_one_topic_and_both_stay() -> None:
    async def body(cluster: Cluster) -> None:
        one, two = cluster.topics(), cluster.topics()
        await one.create("t", 1)
        await asyncio.gather(*(topics.set_configs("t", {f"k{n}": "v"}) for n in range(10) for topics in (one, two)))
        await one.refresh()
        record = one.get("t")
        assert record is not None
        assert sorted(record.configs) == [f"k{n}" for n in range(10)]

    run(body)


# the loop of changes


def test_settle_gives_up_with_the_doubt_it_has() -> None:
    async def body(cluster: Cluster) -> None:
        for fault, error in ((CommitFault.UNAVAILABLE, RetryLater), (CommitFault.LOST_UNAPPLIED, OutcomeUnknown)):
            cluster.store.force(*[fault] * 100)
            with pytest.raises(error) as caught:
                await settle(cluster.store, ("k",), lambda _: [Write(key="k", value=b"")])
            assert type(caught.value) is error

    run(body)


# the cluster


def test_an_instance_is_made_once() -> None:
    async def body(cluster: Cluster) -> None:
        opened = await asyncio.gather(*(open_instance(cluster.store, cluster.chance, shards=8 + n) for n in range(5)))
        assert len({instance.cluster_id for instance in opened}) == 1
        assert len({instance.shards for instance in opened}) == 1
        assert len(opened[0].cluster_id) == 22
        assert (opened[0].incarnation, opened[0].marked) == (1, False)
        for shards in (0, 65):
            with pytest.raises(Refused):
                await open_instance(cluster.store, cluster.chance, shards=shards)

    run(body)


@pytest.mark.parametrize("fault", LOST)
def test_r02_an_instance_whose_answer_was_lost_is_the_one_that_is_there(fault: CommitFault) -> None:
    async def body(cluster: Cluster) -> None:
        cluster.store.force(fault)
        opened = await open_instance(cluster.store, cluster.chance)
        await cluster.store.late_commits()
        assert await open_instance(cluster.store, cluster.chance) == opened

    run(body)


def test_r22_bucket_and_metadata_must_belong_together() -> None:
    async def body(cluster: Cluster) -> None:
        ours = await open_instance(cluster.store, cluster.chance)
        assert check_marker(ours, None) is False
        marker = marker_bytes(ours, metadata_url="sqlite:///x")
        assert check_marker(ours, marker) is True
        marked = await mark_instance(cluster.store, ours)
        assert await mark_instance(cluster.store, ours) == marked
        assert await open_instance(cluster.store, cluster.chance) == marked
        assert check_marker(marked, marker) is True
        with pytest.raises(Refused, match="another bucket"):
            check_marker(marked, None)  # an emptied or wrong bucket: refs would point at nothing
        theirs = InstanceRecord(cluster_id="theirs")
        with pytest.raises(Refused, match=r"belongs to cluster theirs.*to cluster " + ours.cluster_id):
            check_marker(ours, marker_bytes(theirs, metadata_url=""))
        newer = replace(ours, incarnation=2)
        assert marker_key(newer) > marker_key(ours)
        with pytest.raises(Refused, match="old copy"):
            check_marker(ours, marker_bytes(newer, metadata_url=""))
        assert check_marker(newer, marker) is False  # after a restore the new incarnation marks the bucket
        with pytest.raises(Conflict):
            await mark_instance(cluster.store, theirs)
        with pytest.raises(FrazilError):
            check_marker(ours, b"garbage")

    run(body)


def test_brokers_live_as_long_as_their_lease() -> None:
    async def body(cluster: Cluster) -> None:
        one, two = BrokerRecord(broker_id=1, host="a", port=1), BrokerRecord(broker_id=12, host="b", port=2, rack="r")
        lease = await register_broker(cluster.store, one, ttl_ms=1000)
        await register_broker(cluster.store, two, ttl_ms=1000)
        assert await list_brokers(cluster.store) == (one, two)
        await asyncio.sleep(0.6)
        assert await cluster.store.renew_lease(lease)
        await asyncio.sleep(0.6)
        assert await list_brokers(cluster.store) == (one,)
        with pytest.raises(Conflict, match="in use at a:1"):
            await register_broker(cluster.store, replace(one, host="other"), ttl_ms=1000)
        restarted = replace(one, started_ms=99)
        await register_broker(cluster.store, restarted, ttl_ms=1000)
        assert await list_brokers(cluster.store) == (restarted,)
        await deregister_broker(cluster.store, one)  # the old run must not take the new one away
        assert await list_brokers(cluster.store) == (restarted,)
        await deregister_broker(cluster.store, restarted)
        await deregister_broker(cluster.store, restarted)
        assert await list_brokers(cluster.store) == ()

    run(body)


@pytest.mark.parametrize("fault", LOST)
def test_r02_a_registration_whose_answer_was_lost_holds(fault: CommitFault) -> None:
    async def body(cluster: Cluster) -> None:
        record = BrokerRecord(broker_id=1, host="a", port=1)
        cluster.store.force(fault)
        lease = await register_broker(cluster.store, record, ttl_ms=60_000)
        await cluster.store.late_commits()
        assert await list_brokers(cluster.store) == (record,)
        assert await cluster.store.renew_lease(lease)
        await asyncio.sleep(59)
        assert await cluster.store.renew_lease(lease)
        await asyncio.sleep(2)
        assert await list_brokers(cluster.store) == (record,)

    run(body)


def test_producer_ids_are_given_once_whatever_is_lost() -> None:
    async def body(cluster: Cluster) -> None:
        cluster.store.force(None, *LOST, None, *LOST)
        blocks = await asyncio.gather(*(next_producer_ids(cluster.store, 10) for _ in range(20)))
        await cluster.store.late_commits()
        blocks.append(await next_producer_ids(cluster.store, 7))
        given = [producer for block in blocks for producer in block]
        assert len(given) == len(set(given)) == 207
        with pytest.raises(Bug):
            await next_producer_ids(cluster.store, 0)

    run(body)


# landings


def test_landings_are_kept_by_table() -> None:
    async def body(cluster: Cluster) -> None:
        one = LandingSpec(table="ns.one", topics=("a", "b"))
        two = LandingSpec(table="ns.two", topics=("c",), columns=("id long", "price decimal(10,2)"))
        for spec in (two, one, one):
            await put_landing(cluster.store, spec)
        assert await list_landings(cluster.store) == (one, two)
        await put_landing(cluster.store, replace(one, commit_interval_ms=5))
        assert (await get_landing(cluster.store, "ns.one")) == replace(one, commit_interval_ms=5)
        assert await get_landing(cluster.store, "ns.none") is None
        await put_status(cluster.store, LandingStatus(table="ns.one", state="running", updated_ms=1))
        stalled = LandingStatus(table="ns.two", state="failed", stage="commit", reason="catalog away", topic="c", partition=0)
        await put_status(cluster.store, stalled)
        assert (await list_statuses(cluster.store))[1] == stalled
        cluster.store.force(CommitFault.LOST_APPLIED)
        await delete_landing(cluster.store, "ns.two")
        assert [status.table for status in await list_statuses(cluster.store)] == ["ns.one"]
        with pytest.raises(Missing):
            await delete_landing(cluster.store, "ns.two")
        with pytest.raises(Refused):
            await put_status(cluster.store, LandingStatus(table="ns.one", state="fine"))

    run(body)


@pytest.mark.parametrize(
    "wrong",
    [
        {"table": "one"}, {"table": ""}, {"table": "a/b.c"}, {"table": ".a"}, {"table": "a..b"}, {"table": "a." + "b" * 600},
        {"topics": ()}, {"topics": ("a", "a")}, {"topics": ("a/b",)}, {"value": "xml"}, {"commit_interval_ms": 0}, {"commit_bytes": 0},
    ],
)  # fmt: skip
def test_landings_that_cannot_work_are_refused(wrong: dict[str, object]) -> None:
    async def body(cluster: Cluster) -> None:
        good = {"table": "ns.one", "topics": ("a",)}
        with pytest.raises(Refused):
            await put_landing(cluster.store, LandingSpec(**{**good, **wrong}))  # type: ignore[arg-type] # on purpose
        assert cluster.state.revision == 0

    run(body)
