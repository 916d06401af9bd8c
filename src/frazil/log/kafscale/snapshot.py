"""``/kafscale/metadata/snapshot`` and ``…/next_offset``: topics, their partitions, and how far each log was acknowledged. Pure.

The snapshot was written with two sets of names: v0.9 to v1.5 say ``Name`` and ``PartitionIndex``, v1.6 says ``Topic`` and ``Partition``; a
writer for both worlds has all of them. Names match whatever their case, as Go reads them. What makes no sense is left out: the bucket is
what counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from frazil.kit.errors import Corrupt
from frazil.kit.names import is_topic_name
from frazil.metadata.topics import PARTITIONS_MAX

SNAPSHOT_KEY: Final = "/kafscale/metadata/snapshot"
TOPICS_PREFIX: Final = "/kafscale/topics/"
_TOPIC_NAMES: Final = ("topic", "name")
_NUMBER_NAMES: Final = ("partition", "partitionindex")
_NEXT: Final = re.compile(r"/kafscale/topics/([A-Za-z0-9._-]{1,249})/partitions/(0|[1-9][0-9]{0,8})/next_offset", re.ASCII)
_OFFSET: Final = re.compile(rb"\s*([0-9]{0,19})\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """``partitions``: how many each topic has. ``ends``: (topic, partition) → the offset after the last acknowledged record."""

    partitions: Mapping[str, int]
    ends: Mapping[tuple[str, int], int]


def parse_snapshot(value: bytes) -> dict[str, int]:
    """Topics with their numbers of partitions. Raises Corrupt when it is no JSON object."""
    try:
        found = json.loads(value) if value.count(b"[") + value.count(b"{") < 10_000_000 else None
    except (ValueError, RecursionError) as error:
        raise Corrupt(f"not JSON: {error}", where=SNAPSHOT_KEY) from error
    if not isinstance(found, dict):
        raise Corrupt("not a JSON object", where=SNAPSHOT_KEY)
    topics: dict[str, int] = {}
    for topic in _list(found, ("topics",)):
        name = _first(topic, _TOPIC_NAMES, str)
        if name is None or not is_topic_name(name):
            continue
        numbers = [_first(partition, _NUMBER_NAMES, int) for partition in _list(topic, ("partitions",))]
        known = [number for number in numbers if number is not None and 0 <= number < PARTITIONS_MAX]
        topics[name] = max(topics.get(name, 0), max(known, default=-1) + 1)
    return topics


def parse_ends(entries: Iterable[tuple[str, bytes]]) -> dict[tuple[str, int], int]:
    """The ``next_offset`` keys among some entries; blank is 0 (kafscale-format), what is no number is left out."""
    ends: dict[tuple[str, int], int] = {}
    for key, value in entries:
        place, number = _NEXT.fullmatch(key), _OFFSET.fullmatch(value)
        if place is not None and number is not None and int(place[2]) < PARTITIONS_MAX and int(number[1] or 0) < 2**63:
            ends[place[1], int(place[2])] = int(number[1] or 0)
    return ends


def _list(value: Any, names: tuple[str, ...]) -> list[Any]:  # noqa: ANN401 - JSON
    return _first(value, names, list) or []


def _first(value: Any, names: tuple[str, ...], kind: type) -> Any:  # noqa: ANN401 - JSON
    """The first member of this kind under one of ``names``; null and other kinds are as if it were not there."""
    if not isinstance(value, dict):
        return None
    for name in names:
        for key, found in value.items():
            if isinstance(key, str) and key.lower() == name and isinstance(found, kind) and not isinstance(found, bool):
                return found
    return None
