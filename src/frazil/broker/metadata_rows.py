"""The part of a Metadata answer that tells of one topic, encoded once for each version of its record and of the broker list.

Encoding costs 1.8 µs per partition, so that a client that asks for all of 10,000 partitions would hold up everybody for 18 ms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, NoReturn, cast

from frazil.broker.cluster import ClusterView, LiveBrokers
from frazil.metadata.topics import TopicRecord
from frazil.wire.codec import encode_parts, layouts_of
from frazil.wire.layout import Blob
from frazil.wire.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from frazil.wire.messages.registry import ApiKey

CACHE_BYTES: Final = 16 * 1024 * 1024
_ENTRY_BYTES: Final = 300
"""What an entry takes beside its row."""


class _Elsewhere(Sequence[Any]):
    """As many topics as it says, none of which the generated writer gets to see: their rows are put between its parts."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __getitem__(self, at: object) -> NoReturn:
        raise IndexError(at)


@dataclass(slots=True)
class MetadataAnswer:
    """``response`` without its topics, and the encoded rows of these."""

    response: MetadataResponse
    rows: list[bytes]


class MetadataRows:
    """The cache. A row is good as long as record and broker list are the very values it was made of."""

    def __init__(self, brokers: LiveBrokers) -> None:
        self._brokers = brokers
        self._rows: dict[tuple[int, str], tuple[TopicRecord, ClusterView, bytes]] = {}
        self._held_bytes = 0

    def of(self, version: int, record: TopicRecord) -> bytes:
        """The row of a topic. Raises RetryLater before the first look at the list of brokers."""
        view = self._brokers.view
        found = self._rows.get((version, record.name))
        if found is not None and found[0] is record and found[1] is view:
            return found[2]
        row = encode_row(version, self._topic(record))
        self._held_bytes += len(row) + _ENTRY_BYTES - (len(found[2]) + _ENTRY_BYTES if found is not None else 0)
        if self._held_bytes > CACHE_BYTES:
            self._rows.clear()
            self._held_bytes = len(row) + _ENTRY_BYTES
        self._rows[version, record.name] = (record, view, row)
        return row

    def _topic(self, record: TopicRecord) -> MetadataResponseTopic:
        leaders = self._brokers.leaders(record.topic_id, record.partitions)
        return MetadataResponseTopic(
            name=record.name,
            topic_id=record.topic_id,
            partitions=[
                MetadataResponsePartition(
                    partition_index=partition, leader_id=leader, leader_epoch=0, replica_nodes=(leader,), isr_nodes=(leader,)
                )
                for partition, leader in enumerate(leaders)
            ],
        )


def encode_row(version: int, topic: MetadataResponseTopic) -> bytes:
    """One topic as it stands in an answer of this version."""
    parts = _parts(version, MetadataResponse(topics=[topic]))
    at, after = _place(version)
    return b"".join(parts[at : len(parts) - after])


def encode_answer(version: int, answer: MetadataAnswer) -> Sequence[Blob]:
    """The whole body."""
    answer.response.topics = cast(Any, _Elsewhere(len(answer.rows)))
    parts = _parts(version, answer.response)
    at = len(parts) - _place(version)[1]
    return [b"".join((*parts[:at], *answer.rows, *parts[at:]))]


@cache
def _place(version: int) -> tuple[int, int]:
    """How many parts of an answer without brokers stand before the rows of its topics, and how many behind them in any answer.

    The last part before them is the only one that changes with their number.
    """
    none, one = (_parts(version, MetadataResponse(topics=cast(Any, _Elsewhere(count)))) for count in (0, 1))
    at = next(number for number, (left, right) in enumerate(zip(none, one, strict=True)) if left != right)
    return at + 1, len(none) - at - 1


def _parts(version: int, response: MetadataResponse) -> list[Blob]:
    return encode_parts(layouts_of(ApiKey.METADATA)[1], version, response)
