"""Which shard a partition belongs to, and the metadata keys of the log (docs/formats/metadata-log.md)."""

from __future__ import annotations

from typing import Final

from crc32c import crc32c

from frazil.kit.names import PartitionId, PartitionKey, TopicId

LOG_START: Final = "log/"
LOG_END: Final = "log0"
"""``[LOG_START, LOG_END)`` is the change feed: everything a reader folds."""
HEAD: Final = "log/head/"
COMMIT: Final = "log/commit/"
PARTITION: Final = "log/partition/"
SEGMENT: Final = "log/segment/"
PLAN: Final = "log/plan/"
PRODUCERS: Final = "log/producers/"
PIN: Final = "log/pin/"
LOSS: Final = "log/loss/"
CONDEMNED: Final = "log/condemned/"
HORIZON: Final = "gc/horizon"


def topic_hash(topic_id: TopicId) -> int:
    """What a topic contributes to the shard of its partitions."""
    return crc32c(topic_id)


def shard_of(topic_id: TopicId, partition: int, shards: int) -> int:
    """The shard of a partition; the same in every process for ever. One topic's partitions take consecutive shards (R04)."""
    return (topic_hash(topic_id) + partition) % shards


def head_key(shard: int) -> str:
    """Next offsets of one shard."""
    return f"{HEAD}{shard:04d}"


def producers_key(shard: int) -> str:
    """Checkpoint of one shard's producer states."""
    return f"{PRODUCERS}{shard:04d}"


def commit_key(ulid: str, chunk: int) -> str:
    """One sequencer transaction's part of one bundle."""
    return f"{COMMIT}{ulid}/{chunk:04d}"


def commit_ulid(key: str) -> str:
    """The bundle of a commit record's key."""
    return key[len(COMMIT) : len(COMMIT) + 26]


def partition_key(key: PartitionKey) -> str:
    """Log start and seal mark of one partition."""
    return f"{PARTITION}{_of(key)}"


def plan_key(key: PartitionKey) -> str:
    """The seal under way in one partition."""
    return f"{PLAN}{_of(key)}"


def segment_key(key: PartitionKey, base: int) -> str:
    """One sealed segment."""
    return f"{SEGMENT}{_of(key)}/{base:020d}"


def parse_partition(key: str, prefix: str) -> PartitionKey:
    """The partition named in a key under ``prefix``; what follows the partition number is ignored."""
    topic, partition, *_ = key[len(prefix) :].split("/")
    return PartitionKey(TopicId(bytes.fromhex(topic)), PartitionId(int(partition)))


def _of(key: PartitionKey) -> str:
    return f"{key.topic_id.hex()}/{key.partition:010d}"
