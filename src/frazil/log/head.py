"""The head record of a shard: next offset of each of its partitions. Written by appends and by removal of topic data only (R04).

Little-endian, packed by column:

| size | field     | note                                                                  |
|------|-----------|-----------------------------------------------------------------------|
| 1    | format    | 1                                                                     |
| 3    | zero      |                                                                       |
| 4    | removals  | how often topic data was removed; a step means partitions are gone    |
| 8    | version   | dense: number of commits to the shard so far (R20)                    |
| 4    | topics    | count; then for each topic:                                           |
| 16   | topic id  |                                                                       |
| 4    | n         | partitions of the topic in this shard                                 |
| 4·n  | partition | i32 each                                                              |
| 8·n  | next      | i64 each: the offset the next record gets                             |
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from frazil.kit.errors import Corrupt
from frazil.kit.names import TopicId

FORMAT: Final = 1
TOPIC_BYTES: Final = 20
PARTITION_BYTES: Final = 12
_FIXED: Final = struct.Struct("<B3xIQI")
_TOPIC: Final = struct.Struct("<16sI")
FIXED_BYTES: Final = _FIXED.size

Nexts = Mapping[TopicId, Mapping[int, int]]
"""Next offset by topic and partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadMark:
    """The front of a head: enough to see whether the rest is news."""

    version: int
    removals: int


def encode_head(mark: HeadMark, nexts: Nexts) -> bytes:
    """The stored form. Topics without partitions are left out."""
    topics = [(topic, partitions) for topic, partitions in nexts.items() if partitions]
    parts = [_FIXED.pack(FORMAT, mark.removals, mark.version, len(topics))]
    for topic, partitions in topics:
        count = len(partitions)
        parts.append(_TOPIC.pack(topic, count))
        parts.append(struct.pack(f"<{count}i{count}q", *partitions, *partitions.values()))
    return b"".join(parts)


def head_bytes(nexts: Nexts) -> int:
    """Size of the stored form, without building it."""
    return FIXED_BYTES + sum(TOPIC_BYTES + PARTITION_BYTES * len(partitions) for partitions in nexts.values())


def read_mark(value: bytes, *, where: str) -> HeadMark:
    """The front only. Raises Corrupt for another format or a short value."""
    if len(value) < FIXED_BYTES or value[0] != FORMAT:
        raise Corrupt(f"not a shard head of format {FORMAT}", where=where)
    _, removals, version, _ = _FIXED.unpack_from(value)
    return HeadMark(version=version, removals=removals)


def decode_head(value: bytes, *, where: str) -> tuple[HeadMark, dict[TopicId, dict[int, int]]]:
    """All of it. Raises Corrupt when the value is not what it claims."""
    mark = read_mark(value, where=where)
    _, _, _, topics = _FIXED.unpack_from(value)
    position = FIXED_BYTES
    nexts: dict[TopicId, dict[int, int]] = {}
    try:
        for _ in range(topics):
            topic, count = _TOPIC.unpack_from(value, position)
            columns = struct.unpack_from(f"<{count}i{count}q", value, position + TOPIC_BYTES)
            nexts[TopicId(topic)] = dict(zip(columns[:count], columns[count:], strict=True))
            position += TOPIC_BYTES + PARTITION_BYTES * count
    except struct.error as error:
        raise Corrupt(f"cut at byte {position}: {error}", where=where) from error
    if position != len(value):
        raise Corrupt(f"{len(value) - position} bytes follow the last topic", where=where)
    return mark, nexts
