"""Topics as handlers see them: from memory, asked anew (linearizably) before a client is told that a topic does not exist."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from frazil.broker.topic_configs import TopicPolicy
from frazil.kit.errors import RetryLater
from frazil.metadata.port import MetadataStore
from frazil.metadata.topics import PREFIX, TopicRecord, Topics

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KnownTopic:
    """A topic with its produce rules, parsed once per version of its record."""

    record: TopicRecord
    policy: TopicPolicy


class TopicView:
    """Looks topics up. Callers that miss at the same time share one refresh that starts after their call."""

    def __init__(self, topics: Topics, store: MetadataStore) -> None:
        self.topics = topics
        """For changes; look-ups go through this view."""
        self._store = store
        self._known: dict[str, KnownTopic] = {}
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

    def known(self, name: str) -> KnownTopic | None:
        """From memory, with the rules for produce."""
        record = self.topics.get(name)
        if record is None:
            return None
        found = self._known.get(name)
        if found is None or found.record is not record:
            found = self._known[name] = KnownTopic(record, TopicPolicy.of(record.configs))
        return found

    async def follow(self) -> None:
        """Task: refreshes on every hint (at least each second, R20), and forgets the rules of topics that are gone."""
        async for _ in self._store.watch(PREFIX):
            try:
                await self.refresh()
            except RetryLater as error:
                log.warning("topics not read: %s", error)
            for name in [name for name in self._known if self.topics.get(name) is None]:
                del self._known[name]
