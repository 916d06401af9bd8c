"""Metadata answers from encoded rows are byte for byte those of the generated codec, and a row is made once."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.broker.harness import Stage, play

from frazil.broker.metadata_rows import CACHE_BYTES, MetadataAnswer, encode_answer, encode_row
from frazil.wire.codec import encode_response
from frazil.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker, MetadataResponseTopic
from frazil.wire.messages.metadata import MetadataResponsePartition as Partition
from frazil.wire.messages.registry import ApiKey


def topic(number: int, partitions: int) -> MetadataResponseTopic:
    rows = [Partition(partition_index=n, leader_id=n % 3, leader_epoch=0, replica_nodes=(n,), isr_nodes=(n,)) for n in range(partitions)]
    return MetadataResponseTopic(error_code=number % 2, name=f"t{number}", topic_id=bytes([number]) * 16, partitions=rows)


@pytest.mark.parametrize("version", range(13))
@pytest.mark.parametrize(("topics", "brokers"), [(0, 0), (0, 2), (1, 0), (3, 1), (130, 3)])
def test_same_bytes_as_the_generated_codec(version: int, topics: int, brokers: int) -> None:
    made = [topic(n, n % 5) for n in range(topics)]
    live = [MetadataResponseBroker(node_id=n, host="h" * n, port=9092 + n, rack=None) for n in range(brokers)]
    whole = MetadataResponse(brokers=live, cluster_id="c", controller_id=7, topics=made, throttle_time_ms=5)
    split = MetadataAnswer(MetadataResponse(brokers=live, cluster_id="c", controller_id=7, throttle_time_ms=5), [])
    split.rows = [encode_row(version, one) for one in made]
    assert b"".join(encode_answer(version, split)) == encode_response(ApiKey.METADATA, version, whole)


def test_a_row_is_made_once_for_each_version_of_its_topic() -> None:
    async def scene(on: Stage) -> None:
        record = await on.topic("t", 3)
        rows = on.parts.broker._dispatcher._services.metadata_rows
        first = rows.of(9, record)
        assert rows.of(9, record) is first
        assert rows.of(12, record) is not first
        await on.parts.broker._topics.topics.set_partitions("t", 5)
        changed = on.parts.broker._topics.get("t")
        assert changed is not None and changed is not record
        assert rows.of(9, changed) != first
        answer: Any = await on.client.call(ApiKey.METADATA, 9, MetadataRequest(topics=None))
        assert len(answer.topics[0].partitions) == 5

    play(scene)


def test_rows_are_bounded() -> None:
    async def scene(on: Stage) -> None:
        record = await on.topic("t", 10_000)
        rows = on.parts.broker._dispatcher._services.metadata_rows
        for version in range(13):
            for _ in range(3):
                rows.of(version, record)
        assert 0 < rows._held_bytes <= CACHE_BYTES
        assert rows._held_bytes == sum(len(row) + 300 for _, _, row in rows._rows.values())

    play(scene)
