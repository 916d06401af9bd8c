"""Pipelined produce requests: taken together, answered each for itself, with the same answers as one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.unit.broker.harness import Client, Stage, batch, play, produce_request

from frazil.broker import bursts
from frazil.log.append import Appender, FlushPolicy
from frazil.records.building import BatchOptions
from frazil.wire.client import encode_request
from frazil.wire.errors import ErrorCode
from frazil.wire.frame import RequestHeader, encode_request_frame
from frazil.wire.messages.registry import ApiKey


def idempotent(sequence: int, count: int = 1, *, pid: int = 7, epoch: int = 0) -> bytes:
    return batch(count, options=BatchOptions(producer_id=pid, producer_epoch=epoch, base_sequence=sequence))


async def pipelined(client: Client, datas: Sequence[bytes], *, version: int = 9, topics: Sequence[str] = ()) -> list[tuple[int, int]]:
    """All requests in one piece; (code, base offset) of each answer, which must come in order."""
    frames = b""
    names = topics or ["t"] * len(datas)
    for number, (name, data) in enumerate(zip(names, datas, strict=True)):
        body = encode_request(ApiKey.PRODUCE, version, produce_request(name, {0: data}))
        frames += encode_request_frame(RequestHeader(ApiKey.PRODUCE, version, number, "test", 0), body)
    client.transport.feed(frames)
    found = []
    for number in range(len(datas)):
        correlation, answer = await client.receive(ApiKey.PRODUCE, version)
        assert correlation == number
        partition = answer.responses[0].partition_responses[0]
        found.append((partition.error_code, partition.base_offset))
    return found


class Counting:
    """Counts the bursts that are taken, and how many requests each has."""

    def __init__(self, on: Stage) -> None:
        self.sizes: list[int] = []
        dispatcher = on.parts.broker._dispatcher
        real = dispatcher._bursts._appender.offer

        def offer(runs: Any, done: Any) -> bool:
            if isinstance(done, bursts._Reply):
                self.sizes.append(len(runs[0].batches))
            return real(runs, done)

        dispatcher._bursts._appender.offer = offer  # type: ignore[method-assign]


@pytest.mark.parametrize("version", [3, 4, 5, 7, 8, 9, 11])
def test_requests_of_one_piece_are_one_burst_with_an_answer_each(version: int) -> None:
    async def scene(on: Stage) -> None:
        await on.topic()
        await on.client.produce("t", batch(3))
        counting = Counting(on)
        found = await pipelined(on.client, [batch(n) for n in (1, 2, 3, 1)], version=version)
        assert found == [(0, 3), (0, 4), (0, 6), (0, 9)]
        assert counting.sizes == [4]
        assert on.parts.broker._house.budget.used == 0
        assert on.parts.broker.counters.api("PRODUCE").requests == 5

    play(scene)


def test_r10_a_burst_sent_again_gets_the_offsets_it_has() -> None:
    async def scene(on: Stage) -> None:
        await on.topic()
        first = [idempotent(n) for n in range(5)]
        assert await pipelined(on.client, first) == [(0, n) for n in range(5)]
        again = on.another()
        assert await pipelined(again, [*first[2:], idempotent(5), idempotent(6)]) == [(0, n) for n in (2, 3, 4, 5, 6)]
        assert await pipelined(on.another(), [idempotent(5), idempotent(6), idempotent(7)]) == [(0, 5), (0, 6), (0, 7)]
        assert on.parts.index.end(next(iter(on.parts.index.state.logs[(await topic_of(on)).topic_id].values())).key) == 8

    play(scene)


async def topic_of(on: Stage) -> Any:
    return await on.parts.broker._topics.find("t")


def test_r03_each_request_of_a_burst_is_judged_for_itself() -> None:
    async def scene(on: Stage) -> None:
        await on.topic()
        await pipelined(on.client, [idempotent(0), idempotent(1)])
        gap = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        found = await pipelined(on.client, [idempotent(2), idempotent(9), idempotent(3), idempotent(0, pid=8), idempotent(1, epoch=1)])
        assert found == [(0, 2), (gap, -1), (0, 3), (0, 4), (gap, -1)]
        stale = await pipelined(on.client, [idempotent(0, epoch=1), idempotent(4, epoch=0), idempotent(1, epoch=1)])
        assert stale == [(0, 5), (ErrorCode.INVALID_PRODUCER_EPOCH, -1), (0, 6)]

    play(scene)


def test_the_unusual_in_the_middle_ends_a_burst_and_nothing_is_reordered() -> None:
    async def scene(on: Stage) -> None:
        await on.topic()
        await on.topic("other")
        damaged = bytearray(idempotent(1))
        damaged[-1] ^= 1
        counting = Counting(on)
        found = await pipelined(on.client, [idempotent(0), bytes(damaged), idempotent(1), idempotent(2)])
        assert found == [(0, 0), (ErrorCode.CORRUPT_MESSAGE, -1), (0, 1), (0, 2)]
        two = batch() + batch()
        assert await pipelined(on.client, [batch(), two, batch()]) == [(0, 3), (0, 4), (0, 6)]
        mixed = await pipelined(on.client, [batch(), batch(), batch(2), batch()], topics=["t", "other", "other", "t"])
        assert mixed == [(0, 7), (0, 0), (0, 1), (0, 8)]
        assert counting.sizes

    play(scene)


def test_rules_that_look_at_each_batch_keep_their_topic_out_of_bursts() -> None:
    async def scene(on: Stage) -> None:
        await on.topic(message_timestamp_type="LogAppendTime")
        await on.topic("small", max_message_bytes="200")
        counting = Counting(on)
        assert await pipelined(on.client, [batch(), batch()]) == [(0, 0), (0, 1)]
        large = batch(value=b"x" * 300)
        assert await pipelined(on.client, [batch(), large, batch()], topics=["small"] * 3) == [
            (0, 0),
            (ErrorCode.MESSAGE_TOO_LARGE, -1),
            (0, 1),
        ]
        assert await pipelined(on.client, [batch()] * 2, topics=["nobody"] * 2) != [(0, 0), (0, 0)]
        assert counting.sizes in ([], [1])

    play(scene)


def test_r03_a_request_that_waits_for_room_is_not_overtaken_by_a_burst() -> None:
    async def scene(on: Stage) -> None:
        await on.topic()
        size = len(batch(value=b"x" * 400))
        on.parts.broker._deps.appender._gate._bytes_max = 3 * size
        datas = [idempotent(n) for n in range(40)]
        found = await pipelined(on.client, datas)
        assert found == [(0, n) for n in range(40)]

    play(scene)


def test_a_client_that_leaves_costs_nothing() -> None:
    async def scene(on: Stage) -> None:
        await on.topic()
        other = on.another()
        body = encode_request(ApiKey.PRODUCE, 9, produce_request("t", {0: batch()}))
        frame = encode_request_frame(RequestHeader(ApiKey.PRODUCE, 9, 1, "test", 0), body)
        other.transport.feed(frame * 3)
        other.transport.close()
        await asyncio.sleep(1)
        assert on.parts.broker._house.budget.used == 0
        assert not on.parts.broker._dispatcher._underway.busy
        assert await pipelined(on.client, [batch()]) == [(0, 3)]

    play(scene)


def test_an_appender_that_ends_tells_every_request() -> None:
    async def scene(on: Stage) -> None:
        await on.topic()
        appender: Appender = on.parts.broker._deps.appender
        assert isinstance(appender._policy, FlushPolicy)
        told: list[object] = []
        appender._slots = 0  # nothing is cut any more
        assert appender.offer([run for run in [await a_run(on)] if run], told.append)
        appender._abandon()
        assert [type(answer).__name__ for answer in told] == ["OutcomeUnknown"]
        assert appender._gate.held_bytes == 0

    play(scene)


async def a_run(on: Stage) -> Any:
    from frazil.kit.names import PartitionId, PartitionKey
    from frazil.log.append import AppendRun
    from frazil.records import split_batches

    data = batch()
    record = await topic_of(on)
    return AppendRun(PartitionKey(record.topic_id, PartitionId(0)), data, split_batches(data, batch_bytes_max=1 << 20))
