"""Removing what a deleted topic leaves: heads, records, objects. Each step may be repeated; the note of the deletion goes last.

Metadata goes at once: heads first, so that nothing can be appended or read, then the records. Commit records and bundles
follow by collection, since no partition needs them any more. Objects go a grace later, and again a grace after that: a sealer
that was under way may have stored one more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from frazil.kit.names import TopicId
from frazil.log.head import HeadMark, encode_head
from frazil.log.shards import PARTITION, PLAN, SEGMENT, head_key
from frazil.log.state import Shard
from frazil.log.upkeep import UpkeepDeps, UpkeepPolicy
from frazil.metadata.port import Check, Moved, RangeDelete, Write
from frazil.metadata.topics import DeletedTopic, forget_deleted_topic, list_deleted_topics

DELETE_KEYS_MAX: Final = 1000


@dataclass(slots=True)
class RemoveReport:
    """What a pass did."""

    heads: int = 0
    objects: int = 0
    finished: int = 0


class Remover:
    """Any number of processes may do this at the same time."""

    def __init__(self, deps: UpkeepDeps, policy: UpkeepPolicy) -> None:
        self._deps = deps
        self._policy = policy

    async def pass_once(self) -> RemoveReport:
        """One step for every deleted topic. Raises RetryLater."""
        report = RemoveReport()
        for gone in await list_deleted_topics(self._deps.store):
            await self._remove_metadata(gone.topic_id, report)
            age_ms = self._deps.clock.now_ms() - gone.deleted_ms
            if age_ms >= self._policy.grace_ms:
                found = await self._remove_objects(gone)
                report.objects += found
                if not found and age_ms >= 2 * self._policy.grace_ms:
                    await forget_deleted_topic(self._deps.store, gone.topic_id)
                    report.finished += 1
        return report

    async def _remove_metadata(self, topic_id: TopicId, report: RemoveReport) -> None:
        while True:
            await self._deps.index.refresh()
            holding = [shard for shard in self._deps.index.state.shards if topic_id in shard.nexts]
            if not holding:
                break
            for shard in holding:
                report.heads += await self._remove_from(shard, topic_id)
        hexed = topic_id.hex()
        ranges = [RangeDelete(start=f"{prefix}{hexed}/", end=f"{prefix}{hexed}0") for prefix in (PARTITION, SEGMENT, PLAN)]
        # Not only when heads went in this pass: an earlier one may have ended between the two steps.
        if any([(await self._deps.store.range(gone.start, gone.end)).entries for gone in ranges]):
            await self._deps.store.commit([], [], ranges)

    async def _remove_from(self, shard: Shard, topic_id: TopicId) -> bool:
        """The head without the topic, one removal later; its dense version stays: no commit took place."""
        mark = HeadMark(version=shard.version, removals=shard.removals + 1)
        value = encode_head(mark, {topic: nexts for topic, nexts in shard.nexts.items() if topic != topic_id})
        key = head_key(shard.number)
        return not isinstance(
            await self._deps.store.commit([Check(key=key, version=shard.entry_version)], [Write(key=key, value=value)]), Moved
        )

    async def _remove_objects(self, gone: DeletedTopic) -> int:
        """Everything under the incarnation's own prefix, which no other topic shares (R05)."""
        component = gone.name if gone.incarnation == 1 else f"{gone.name}!{gone.incarnation}"
        keys = [info.key async for info in self._deps.objects.list(f"{self._deps.namespace}/{component}/")]
        for at in range(0, len(keys), DELETE_KEYS_MAX):
            await self._deps.objects.delete(keys[at : at + DELETE_KEYS_MAX])
        return len(keys)
