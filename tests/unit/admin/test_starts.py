"""Where consuming begins, asked of a broker that is a table of answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import pytest

from frazil.admin import kafka as kafka_client
from frazil.admin.connection import BrokerConnection
from frazil.admin.port import ConsumePlan, IncomingRecord
from frazil.admin.records_flow import consume
from frazil.kit.errors import Refused
from frazil.records import build_batch, patch
from frazil.records.building import Record
from frazil.wire import Message
from frazil.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from frazil.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from frazil.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from frazil.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from frazil.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)


@dataclass
class Broker:
    """Topic ``t`` with one record per offset in each range; a group's commits."""

    ranges: Mapping[int, tuple[int, int]]
    committed: Mapping[int, int]
    commits: list[dict[int, int]]
    asked: list[Message]

    async def ask(self, api_key: int, version: int, request: Message, want: type[Message]) -> Message:
        self.asked.append(request)
        match request:
            case ListOffsetsRequest():
                found = [
                    ListOffsetsPartitionResponse(
                        partition_index=p.partition_index, offset=self.ranges[p.partition_index][0 if p.timestamp == -2 else 1]
                    )
                    for p in request.topics[0].partitions
                ]
                return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=found)])
            case OffsetFetchRequest():
                rows = [OffsetFetchResponsePartition(partition_index=p, committed_offset=o) for p, o in self.committed.items()]
                return OffsetFetchResponse(topics=[OffsetFetchResponseTopic(name="t", partitions=rows)])
            case OffsetCommitRequest():
                self.commits.append({p.partition_index: p.committed_offset for p in request.topics[0].partitions})
                return OffsetCommitResponse()
            case FetchRequest():
                data = [self._records(p.partition, p.fetch_offset) for p in request.topics[0].partitions]
                return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=data)])
            case CreatePartitionsRequest():
                return CreatePartitionsResponse()
        raise AssertionError(request)

    def _records(self, partition: int, offset: int) -> PartitionData:
        rows = [Record(key=None, value=b"%d" % n, timestamp_ms=1) for n in range(offset, self.ranges[partition][1])]
        return PartitionData(partition_index=partition, records=bytes(patch(build_batch(rows), offset)) if rows else None)


def broker(ranges: Mapping[int, tuple[int, int]], committed: Mapping[int, int] | None = None) -> Broker:
    return Broker(ranges=ranges, committed=committed or {}, commits=[], asked=[])


def consumed(it: Broker, plan: ConsumePlan) -> list[tuple[int, int]]:
    async def work() -> list[IncomingRecord]:
        return [record async for record in consume(cast(BrokerConnection, it), plan, sorted(it.ranges))]

    return [(record.partition, record.offset) for record in asyncio.run(work())]


def test_earliest_begins_at_the_log_start_and_latest_at_the_end() -> None:
    assert consumed(broker({0: (2, 4)}), ConsumePlan(topic="t")) == [(0, 2), (0, 3)]
    assert consumed(broker({0: (2, 4)}), ConsumePlan(topic="t", start="latest")) == []


def test_an_offset_that_only_one_partition_holds_is_good() -> None:
    assert consumed(broker({0: (0, 2), 1: (5, 9)}), ConsumePlan(topic="t", start="7")) == [(1, 7), (1, 8)]


@pytest.mark.parametrize("start", ["1", "5", "99"])
def test_an_offset_that_no_partition_holds_is_refused(start: str) -> None:
    with pytest.raises(Refused, match=f"no partition holds offset {start}: t/0 begins at 2 and ends before 4"):
        consumed(broker({0: (2, 4)}), ConsumePlan(topic="t", start=start))


def test_a_start_that_is_none_is_refused() -> None:
    with pytest.raises(Refused, match="want earliest, latest or an offset"):
        consumed(broker({0: (2, 4)}), ConsumePlan(topic="t", start="²"))


def test_a_group_goes_on_where_it_committed_and_commits_what_was_handed_out() -> None:
    it = broker({0: (0, 4)}, committed={0: 1})
    assert consumed(it, ConsumePlan(topic="t", group="g", records_max=2)) == [(0, 1), (0, 2)]
    assert it.commits[-1] == {0: 3}


def test_a_commit_that_retention_has_passed_does_not_stop_the_group() -> None:
    assert consumed(broker({0: (5, 7)}, committed={0: 1}), ConsumePlan(topic="t", group="g")) == [(0, 5), (0, 6)]


def test_new_partitions_are_asked_for_without_an_assignment(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty assignment is not none: brokers refuse it (KIP-195)."""
    it = broker({})
    client = kafka_client.KafkaClient("127.0.0.1", 1)
    monkeypatch.setattr(client, "_connection", it)
    asyncio.run(client.add_partitions("t", 5))
    request = it.asked[0]
    assert isinstance(request, CreatePartitionsRequest)
    assert (request.topics[0].count, request.topics[0].assignments) == (5, None)
