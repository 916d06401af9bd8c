"""Offsets of a group set back and forth, by a time too, against a broker; a foreign client goes on where they say."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import confluent_kafka
import pytest
from tests.integration.rig import BrokerThread, World, settings_of

from frazil.admin.kafka import KafkaClient
from frazil.admin.port import ConsumePlan, OutgoingRecord, ResetRow, ResetWish
from frazil.kit.errors import Missing, Refused

pytestmark = [pytest.mark.server]
T = TypeVar("T")
FIRST_MS = 1_700_000_000_000


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    running = BrokerThread(World(), settings_of(default_partitions=2)).start()
    producer = confluent_kafka.Producer({"bootstrap.servers": running.address})
    for at in range(20):
        producer.produce("t", str(at).encode(), partition=at % 2, timestamp=FIRST_MS + at * 1_000)
    assert producer.flush(20) == 0
    yield running
    running.stop()


def ask(broker: BrokerThread, work: Callable[[KafkaClient], Awaitable[T]]) -> T:
    async def main() -> T:
        client = KafkaClient("127.0.0.1", broker.port)
        try:
            return await work(client)
        finally:
            await client.close()

    return asyncio.run(main())


async def reset(client: KafkaClient, wish: ResetWish) -> list[tuple[int, int | None, int]]:
    rows = await client.plan_reset("g", wish)
    await client.reset("g", rows)
    return [(row.partition, row.committed_offset, row.new_offset) for row in rows]


def test_reset_to_everything_it_can_be_reset_to(broker: BrokerThread) -> None:
    async def work(client: KafkaClient) -> None:
        with pytest.raises(Missing, match="has no offsets"):
            await client.plan_reset("g", ResetWish())
        assert await reset(client, ResetWish(topics=("t",), to="latest")) == [(0, None, 10), (1, None, 10)]
        assert await reset(client, ResetWish(to="earliest")) == [(0, 10, 0), (1, 10, 0)]
        assert await reset(client, ResetWish(to="7")) == [(0, 0, 7), (1, 0, 7)]
        # Record 11 is the first in partition 1 of 11 s or later, record 12 the first in partition 0.
        assert await reset(client, ResetWish(to_ms=FIRST_MS + 11_000)) == [(0, 7, 6), (1, 7, 5)]
        assert await reset(client, ResetWish(to_ms=FIRST_MS + 3_600_000)) == [(0, 6, 10), (1, 5, 10)]
        assert [row.lag for row in (await client.describe_group("g")).offsets] == [0, 0]
        with pytest.raises(Refused, match="no partition holds offset 11"):
            await client.plan_reset("g", ResetWish(to="11"))
        with pytest.raises(Refused, match="want earliest, latest or an offset"):
            await client.plan_reset("g", ResetWish(to="-1"))
        with pytest.raises(Missing, match="no topic 'nowhere'"):
            await client.plan_reset("g", ResetWish(topics=("nowhere",)))

    ask(broker, work)


def test_a_client_goes_on_where_it_was_reset_to_and_its_group_cannot_be_reset_meanwhile(broker: BrokerThread) -> None:
    rows = (
        ResetRow(topic="t", partition=0, committed_offset=None, new_offset=8),
        ResetRow(topic="t", partition=1, committed_offset=None, new_offset=9),
    )
    ask(broker, lambda client: client.reset("g", rows))
    settings = {"bootstrap.servers": broker.address, "group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = confluent_kafka.Consumer(settings)
    consumer.subscribe(["t"])
    got = {message.value() for message in consumer.consume(3, timeout=30)}
    assert got == {b"16", b"18", b"19"}
    with pytest.raises(Refused, match=r"has 1 member\(s\); stop them first"):
        ask(broker, lambda client: client.plan_reset("g", ResetWish(topics=("t",))))
    consumer.close()


def test_consume_from_a_time_and_headers_there_and_back(broker: BrokerThread) -> None:
    async def work(client: KafkaClient) -> None:
        found = [record.value async for record in client.consume(ConsumePlan(topic="t", start_ms=FIRST_MS + 16_500))]
        assert sorted(found, key=lambda value: int(value or b"")) == [b"17", b"18", b"19"]
        headers = (("a", b"1"), ("a", None), ("ü", b""))
        await client.produce("h", [OutgoingRecord(key=None, value=b"v", headers=headers)], codec="none")
        assert [record.headers async for record in client.consume(ConsumePlan(topic="h"))] == [headers]

    ask(broker, work)
