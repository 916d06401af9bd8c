"""Segment objects below the log start that nothing refers to: a slow or repeated PUT put them back after retention had removed them.

Retention stops at the base of a seal under way, so nobody is still to refer to such an object. Topics that this cluster does not
know are left alone: the bucket may hold segments of other writers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from frazil.log.partitions import PartitionLog
from frazil.log.upkeep import UpkeepDeps, UpkeepPolicy
from frazil.metadata.topics import TopicRecord
from frazil.segments.keys import parse_segment_key

_DELETE_KEYS_MAX: Final = 1000
_SUFFIXES: Final = (".kfs", ".index", ".fzx")


class StraySweeper:
    """Any number of processes may sweep at the same time."""

    def __init__(self, deps: UpkeepDeps, policy: UpkeepPolicy) -> None:
        self._deps = deps
        self._policy = policy
        self._next_at_ms = 0.0

    async def pass_once(self, *, now: bool = False) -> int:
        """Every ``orphan_interval_ms`` or when told: deletes strays of all topics; how many objects. Raises RetryLater."""
        at_ms = self._deps.clock.monotonic_ms()
        if not now and at_ms < self._next_at_ms:
            return 0
        self._next_at_ms = at_ms + self._policy.orphan_interval_ms
        await self._deps.index.refresh()
        return sum([await self._sweep(topic) for topic in self._deps.topics.all()])

    async def _sweep(self, topic: TopicRecord) -> int:
        logs = self._deps.index.state.logs.get(topic.topic_id, {})
        if not any(log.start for log in logs.values()):
            return 0  # nothing was ever removed here, so nothing can be left behind
        component = topic.name if topic.incarnation == 1 else f"{topic.name}!{topic.incarnation}"
        prefix = f"{self._deps.namespace}/{component}/"
        strays = [info.key async for info in self._deps.objects.list(prefix) if _is_stray(info.key, logs)]
        for at in range(0, len(strays), _DELETE_KEYS_MAX):
            await self._deps.objects.delete(strays[at : at + _DELETE_KEYS_MAX])
        return len(strays)


def _is_stray(key: str, logs: Mapping[int, PartitionLog]) -> bool:
    """Below the log start and in no segment record."""
    stem = next((key.removesuffix(suffix) for suffix in _SUFFIXES if key.endswith(suffix)), None)
    name = parse_segment_key(f"{stem}.kfs") if stem is not None else None
    log = logs.get(name.partition) if name is not None else None
    return name is not None and log is not None and name.base_offset < log.start and name.base_offset not in log.segment_bases
