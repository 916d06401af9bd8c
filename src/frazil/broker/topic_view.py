"""Topics as handlers see them: from memory, asked anew (linearizably) before a client is told that a topic does not exist."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from frazil.broker.topic_configs import TopicPolicy
from frazil.kit.errors import RetryLater
from frazil.kit.names import TopicId
from frazil.metadata.port import MetadataStore
from frazil.metadata.topics import PREFIX, TopicRecord, Topics

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Policed:
    record: TopicRecord
    policy: TopicPolicy


class TopicView:
    """Looks topics up. Callers that miss at the same time share one refresh that starts after their call."""

    def __init__(self, topics: Topics, store: MetadataStore) -> None:
        self.topics = topics
        """For changes; look-ups go through this view."""
        self._store = store
        self._policies: dict[TopicId, _Policed] = {}
        self._lock = asyncio.Lock()
        self._begun = 0
        self._done = 0

    def get(self, name: str) -> TopicRecord | None:
        """From memory."""
        return self.topics.get(name)

    async def find(self, name: str) -> TopicRecord | None:
        """From memory, else after a linearizable refresh. Raises RetryLater."""
        record = self.topics.get(name)
        if record is None:
            await self.refresh()
            record = self.topics.get(name)
        return record

    async def find_all(self, names: list[str]) -> dict[str, TopicRecord]:
        """Those of ``names`` that exist; one refresh at most. Raises RetryLater."""
        if any(self.topics.get(name) is None for name in names):
            await self.refresh()
        found = {name: self.topics.get(name) for name in names}
        return {name: record for name, record in found.items() if record is not None}

    async def refresh(self) -> None:
        """Everything committed before this call is visible after it. Raises RetryLater."""
        ticket = self._begun
        async with self._lock:
            if self._done > ticket:
                return  # one that began after this call has succeeded
            self._begun += 1
            mine = self._begun
            await self.topics.refresh()
            self._done = mine

    def policy(self, record: TopicRecord) -> TopicPolicy:
        """The produce rules of a topic, parsed once per version of its record."""
        found = self._policies.get(record.topic_id)
        if found is None or found.record is not record:
            found = _Policed(record, TopicPolicy.of(record.configs))
            self._policies[record.topic_id] = found
        return found.policy

    async def follow(self) -> None:
        """Task: refreshes on every hint (at least each second, R20), and forgets policies of topics that are gone."""
        async for _ in self._store.watch(PREFIX):
            try:
                await self.refresh()
            except RetryLater as error:
                log.warning("topics not read: %s", error)
            for topic_id in [t for t in self._policies if self.topics.by_id(t) is None]:
                del self._policies[topic_id]
