"""The brokers of another cluster: who leads which partition, and a connection to each that is asked."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from frazil.kit.chance import Chance
from frazil.kit.errors import Refused, RetryLater
from frazil.kit.names import TopicId
from frazil.log.kafka.connection import KafkaAddress, KafkaConnection, KafkaSecurity
from frazil.wire import Message
from frazil.wire.errors import ErrorCode
from frazil.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseTopic
from frazil.wire.messages.registry import ApiKey

M = TypeVar("M", bound=Message)

_METADATA: Final = (4, 12)
"""From 4 on a request can leave topics alone that do not exist; from 10 on topics have ids."""
_ABSENT: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaTopic:
    """One topic: its id, and the leader of each partition (−1: none)."""

    name: str
    topic_id: TopicId
    has_id: bool
    """False: the brokers are older than Kafka 2.8, and ``topic_id`` is made from the name; a topic made anew looks the same."""
    leaders: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaMetadata:
    """What brokers say of the cluster and some topics; those that do not exist are left out."""

    cluster_id: str
    topics: Mapping[str, KafkaTopic]


class KafkaCluster:
    """Asks brokers. ``bootstrap``: those that are asked first."""

    def __init__(self, bootstrap: Sequence[KafkaAddress], security: KafkaSecurity, chance: Chance, *, client_id: str) -> None:
        self._bootstrap, self._security, self._chance, self._client_id = tuple(bootstrap), security, chance, client_id
        self._connections: dict[KafkaAddress, KafkaConnection] = {}
        self._addresses: dict[int, KafkaAddress] = {}

    async def metadata(self, topics: Sequence[str]) -> KafkaMetadata:
        """Asks any broker that answers. Raises Refused for a topic that may not be seen, RetryLater when no broker answers."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in topics], allow_auto_topic_creation=False)
        troubles: list[str] = []
        for address in dict.fromkeys((*self._addresses.values(), *self._bootstrap)):
            connection = self._at(address)
            try:
                version = await connection.version(ApiKey.METADATA, _METADATA[1])
                if version < _METADATA[0]:
                    raise Refused(f"Kafka broker {address} is too old; want Kafka 1.0 or later")
                return self._learn(await connection.ask(ApiKey.METADATA, version, request, MetadataResponse), address)
            except RetryLater as error:
                troubles.append(str(error))
        raise RetryLater("; ".join(troubles)[:500])

    async def ask(self, node: int, api: ApiKey, version: int, request: Message, want: type[M]) -> M:
        """One broker's answer. Raises RetryLater, Refused, Corrupt."""
        return await self._of(node).ask(api, version, request, want)

    async def version(self, node: int, api: ApiKey, most: int) -> int:
        """See ``KafkaConnection.version``."""
        return await self._of(node).version(api, most)

    async def close(self) -> None:
        """Closes all connections."""
        for connection in self._connections.values():
            await connection.close()

    def _learn(self, answer: MetadataResponse, address: KafkaAddress) -> KafkaMetadata:
        self._addresses = {broker.node_id: KafkaAddress(broker.host, broker.port) for broker in answer.brokers}
        if not answer.brokers:
            raise RetryLater(f"Kafka broker {address} knows no brokers yet")
        topics = (_topic(topic) for topic in answer.topics if topic.error_code not in _ABSENT)
        return KafkaMetadata(cluster_id=answer.cluster_id or "", topics={topic.name: topic for topic in topics})

    def _of(self, node: int) -> KafkaConnection:
        address = self._addresses.get(node)
        if address is None:
            raise RetryLater(f"Kafka broker {node} is not known at the moment")
        return self._at(address)

    def _at(self, address: KafkaAddress) -> KafkaConnection:
        connection = self._connections.get(address)
        if connection is None:
            connection = KafkaConnection(address, self._security, self._chance, client_id=self._client_id)
            self._connections[address] = connection
        return connection


def parse_bootstrap(text: str) -> tuple[KafkaAddress, ...]:
    """``host:port,host:port``; an IPv6 address in brackets. Raises Refused."""
    found = []
    for part in text.split(","):
        host, _, port = part.strip().rpartition(":")
        if not host or not port.isascii() or not port.isdecimal() or not 0 < int(port) < 65_536:
            raise Refused(f"bootstrap {part[:100]!r}: want HOST:PORT, several with commas between them")
        found.append(KafkaAddress(host.removeprefix("[").removesuffix("]"), int(port)))
    return tuple(found)


def check_answer(code: int, about: str) -> None:
    """Raises Refused for what an administrator has to change, RetryLater for any other error code."""
    if not code:
        return
    try:
        name = ErrorCode(code).name
    except ValueError:
        name = f"error {code}"
    if code in (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
        raise Refused(f"{about}: not allowed ({name}); landing needs the ACLs Describe and Read on the topic, and no group")
    raise RetryLater(f"{about}: {name}")


def _topic(topic: MetadataResponseTopic) -> KafkaTopic:
    name = topic.name or ""
    check_answer(topic.error_code, f"Kafka topic {name}")
    numbers = sorted(partition.partition_index for partition in topic.partitions)
    if numbers != list(range(len(numbers))):
        raise RetryLater(f"Kafka topic {name}: brokers name partitions {numbers[:20]}")
    leaders = {partition.partition_index: partition.leader_id for partition in topic.partitions}
    has_id = any(topic.topic_id)
    topic_id = bytes(topic.topic_id) if has_id else hashlib.sha256(f"kafka topic {name}".encode()).digest()[:16]
    return KafkaTopic(name=name, topic_id=TopicId(topic_id), has_id=has_id, leaders=tuple(leaders[number] for number in numbers))
