"""Produce, Fetch, ListOffsets and OffsetForLeaderEpoch against a broker over memory stores."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.integration.rig import World
from tests.simulation.loop import run_virtual
from tests.unit.broker.harness import Stage, batch, play, produce_request, stage

from frazil.records import Codec, split_batches
from frazil.records.building import BatchOptions
from frazil.wire.errors import ErrorCode
from frazil.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from frazil.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from frazil.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from frazil.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderPartition, OffsetForLeaderTopic
from frazil.wire.messages.registry import ApiKey


def fetch_request(offset: int, *, topic: str = "t", partition: int = 0, wait_ms: int = 0, **changes: object) -> FetchRequest:
    part = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=int(changes.pop("partition_bytes", 1 << 20)))  # type: ignore[call-overload]
    plain: dict[str, object] = {"max_wait_ms": wait_ms, "min_bytes": 1, "max_bytes": 1 << 20}
    return FetchRequest(**{**plain, **changes}, topics=[FetchTopic(topic=topic, partitions=[part])])  # type: ignore[arg-type]


async def fetch(on: Stage, offset: int, *, version: int = 12, **changes: object) -> object:
    response = await on.client.call(ApiKey.FETCH, version, fetch_request(offset, **changes))  # type: ignore[arg-type]
    assert response.error_code == 0
    return response.responses[0].partitions[0]


@pytest.mark.parametrize("version", range(3, 12))
def test_every_produce_version_gets_its_offset(version: int) -> None:
    async def scene(on: Stage) -> None:
        await on.topic()
        first = await on.client.produce("t", batch(3), version=version)
        second = await on.client.produce("t", batch(2), version=version)
        assert (first.error_code, first.base_offset, second.base_offset) == (0, 0, 3)

    play(scene)


@pytest.mark.parametrize("version", range(4, 13))
def test_every_fetch_version_gives_the_records(version: int) -> None:
    async def scene(on: Stage) -> None:
        await on.topic()
        await on.client.produce("t", batch(3))
        found = await fetch(on, 0, version=version)
        batches = split_batches(bytes(found.records), batch_bytes_max=1 << 20)  # type: ignore[attr-defined]
        assert [(b.base_offset, b.record_count) for b in batches] == [(0, 3)]
        assert found.high_watermark == found.last_stable_offset == 3  # type: ignore[attr-defined]

    play(scene)


def test_f84_fetch_at_every_offset_gives_the_batch_that_holds_it() -> None:
    async def scene(on: Stage) -> None:
        await on.topic()
        await on.client.produce("t", batch(10))
        await on.client.produce("t", batch(10))
        for offset in range(20):
            found = await fetch(on, offset)
            first = split_batches(bytes(found.records), batch_bytes_max=1 << 20)[0]  # type: ignore[attr-defined]
            assert first.base_offset <= offset <= first.last_offset
        assert (await fetch(on, 20)).records in (None, b"")  # type: ignore[attr-defined]

    play(scene)


def test_r08_offset_out_of_range_is_said_only_for_offsets_that_are() -> None:
    async def scene(on: Stage) -> None:
        await on.topic()
        await on.client.produce("t", batch(10))
        assert (await fetch(on, 11)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE  # type: ignore[attr-defined]
        assert (await fetch(on, -1)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE  # type: ignore[attr-defined]

    play(scene)


def test_r08_a_broker_that_has_not_seen_a_commit_looks_before_it_answers() -> None:
    async def main() -> None:
        world = World()
        async with stage(world, 0) as one, stage(world, 1) as two:
            await one.topic()
            for task in asyncio.all_tasks():
                if task.get_name() == "index":
                    task.cancel()  # no watch: both views stand still
            await asyncio.sleep(0)
            await one.client.produce("t", batch(10))
            await two.client.produce("t", batch(5))
            found = await fetch(two, 5)
            assert found.error_code == 0  # type: ignore[attr-defined]
            assert found.high_watermark == 15  # type: ignore[attr-defined]
            latest = await list_offset(one, -1)
            assert latest == (0, 15, -1)

    run_virtual(main())


def test_long_poll_is_woken_by_a_produce_and_not_before() -> None:
    async def scene(on: Stage) -> None:
        await on.topic()
        loop = asyncio.get_running_loop()
        on.client.send(ApiKey.FETCH, 12, fetch_request(0, wait_ms=10_000))
        await asyncio.sleep(3)
        assert on.client.transport.written == b""
        await on.another().produce("t", batch(1))
        began = loop.time()
        _, response = await on.client.receive(ApiKey.FETCH, 12)
        assert loop.time() - began < 0.1
        assert response.responses[0].partitions[0].records

    play(scene)


def test_long_poll_ends_empty_when_its_time_is_over() -> None:
    async def scene(on: Stage) -> None:
        await on.topic()
        began = asyncio.get_running_loop().time()
        found = await fetch(on, 0, wait_ms=700)
        assert 0.69 < asyncio.get_running_loop().time() - began < 0.75
        assert found.records in (None, b"")  # type: ignore[attr-defined]

    play(scene)


def test_min_bytes_is_waited_for() -> None:
    async def scene(on: Stage) -> None:
        await on.topic()
        one = batch(1)
        other = on.another()
        on.client.send(ApiKey.FETCH, 12, fetch_request(0, wait_ms=60_000, min_bytes=2 * len(one)))
        await other.produce("t", one)
        await asyncio.sleep(5)
        assert on.client.transport.written == b""
        await other.produce("t", one)
        _, response = await on.client.receive(ApiKey.FETCH, 12)
        assert len(response.responses[0].partitions[0].records) == 2 * len(one)

    play(scene)


def test_byte_limits_bound_the_answer_but_one_batch_is_always_given() -> None:
    async def scene(on: Stage) -> None:
        await on.topic(partitions=3)
        big = batch(1, value=b"x" * 10_000)
        for partition in range(3):
            for _ in range(3):
                await on.client.produce("t", big, partition=partition)
        found = await fetch(on, 0, partition_bytes=1)
        assert len(found.records) == len(big)  # type: ignore[attr-defined]
        parts = [FetchPartition(partition=p, fetch_offset=0, partition_max_bytes=1 << 20) for p in range(3)]
        asked = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=4 * len(big), topics=[FetchTopic(topic="t", partitions=parts)])
        response = await on.client.call(ApiKey.FETCH, 12, asked)
        sizes = [len(p.records or b"") for p in response.responses[0].partitions]
        assert sizes[0] == 3 * len(big)
        assert 0 < sum(sizes) <= 5 * len(big)

    play(scene)


def test_one_bad_partition_leaves_the_others_alone() -> None:
    async def scene(on: Stage) -> None:
        await on.topic(partitions=2)
        await on.client.produce("t", batch(2), partition=0)
        parts = [FetchPartition(partition=p, fetch_offset=o, partition_max_bytes=1 << 20) for p, o in ((1, 77), (0, 0), (5, 0))]
        asked = FetchRequest(max_wait_ms=60_000, min_bytes=1, max_bytes=1 << 20, topics=[FetchTopic(topic="t", partitions=parts)])
        response = await on.client.call(ApiKey.FETCH, 12, asked)
        bad, good, missing = response.responses[0].partitions
        assert bad.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert good.error_code == 0
        assert good.records
        assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    play(scene)


def test_r26_leader_epochs_above_zero_are_unknown() -> None:
    async def scene(on: Stage) -> None:
        await on.topic()
        await on.client.produce("t", batch(4))
        part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20, current_leader_epoch=1)
        asked = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=[FetchTopic(topic="t", partitions=[part])])
        response = await on.client.call(ApiKey.FETCH, 12, asked)
        assert response.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
        for epoch, code, end in ((0, 0, 4), (-1, 0, 4), (1, ErrorCode.UNKNOWN_LEADER_EPOCH, -1)):
            partition = OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=epoch)
            topic = OffsetForLeaderTopic(topic="t", partitions=[partition])
            answer = await on.client.call(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, OffsetForLeaderEpochRequest(topics=[topic]))
            found = answer.topics[0].partitions[0]
            assert (found.error_code, found.end_offset) == (code, end)

    play(scene)


async def list_offset(on: Stage, timestamp: int, *, version: int = 7) -> tuple[int, int, int]:
    topic = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)])
    response = await on.client.call(ApiKey.LIST_OFFSETS, version, ListOffsetsRequest(topics=[topic]))
    found = response.topics[0].partitions[0]
    return found.error_code, found.offset, found.timestamp


def test_f84_list_offsets_gives_the_first_offset_at_or_after_a_time() -> None:
    async def scene(on: Stage) -> None:
        await on.topic()
        assert await list_offset(on, -1) == (0, 0, -1)
        assert await list_offset(on, 5) == (0, -1, -1)
        await on.client.produce("t", batch(10, timestamp_ms=1_000))
        await on.client.produce("t", batch(10, timestamp_ms=2_000))
        assert await list_offset(on, -2) == (0, 0, -1)
        assert await list_offset(on, -1) == (0, 20, -1)
        assert await list_offset(on, -3) == (0, 19, 2_009)
        for n in range(10):
            assert await list_offset(on, 1_000 + n) == (0, n, 1_000 + n)
            assert await list_offset(on, 2_000 + n) == (0, 10 + n, 2_000 + n)
        assert await list_offset(on, 1_500) == (0, 10, 2_000)
        assert await list_offset(on, 3_000) == (0, -1, -1)
        assert (await list_offset(on, -3, version=6))[0] == ErrorCode.UNSUPPORTED_VERSION

    play(scene)


def refused(data: bytes, **changes: object) -> int:
    async def scene(on: Stage) -> int:
        await on.topic(**changes.pop("configs", {}))  # type: ignore[arg-type]
        answer = await on.client.produce("t", data, **changes)  # type: ignore[arg-type]
        after = await on.client.produce("t", batch(1))
        assert after.base_offset == 0, "nothing of a refused batch is in the log"
        return answer.error_code

    return play(scene)


def test_refused_batches_are_refused_with_the_right_code() -> None:
    good = batch(2)
    broken = bytearray(good)
    broken[-1] ^= 1
    assert refused(bytes(broken)) == ErrorCode.CORRUPT_MESSAGE
    assert refused(good[:-1]) == ErrorCode.CORRUPT_MESSAGE
    old = bytearray(good)
    old[16] = 1
    assert refused(bytes(old)) == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
    assert refused(b"") == ErrorCode.INVALID_RECORD
    assert refused(good, partition=9) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refused(good, acks=2) == ErrorCode.INVALID_REQUIRED_ACKS
    transactional = BatchOptions(transactional=True, producer_id=1, producer_epoch=0, base_sequence=0)
    assert refused(batch(options=transactional)) == ErrorCode.INVALID_TXN_STATE
    assert refused(batch(options=BatchOptions(control=True))) == ErrorCode.INVALID_RECORD
    assert refused(batch(options=BatchOptions(last_offset_delta=7))) == ErrorCode.INVALID_RECORD, "offsets without records"
    assert refused(batch(options=BatchOptions(log_append_time_ms=5))) == ErrorCode.INVALID_TIMESTAMP
    assert refused(batch(options=BatchOptions(codec=Codec.ZSTD)), version=6) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert refused(batch(value=b"x" * 200), configs={"max_message_bytes": "100"}) == ErrorCode.MESSAGE_TOO_LARGE
    late = {"message_timestamp_after_max_ms": "1000"}
    assert refused(batch(timestamp_ms=1_700_000_100_000), configs=late) == ErrorCode.INVALID_TIMESTAMP
    early = {"message_timestamp_before_max_ms": "1000"}
    assert refused(batch(timestamp_ms=1_600_000_000_000), configs=early) == ErrorCode.INVALID_TIMESTAMP


def test_one_bad_partition_of_a_produce_request_leaves_the_others_alone() -> None:
    async def scene(on: Stage) -> None:
        await on.topic(partitions=2)
        response = await on.client.call(0, 9, produce_request("t", {0: b"junk", 1: batch(1)}))
        bad, good = response.responses[0].partition_responses
        assert bad.error_code == ErrorCode.CORRUPT_MESSAGE
        assert bad.error_message
        assert (good.error_code, good.base_offset) == (0, 0)

    play(scene)


@pytest.mark.parametrize("codec", list(Codec))
def test_batches_are_kept_as_the_producer_compressed_them(codec: Codec) -> None:
    async def scene(on: Stage) -> None:
        await on.topic()
        data = batch(5, options=BatchOptions(codec=codec))
        await on.client.produce("t", data)
        found = await fetch(on, 0)
        assert bytes(found.records)[8:] == data[8:]  # type: ignore[attr-defined]

    play(scene)


def test_log_append_time_stamps_and_tells() -> None:
    async def scene(on: Stage) -> None:
        await on.topic(message_timestamp_type="LogAppendTime")
        answer = await on.client.produce("t", batch(3, timestamp_ms=5))
        assert answer.log_append_time_ms >= 1_700_000_000_000
        found = await fetch(on, 0)
        (only,) = split_batches(bytes(found.records), batch_bytes_max=1 << 20)  # type: ignore[attr-defined]
        assert only.is_log_append_time
        assert only.max_timestamp_ms == answer.log_append_time_ms

    play(scene)


def test_acks_zero_is_stored_and_not_answered() -> None:
    async def scene(on: Stage) -> None:
        await on.topic()
        on.client.send(0, 9, produce_request("t", {0: batch(2)}, acks=0))
        answer = await on.client.call(0, 9, produce_request("t", {0: batch(1)}))
        assert answer.responses[0].partition_responses[0].base_offset == 2
        assert not on.client.transport.closed

    play(scene)


def test_acks_zero_failure_closes_the_connection() -> None:
    async def scene(on: Stage) -> None:
        on.client.send(0, 9, produce_request("missing", {0: batch(2)}, acks=0))
        await asyncio.sleep(1)
        assert on.client.transport.closed

    play(scene, auto_create_topics=False)


def test_r03_pipelined_requests_keep_their_order_also_when_the_topic_must_be_looked_up() -> None:
    async def main() -> None:
        world = World()
        async with stage(world, 0) as one, stage(world, 1) as two:
            for task in asyncio.all_tasks():
                if task.get_name() == "broker topics":
                    task.cancel()
            await one.topic()
            for n in range(20):
                two.client.send(0, 9, produce_request("t", {0: batch(1, value=b"%d" % n)}))
            offsets = []
            for _ in range(20):
                _, response = await two.client.receive(0, 9)
                offsets.append(response.responses[0].partition_responses[0].base_offset)
            assert offsets == list(range(20))

    run_virtual(main())


def test_r03_a_request_that_waits_for_its_topic_is_not_overtaken_on_its_connection() -> None:
    async def main() -> None:
        world = World()
        async with stage(world, 0) as one, stage(world, 1) as two:
            for task in asyncio.all_tasks():
                if task.get_name() == "broker topics":
                    task.cancel()
            await one.topic()
            real = two.parts.store.range

            async def slow(start: str, end: str, **changes: Any) -> Any:
                await asyncio.sleep(1)
                return await real(start, end, **changes)

            two.parts.store.range = slow  # type: ignore[method-assign]
            refreshing = asyncio.create_task(two.parts.broker._topics.refresh())
            await asyncio.sleep(0.5)
            two.client.send(0, 9, produce_request("t", {0: batch(1)}))  # came while a refresh ran, so it waits for the next
            await asyncio.sleep(0.6)
            assert refreshing.done()
            two.client.send(0, 9, produce_request("t", {0: batch(1)}))  # its topic is known already
            offsets = []
            for _ in range(2):
                _, response = await two.client.receive(0, 9)
                offsets.append(response.responses[0].partition_responses[0].base_offset)
            assert offsets == [0, 1]

    run_virtual(main())


def test_f85_a_repeated_idempotent_batch_gets_its_first_offset() -> None:
    async def scene(on: Stage) -> None:
        await on.topic()
        options = BatchOptions(producer_id=7, producer_epoch=0, base_sequence=0)
        first = await on.client.produce("t", batch(3, options=options))
        again = await on.client.produce("t", batch(3, options=options))
        assert (first.base_offset, again.error_code, again.base_offset) == (0, 0, 0)
        gap = await on.client.produce("t", batch(1, options=BatchOptions(producer_id=7, producer_epoch=0, base_sequence=9)))
        assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    play(scene)


def test_fetch_sessions_are_not_kept() -> None:
    async def scene(on: Stage) -> None:
        await on.topic()
        response = await on.client.call(ApiKey.FETCH, 12, fetch_request(0, session_id=5, session_epoch=3))
        assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        response = await on.client.call(ApiKey.FETCH, 12, fetch_request(0, session_id=0, session_epoch=0))
        assert (response.error_code, response.session_id) == (0, 0)

    play(scene)


def test_read_committed_gets_an_empty_list_of_aborted_transactions() -> None:
    async def scene(on: Stage) -> None:
        await on.topic()
        await on.client.produce("t", batch(1))
        found = await fetch(on, 0, isolation_level=1)
        assert list(found.aborted_transactions) == []  # type: ignore[attr-defined]

    play(scene)


def test_deleted_records_are_gone_and_the_rest_stays_kip107() -> None:
    async def scene(on: Stage) -> None:
        await on.topic()
        await on.client.produce("t", batch(10))
        await on.client.produce("t", batch(10))

        async def delete(before: int, *, partition: int = 0) -> tuple[int, int]:
            parts = [DeleteRecordsPartition(partition_index=partition, offset=before)]
            asked = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=parts)])
            found = (await on.client.call(ApiKey.DELETE_RECORDS, 2, asked)).topics[0].partitions[0]
            return found.error_code, found.low_watermark

        assert await delete(10) == (0, 10)
        assert (await fetch(on, 9)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE  # type: ignore[attr-defined]
        assert (await fetch(on, 10)).records  # type: ignore[attr-defined]
        assert await list_offset(on, -2) == (0, 10, -1)
        assert await delete(21) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        assert await delete(0, partition=7) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
        assert await delete(-1) == (0, 20)
        assert await list_offset(on, -2) == await list_offset(on, -1) == (0, 20, -1)

    play(scene)


def test_fetches_together_read_a_bounded_number_of_bytes() -> None:
    async def scene(on: Stage) -> None:
        await on.topic()
        data = batch(1, value=b"x" * 50_000)
        for _ in range(4):
            await on.client.produce("t", data)
        gate = on.parts.broker._dispatcher._services.fetch_gate
        highest = 0
        real = on.parts.broker._deps.reader.read_pieces

        async def slow(wants: object) -> object:
            nonlocal highest
            highest = max(highest, gate.held_bytes)
            await asyncio.sleep(1)
            return await real(wants)  # type: ignore[arg-type]

        on.parts.broker._deps.reader.read_pieces = slow  # type: ignore[assignment,method-assign]
        clients = [on.another() for _ in range(6)]
        for client in clients:
            client.send(ApiKey.FETCH, 12, fetch_request(0))
        for client in clients:
            _, response = await client.receive(ApiKey.FETCH, 12)
            assert len(response.responses[0].partitions[0].records) == 4 * len(data)
        assert 4 * len(data) <= highest <= 500_000
        assert gate.held_bytes == 0

    play(scene, fetch_buffered_bytes_max=500_000)
