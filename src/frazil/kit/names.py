"""Names and numbers that every room shares, as distinct types."""

from __future__ import annotations

import re
from typing import NamedTuple, NewType

Offset = NewType("Offset", int)
"""A record's position in one partition (int64 ≥ 0)."""
PartitionId = NewType("PartitionId", int)
"""Partition number inside a topic (int32 ≥ 0)."""
TopicId = NewType("TopicId", bytes)
"""16 bytes; one per topic incarnation, never reused."""
TopicName = NewType("TopicName", str)
ProducerId = NewType("ProducerId", int)
BrokerId = NewType("BrokerId", int)
TimestampMs = NewType("TimestampMs", int)
"""Unix time in milliseconds."""

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


class PartitionKey(NamedTuple):
    """One partition of one topic incarnation. The only key for per-partition state, looked up so often that its hash is C's."""

    topic_id: TopicId
    partition: PartitionId

    def __str__(self) -> str:
        return f"{self.topic_id.hex()}/{self.partition}"


def is_topic_name(name: str) -> bool:
    """True when ``name`` is a legal Kafka topic name (1-249 of ``[A-Za-z0-9._-]``, not ``.`` or ``..``)."""
    return _TOPIC.fullmatch(name) is not None and name not in (".", "..")
