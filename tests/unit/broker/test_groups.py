"""Groups over the wire: membership, offsets, and coordination that survives restarts and split views (R19, F80)."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from typing import Any

import pytest
from tests.integration.rig import World
from tests.simulation.loop import run_virtual
from tests.unit.broker.harness import Client, Stage, play, stage

from frazil.broker.cluster import ClusterView, rendezvous
from frazil.broker.groups.inventory import OffsetSweep
from frazil.broker.groups.record import decode_record, encode_record, group_key, group_of
from frazil.broker.groups.values import GroupLimits
from frazil.kit.errors import Corrupt
from frazil.metadata import read_one
from frazil.metadata.cluster import BrokerRecord
from frazil.metadata.faulty import MetadataFaults
from frazil.metadata.port import Write
from frazil.wire.errors import ErrorCode
from frazil.wire.messages.consumer_protocol_subscription import DATA, ConsumerProtocolSubscription
from frazil.wire.messages.delete_groups import DeleteGroupsRequest
from frazil.wire.messages.describe_groups import DescribeGroupsRequest
from frazil.wire.messages.find_coordinator import FindCoordinatorRequest
from frazil.wire.messages.heartbeat import HeartbeatRequest
from frazil.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from frazil.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from frazil.wire.messages.list_groups import ListGroupsRequest
from frazil.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from frazil.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from frazil.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from frazil.wire.messages.registry import ApiKey
from frazil.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment


def subscription(*topics: str) -> bytes:
    parts: list[Any] = []
    DATA.writers[0](ConsumerProtocolSubscription(topics=list(topics)), parts.append)
    return b"\0\0" + b"".join(parts)


def join_request(group: str = "g", member_id: str = "", **changes: Any) -> JoinGroupRequest:
    plain = {
        "group_id": group,
        "member_id": member_id,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 20_000,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequestProtocol(name="range", metadata=subscription("t"))],
    }
    return JoinGroupRequest(**{**plain, **changes})


async def join(client: Client, group: str = "g", *, version: int = 9, **changes: Any) -> Any:
    answer = await client.call(ApiKey.JOIN_GROUP, version, join_request(group, **changes))
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        answer = await client.call(ApiKey.JOIN_GROUP, version, join_request(group, **{**changes, "member_id": answer.member_id}))
    return answer


async def sync(client: Client, joined: Any, group: str = "g", *, version: int = 5) -> Any:
    assignments = [SyncGroupRequestAssignment(member_id=m.member_id, assignment=b"of " + m.member_id.encode()) for m in joined.members]
    asked = SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=assignments,
    )
    return await client.call(ApiKey.SYNC_GROUP, version, asked)


async def heartbeat(client: Client, joined: Any, group: str = "g", generation: int | None = None) -> int:
    asked = HeartbeatRequest(
        group_id=group, member_id=joined.member_id, generation_id=joined.generation_id if generation is None else generation
    )
    return int((await client.call(ApiKey.HEARTBEAT, 4, asked)).error_code)


async def commit(client: Client, offset: int, joined: Any = None, *, group: str = "g", topic: str = "t", **changes: Any) -> int:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata=changes.pop("metadata", ""))
    asked = OffsetCommitRequest(
        group_id=group,
        member_id=joined.member_id if joined else "",
        generation_id_or_member_epoch=changes.pop("generation", joined.generation_id if joined else -1),
        topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])],
    )
    return int((await client.call(ApiKey.OFFSET_COMMIT, 8, asked)).topics[0].partitions[0].error_code)


async def committed(client: Client, group: str = "g", topic: str = "t", *, version: int = 8) -> int:
    if version >= 8:
        topics = [OffsetFetchRequestTopics(name=topic, partition_indexes=[0])]
        asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)])
        answer = (await client.call(ApiKey.OFFSET_FETCH, version, asked)).groups[0]
    else:
        asked = OffsetFetchRequest(group_id=group, topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[0])])
        answer = await client.call(ApiKey.OFFSET_FETCH, version, asked)
    assert answer.error_code == 0
    return int(answer.topics[0].partitions[0].committed_offset)


async def member(client: Client, group: str = "g") -> Any:
    joined = await join(client, group)
    assert joined.error_code == 0
    assert (await sync(client, joined, group)).error_code == 0
    return joined


@pytest.mark.parametrize("version", range(10))
def test_every_join_version_leads_to_an_assignment(version: int) -> None:
    async def scene(on: Stage) -> None:
        joined = await join(on.client, version=version)
        assert (joined.error_code, joined.generation_id, joined.protocol_name) == (0, 1, "range")
        assert joined.leader == joined.member_id
        assert joined.members[0].metadata == subscription("t")
        synced = await sync(on.client, joined, version=min(version, 5))
        assert synced.assignment == b"of " + joined.member_id.encode()
        assert await heartbeat(on.client, joined) == 0

    play(scene)


def test_two_consumers_share_and_one_takes_over() -> None:
    async def scene(on: Stage) -> None:
        other = on.another()
        first, second = await asyncio.gather(join(on.client), join(other))
        assert first.generation_id == second.generation_id == 1
        leader, follower = (first, second) if first.members else (second, first)
        lead, follow = (on.client, other) if first.members else (other, on.client)
        synced = await asyncio.gather(sync(follow, follower), sync(lead, leader))
        assert [s.assignment for s in synced] == [b"of " + follower.member_id.encode(), b"of " + leader.member_id.encode()]
        left = await lead.call(
            ApiKey.LEAVE_GROUP, 5, LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=leader.member_id)])
        )
        assert left.members[0].error_code == 0
        assert await heartbeat(follow, follower) == ErrorCode.REBALANCE_IN_PROGRESS
        again = await join(follow, member_id=follower.member_id)
        assert (again.generation_id, again.leader) == (2, follower.member_id)

    play(scene)


@pytest.mark.parametrize("version", range(1, 10))
def test_offsets_are_committed_and_fetched_in_every_version(version: int) -> None:
    async def scene(on: Stage) -> None:
        await on.topic()
        assert await committed(on.client, version=version) == -1
        joined = await member(on.client)
        assert await commit(on.client, 41, joined) == 0
        assert await committed(on.client, version=version) == 41

    play(scene)


def test_all_offsets_of_a_group_are_listed_when_no_topics_are_named() -> None:
    async def scene(on: Stage) -> None:
        await on.topic("a")
        await on.topic("b")
        await commit(on.client, 3, topic="b")
        await commit(on.client, 4, topic="a")
        answer = await on.client.call(ApiKey.OFFSET_FETCH, 7, OffsetFetchRequest(group_id="g", topics=None))
        assert [(t.name, t.partitions[0].committed_offset) for t in answer.topics] == [("a", 4), ("b", 3)]

    play(scene)


def test_f80_stale_generation_does_not_commit() -> None:
    async def scene(on: Stage) -> None:
        await on.topic()
        joined = await member(on.client)
        assert await commit(on.client, 10, joined) == 0
        assert await commit(on.client, 11, joined, generation=joined.generation_id - 1) == ErrorCode.ILLEGAL_GENERATION
        assert await committed(on.client) == 10
        assert await heartbeat(on.client, joined, generation=0) == ErrorCode.ILLEGAL_GENERATION

    play(scene)


def test_refused_commits() -> None:
    async def scene(on: Stage) -> None:
        await on.topic()
        assert await commit(on.client, 1, topic="missing") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await commit(on.client, 1, metadata="x" * 5000) == ErrorCode.OFFSET_METADATA_TOO_LARGE
        assert await commit(on.client, 1, group="") == ErrorCode.INVALID_GROUP_ID
        assert await commit(on.client, 1, generation=3) == ErrorCode.ILLEGAL_GENERATION
        await member(on.client)
        assert await commit(on.client, 1) == ErrorCode.UNKNOWN_MEMBER_ID, "only an empty group takes commits of strangers"
        assert await committed(on.client) == -1

    play(scene)


def test_r19_offsets_are_kept_by_topic_id() -> None:
    async def scene(on: Stage) -> None:
        await on.topic()
        assert await commit(on.client, 41) == 0
        await on.parts.broker._topics.topics.delete("t")
        await on.topic()
        assert await committed(on.client) == -1

    play(scene)


def test_f80_a_group_survives_its_broker() -> None:
    async def main() -> None:
        world = World()
        async with stage(world, 0) as before:
            await before.topic()
            joined = await member(before.client)
            assert await commit(before.client, 7, joined) == 0
        async with stage(world, 0) as after:
            assert await heartbeat(after.client, joined) == 0, "membership goes on where it was"
            assert await committed(after.client) == 7
            assert await commit(after.client, 8, joined) == 0
            again = await sync(after.client, joined)
            assert again.assignment == b"of " + joined.member_id.encode()
            described = await after.client.call(ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest(groups=["g"]))
            assert described.groups[0].group_state == "Stable"

    run_virtual(main())


def test_r19_the_loser_of_a_claim_answers_not_coordinator() -> None:
    async def main() -> None:
        world = World()
        async with stage(world, 0) as one:
            await one.topic()
            joined = await member(one.client)
            assert await commit(one.client, 5, joined) == 0
            # Another broker with another view of the cluster claims the group.
            entry = await read_one(one.parts.store, group_key("g"))
            record = decode_record(entry.value, where="test")
            stolen = encode_record(dataclasses.replace(record, coordinator=9, epoch=record.epoch + 1))
            await one.parts.store.commit((), [Write(key=group_key("g"), value=stolen)])
            assert await commit(one.client, 6, joined) == ErrorCode.NOT_COORDINATOR
            assert await committed(one.client) == 5
            assert one.parts.broker.counters.api("OFFSET_COMMIT").requests == 2

    run_virtual(main())


def test_r19_a_generation_change_after_a_lost_claim_reaches_nobody() -> None:
    async def main() -> None:
        async with stage() as one:
            joined = await member(one.client)
            entry = await read_one(one.parts.store, group_key("g"))
            stolen = encode_record(dataclasses.replace(decode_record(entry.value, where="test"), coordinator=9, epoch=50))
            await one.parts.store.commit((), [Write(key=group_key("g"), value=stolen)])
            newcomer = one.another()
            newcomer.send(ApiKey.JOIN_GROUP, 2, join_request())
            rejoined = await join(one.client, member_id=joined.member_id)
            assert rejoined.error_code == ErrorCode.NOT_COORDINATOR
            _, answer = await newcomer.receive(ApiKey.JOIN_GROUP, 2)
            assert answer.error_code == ErrorCode.NOT_COORDINATOR
            assert one.parts.broker.counters.group_records_lost == 1

    run_virtual(main())


def test_r19_without_its_lease_a_broker_stops_answering() -> None:
    async def main() -> None:
        async with stage() as one:
            joined = await member(one.client)
            for task in asyncio.all_tasks():
                if task.get_name() == "broker lease":
                    task.cancel()
            await asyncio.sleep(5)
            assert await heartbeat(one.client, joined) == 0
            await asyncio.sleep(5.1)
            assert await heartbeat(one.client, joined) == ErrorCode.NOT_COORDINATOR

    run_virtual(main())


def test_r19_after_a_lapsed_lease_groups_are_claimed_anew() -> None:
    async def main() -> None:
        async with stage() as one:
            joined = await member(one.client)
            for task in asyncio.all_tasks():
                if task.get_name() == "broker lease":
                    task.cancel()
            await asyncio.sleep(11)
            brokers = one.parts.broker._brokers
            assert await heartbeat(one.client, joined) == ErrorCode.NOT_COORDINATOR
            before = decode_record((await read_one(one.parts.store, group_key("g"))).value, where="test")
            await brokers.register(brokers.me)
            assert await heartbeat(one.client, joined) == 0
            after = decode_record((await read_one(one.parts.store, group_key("g"))).value, where="test")
            assert (after.epoch, after.generation) == (before.epoch + 1, before.generation)

    run_virtual(main())


@pytest.mark.parametrize("seed", range(8))
def test_lost_answers_of_the_metadata_store_lose_no_acknowledged_offset(seed: int) -> None:
    async def main() -> None:
        world = World(seed=100 * seed)
        async with stage(world) as quiet:
            await quiet.topic()
        world.plan = MetadataFaults(unavailable=0.05, lost_applied=0.15, lost_unapplied=0.1, lost_late=0.05, late_ms=300)
        async with stage(world) as on:
            acknowledged, sent = -1, -1
            joined = None
            for n in range(60):
                try:
                    if joined is None:
                        candidate = await join(on.client)
                        if candidate.error_code == 0 and (await sync(on.client, candidate)).error_code == 0:
                            joined = candidate
                        continue
                    sent = n
                    code = await commit(on.client, n, joined)
                except ConnectionError:
                    on.client = on.another()
                    continue
                if code == 0:
                    acknowledged = n
                elif code != ErrorCode.REQUEST_TIMED_OUT:
                    joined = None
                await asyncio.sleep(0.05)
        world.plan = None
        async with stage(world) as quiet:
            assert acknowledged <= await committed(quiet.client) <= sent
            assert acknowledged > 0

    logging.getLogger("frazil").setLevel(logging.CRITICAL)
    try:
        run_virtual(main())
    finally:
        logging.getLogger("frazil").setLevel(logging.NOTSET)


def test_one_broken_group_record_hides_no_other_group() -> None:
    async def scene(on: Stage) -> None:
        await on.topic()
        await commit(on.client, 5, group="good")
        await on.parts.store.commit((), [Write(key=group_key("bad"), value=b"\x01junk")])
        listed = await on.client.call(ApiKey.LIST_GROUPS, 5, ListGroupsRequest())
        assert [g.group_id for g in listed.groups] == ["good"]
        answer = await on.client.call(ApiKey.JOIN_GROUP, 9, join_request("bad"))
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert await commit(on.client, 6, group="good") == 0

    play(scene)


def test_f80_three_brokers_restarted_one_by_one_keep_the_group() -> None:
    """A member follows FindCoordinator; after each restart it is stable again and its offset is kept."""

    async def find(stages: dict[int, Stage]) -> Client:
        for _ in range(100):
            any_stage = next(iter(stages.values()))
            found = await any_stage.client.call(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(coordinator_keys=["g"]))
            node = found.coordinators[0].node_id
            if node in stages:
                return stages[node].client
            await asyncio.sleep(0.1)
        raise AssertionError("the coordinator is a broker that is gone")

    async def main() -> None:
        world = World()
        opened = {n: stage(world, n) for n in range(3)}
        stages = {n: await context.__aenter__() for n, context in opened.items()}
        await stages[0].topic()
        await asyncio.sleep(2)
        joined = await member(await find(stages))
        moves = 0
        for round_number in range(3):
            await opened[round_number].__aexit__(None, None, None)
            del stages[round_number]
            await asyncio.sleep(2)
            code = 0
            for _ in range(50):
                client = await find(stages)
                code = await heartbeat(client, joined)
                if code == 0:
                    break
                moves += 1
                await asyncio.sleep(0.2)
            assert code == 0
            assert await commit(await find(stages), 100 + round_number, joined) == 0
            assert await commit(await find(stages), 1, joined, generation=joined.generation_id - 1) == ErrorCode.ILLEGAL_GENERATION
            opened[round_number] = stage(world, round_number)
            stages[round_number] = await opened[round_number].__aenter__()
            await asyncio.sleep(2)
            assert await committed(await find(stages)) == 100 + round_number
            assert await heartbeat(await find(stages), joined) == 0
        for context in opened.values():
            await context.__aexit__(None, None, None)

    run_virtual(main())


def test_brokers_that_are_not_the_coordinator_say_so() -> None:
    async def main() -> None:
        world = World()
        async with stage(world, 0) as one, stage(world, 1) as two:
            await asyncio.sleep(2)
            found = await one.client.call(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(coordinator_keys=["g"]))
            same = await two.client.call(ApiKey.FIND_COORDINATOR, 2, FindCoordinatorRequest(key="g"))
            assert found.coordinators[0].node_id == same.node_id
            stranger = two if same.node_id == 0 else one
            assert (await join(stranger.client)).error_code == ErrorCode.NOT_COORDINATOR
            assert (await join((one if same.node_id == 0 else two).client)).error_code == 0

    run_virtual(main())


def test_transaction_coordinators_are_refused_in_words_by_versions_that_show_them() -> None:
    async def scene(on: Stage) -> None:
        answer = await on.client.call(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(coordinator_keys=["tx"], key_type=1))
        assert answer.coordinators[0].error_code == ErrorCode.UNSUPPORTED_VERSION
        assert "transactions are not supported" in answer.coordinators[0].error_message
        old = await on.client.call(ApiKey.FIND_COORDINATOR, 2, FindCoordinatorRequest(key="tx", key_type=1))
        assert (old.error_code, old.node_id) == (0, 0), "InitProducerId refuses those"

    play(scene)


def test_list_describe_and_delete_groups() -> None:
    async def scene(on: Stage) -> None:
        await on.topic()
        joined = await member(on.client)
        await commit(on.client, 5, group="simple")
        listed = await on.client.call(ApiKey.LIST_GROUPS, 5, ListGroupsRequest())
        assert [(g.group_id, g.group_state, g.group_type) for g in listed.groups] == [
            ("g", "Stable", "classic"),
            ("simple", "Empty", "classic"),
        ]
        filtered = await on.client.call(ApiKey.LIST_GROUPS, 5, ListGroupsRequest(states_filter=["empty"]))
        assert [g.group_id for g in filtered.groups] == ["simple"]
        none = await on.client.call(ApiKey.LIST_GROUPS, 5, ListGroupsRequest(types_filter=["consumer"]))
        assert none.groups == []
        described = await on.client.call(ApiKey.DESCRIBE_GROUPS, 6, DescribeGroupsRequest(groups=["g", "missing"]))
        here, gone = described.groups
        assert (here.group_state, here.protocol_type, here.protocol_data) == ("Stable", "consumer", "range")
        assert here.members[0].member_id == joined.member_id
        assert here.members[0].client_id == "test"
        assert (gone.group_state, gone.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)
        deleted = await on.client.call(ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest(groups_names=["g", "simple", "missing"]))
        assert [r.error_code for r in deleted.results] == [ErrorCode.NON_EMPTY_GROUP, 0, ErrorCode.GROUP_ID_NOT_FOUND]
        assert await committed(on.client, "simple") == -1

    play(scene)


def test_offsets_of_subscribed_topics_are_not_deleted_kip496() -> None:
    async def scene(on: Stage) -> None:
        await on.topic("t")
        await on.topic("u")
        joined = await member(on.client)
        await commit(on.client, 5, joined, topic="t")
        await commit(on.client, 6, joined, topic="u")
        partition = OffsetDeleteRequestPartition(partition_index=0)
        topics = [OffsetDeleteRequestTopic(name=name, partitions=[partition]) for name in ("t", "u", "missing")]
        answer = await on.client.call(ApiKey.OFFSET_DELETE, 0, OffsetDeleteRequest(group_id="g", topics=topics))
        assert [t.partitions[0].error_code for t in answer.topics] == [
            ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
            0,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert await committed(on.client, topic="t") == 5
        assert await committed(on.client, topic="u") == -1

    play(scene)


def test_old_offsets_of_empty_groups_are_swept_others_stay() -> None:
    async def scene(on: Stage) -> None:
        await on.topic()
        await on.topic("gone")
        await commit(on.client, 5, group="old")
        joined = await member(on.client, "alive")
        await commit(on.client, 6, joined, group="alive")
        await commit(on.client, 7, joined, group="alive", topic="gone")
        await on.parts.broker._topics.topics.delete("gone")
        broker = on.parts.broker
        sweep = OffsetSweep(
            groups=broker._groups, store=on.parts.store, topics=broker._topics, clock=broker._deps.clock, retention_ms=100_000
        )
        assert await sweep.pass_once() == 1, "only that of the deleted topic"
        for _ in range(21):
            await asyncio.sleep(5)
            assert await heartbeat(on.client, joined, "alive") == 0
        assert await sweep.pass_once() == 1
        assert await committed(on.client, "old") == -1
        assert await committed(on.client, "alive") == 6
        listed = await on.client.call(ApiKey.LIST_GROUPS, 5, ListGroupsRequest())
        assert [g.group_id for g in listed.groups] == ["alive"]

    play(scene)


def test_a_consumer_that_vanishes_is_replaced_after_its_session() -> None:
    async def scene(on: Stage) -> None:
        await member(on.client)
        on.client.transport.close()
        began = asyncio.get_running_loop().time()
        other = on.another()
        joined = await join(other)
        assert joined.error_code == 0
        assert [m.member_id for m in joined.members] == [joined.member_id]
        assert asyncio.get_running_loop().time() - began < 21

    play(scene)


def test_many_groups_leave_memory_and_come_back() -> None:
    async def scene(on: Stage) -> None:
        await on.topic()
        for n in range(20):
            await commit(on.client, n, group=f"g{n}")
        assert len(on.parts.broker._groups._groups) == 20
        await asyncio.sleep(400)
        assert len(on.parts.broker._groups._groups) == 0
        assert await committed(on.client, "g7") == 7
        assert await commit(on.client, 70, group="g7") == 0

    play(scene)


def test_any_group_name_has_its_own_key() -> None:
    names = ["a/b", "a%2Fb", "ä", "", "groups/", "a b"]
    keys = [group_key(name) for name in names]
    assert len(set(keys)) == len(names)
    assert [group_of(key) for key in keys] == names
    assert all(key.count("/") == 1 for key in keys)


def test_records_of_another_format_are_refused() -> None:
    with pytest.raises(Corrupt, match="format"):
        decode_record(b"\x07whatever", where="groups/g")
    with pytest.raises(Corrupt):
        decode_record(b"\x01junk", where="groups/g")


def test_rendezvous_moves_only_what_a_broker_has() -> None:
    brokers = tuple(BrokerRecord(broker_id=n, host="h", port=n) for n in range(4))
    before = ClusterView.of(brokers, 64).leaders
    after = ClusterView.of(brokers[:3], 64).leaders
    assert all(new == old for old, new in zip(before, after, strict=True) if old != 3)
    assert all(8 <= before.count(n) <= 26 for n in range(4))
    assert rendezvous("group g", brokers) == rendezvous("group g", tuple(reversed(brokers)))


def test_limits_of_membership_come_from_the_settings() -> None:
    async def scene(on: Stage) -> None:
        assert (await join(on.client, session_timeout_ms=10)).error_code == ErrorCode.INVALID_SESSION_TIMEOUT
        assert (await join(on.client, session_timeout_ms=2_000)).error_code == 0

    play(scene, groups=GroupLimits(session_timeout_min_ms=1_000))
