"""Topics of a run and where their partitions are led: unlike the other verbs, a load also goes to clusters with several brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from frazil.admin.bench.pipe import Pipe
from frazil.admin.connection import check
from frazil.kit.errors import Bug, RetryLater
from frazil.wire import ErrorCode, Message
from frazil.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from frazil.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from frazil.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopic
from frazil.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from frazil.wire.messages.registry import ApiKey

M = TypeVar("M", bound=Message)
Spot = tuple[str, int]
"""Topic and partition."""
Address = tuple[str, int]
_LEADERS_S = 15.0


async def ask(pipe: Pipe, api_key: int, version: int, request: Message, want: type[M]) -> M:
    """One request and its answer."""
    answer = await pipe.send(api_key, version, request)
    if not isinstance(answer, want):
        raise Bug(f"answer to {api_key} is {type(answer).__name__}")
    return answer


@dataclass(slots=True)
class Cluster:
    """The topics of a run. ``made``: those it created itself."""

    control: Pipe
    leaders: dict[Spot, Address] = field(default_factory=dict)
    made: list[str] = field(default_factory=list)

    async def prepare(self, topics: Sequence[str], partitions: int) -> None:
        """Makes missing topics and learns every partition's leader. Raises Refused, RetryLater."""
        wanted = [CreatableTopic(name=name, num_partitions=partitions, replication_factor=-1) for name in topics]
        request = CreateTopicsRequest(topics=wanted, timeout_ms=30_000)
        answer = await ask(self.control, ApiKey.CREATE_TOPICS, 7, request, CreateTopicsResponse)
        for topic in answer.topics:
            if topic.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
                check(topic.error_code, f"topic {topic.name}", topic.error_message)
                self.made.append(topic.name)
        loop = asyncio.get_running_loop()
        give_up = loop.time() + _LEADERS_S
        while not await self._learn(topics):
            if loop.time() > give_up:
                raise RetryLater(f"not every partition of {', '.join(topics)} has a leader")
            await asyncio.sleep(0.2)

    async def _learn(self, topics: Sequence[str]) -> bool:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in topics], allow_auto_topic_creation=False)
        answer = await ask(self.control, ApiKey.METADATA, 12, request, MetadataResponse)
        addresses = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        self.leaders = {
            (topic.name or "", partition.partition_index): addresses[partition.leader_id]
            for topic in answer.topics
            for partition in topic.partitions
            if partition.leader_id in addresses
        }
        whole = sum(max(1, len(topic.partitions)) for topic in answer.topics)
        return len(self.leaders) == whole and not any(topic.error_code for topic in answer.topics)

    async def remove_made(self) -> None:
        """Deletes the topics that this run made."""
        if self.made:
            request = DeleteTopicsRequest(topic_names=self.made, timeout_ms=30_000)
            await ask(self.control, ApiKey.DELETE_TOPICS, 5, request, DeleteTopicsResponse)
            self.made = []


class Pipes:
    """A connection to each leader, of one producer or consumer."""

    def __init__(self, connect: Callable[[str, int], Pipe]) -> None:
        self._connect = connect
        self._open: dict[Address, Pipe] = {}

    async def open(self, addresses: Iterable[Address]) -> None:
        """Connects to each address once."""
        for address in sorted(set(addresses)):
            pipe = self._connect(*address)
            await pipe.open()
            self._open[address] = pipe

    def __getitem__(self, address: Address) -> Pipe:
        return self._open[address]

    async def close(self) -> None:
        """Closes all."""
        for pipe in self._open.values():
            await pipe.close()


async def offsets(pipes: Pipes, leaders: Mapping[Spot, Address], timestamp: int) -> dict[Spot, int]:
    """The offset of each partition at ``timestamp`` (−2 earliest, −1 latest), asked of its leader."""
    found: dict[Spot, int] = {}
    for address in sorted(set(leaders.values())):
        by_topic: dict[str, list[ListOffsetsPartition]] = {}
        for (topic, partition), leader in leaders.items():
            if leader == address:
                by_topic.setdefault(topic, []).append(ListOffsetsPartition(partition_index=partition, timestamp=timestamp))
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=rows) for name, rows in by_topic.items()]
        )
        answer = await ask(pipes[address], ApiKey.LIST_OFFSETS, 7, request, ListOffsetsResponse)
        for found_topic in answer.topics:
            for row in found_topic.partitions:
                check(row.error_code, f"offsets of {found_topic.name}/{row.partition_index}")
                found[found_topic.name, row.partition_index] = row.offset
    return found
