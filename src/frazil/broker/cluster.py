"""Which brokers are alive, who leads which shard, who coordinates which group, and whether we are still one of them.

Leaders and coordinators are the winners of rendezvous hashing over the live brokers at one metadata revision (R26): every
broker at that revision gives one answer. Leadership is locality only; coordination is made safe by the group records (R19).
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from dataclasses import dataclass

from frazil.kit.clock import Clock
from frazil.kit.errors import Conflict, RetryLater
from frazil.kit.names import TopicId
from frazil.log.shards import shard_of
from frazil.metadata.cluster import BROKERS_PREFIX, BrokerRecord, deregister_broker, list_brokers, register_broker
from frazil.metadata.port import MetadataStore

log = logging.getLogger(__name__)

_RETRY_S = 0.5


def rendezvous(what: str, brokers: tuple[BrokerRecord, ...]) -> BrokerRecord:
    """The broker of highest hash for ``what``; a broker that comes or goes moves only what it wins or had."""
    return max(brokers, key=lambda b: (hashlib.blake2b(f"{what}@{b.broker_id}".encode(), digest_size=8).digest(), b.broker_id))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """The live brokers and what follows from them."""

    brokers: tuple[BrokerRecord, ...]
    leaders: tuple[int, ...]
    """Broker id by shard."""

    @classmethod
    def of(cls, brokers: tuple[BrokerRecord, ...], shards: int) -> ClusterView:
        """The view of these brokers."""
        return cls(brokers=brokers, leaders=tuple(rendezvous(f"shard {n}", brokers).broker_id for n in range(shards)))


class LiveBrokers:
    """Registers this broker under a lease, keeps it, and follows the list of all."""

    def __init__(self, store: MetadataStore, clock: Clock, *, ttl_ms: int, shards: int) -> None:
        self._store = store
        self._clock = clock
        self._ttl_ms = ttl_ms
        self._shards = shards
        self._me: BrokerRecord | None = None
        self._lease = 0
        self._valid_until_ms = 0.0
        self._view: ClusterView | None = None
        self.changes = 0
        """Counts views; owners of state that depends on the view compare it."""
        self.registrations = 0
        """Counts registrations; a step means the lease had ended and others may have taken over our groups."""

    async def register(self, me: BrokerRecord) -> None:
        """Announces this broker. An own earlier announcement at another address is waited for. Raises RetryLater, Conflict."""
        deadline_ms = self._clock.monotonic_ms() + 2 * self._ttl_ms
        said = False
        while True:
            began_ms = self._clock.monotonic_ms()
            try:
                self._lease = await register_broker(self._store, me, ttl_ms=self._ttl_ms)
                break
            except Conflict as error:
                if began_ms >= deadline_ms:
                    raise
                if not said:
                    log.warning("waiting to register: %s", error)
                    said = True
                await asyncio.sleep(_RETRY_S)
        self._valid_until_ms = began_ms + self._ttl_ms
        self._me = me
        self.registrations += 1
        await self.refresh()

    async def refresh(self) -> None:
        """Reads the list of brokers. Raises RetryLater."""
        found = await list_brokers(self._store)
        me = self._me
        if me is not None and all(b.broker_id != me.broker_id for b in found):
            # Our own record may have lapsed; a broker that answers must at least name itself.
            found = tuple(sorted((*found, me), key=lambda b: b.broker_id))
        if found and (self._view is None or found != self._view.brokers):
            self._view = ClusterView.of(found, self._shards)
            self.changes += 1

    async def follow(self) -> None:
        """Task: refreshes on every hint (at least each second, R20)."""
        async for _ in self._store.watch(BROKERS_PREFIX):
            try:
                await self.refresh()
            except RetryLater as error:
                log.warning("list of brokers not read: %s", error)

    async def keep(self) -> None:
        """Task: renews the lease at a third of its time; registers again when it has ended."""
        while True:
            await asyncio.sleep(self._ttl_ms / 3000)
            began_ms = self._clock.monotonic_ms()
            try:
                if await self._store.renew_lease(self._lease):
                    self._valid_until_ms = began_ms + self._ttl_ms
                else:
                    log.warning("the registration of this broker had lapsed; registering again")
                    await self.register(self.me)
            except RetryLater as error:
                log.warning("registration not renewed: %s", error)
            except Conflict as error:
                log.error("registration lost: %s", error)

    async def deregister(self) -> None:
        """Takes the announcement back. Raises RetryLater."""
        if self._me is not None:
            self._valid_until_ms = 0.0
            await deregister_broker(self._store, self._me)

    @property
    def me(self) -> BrokerRecord:
        """This broker as clients see it."""
        if self._me is None:
            raise RetryLater("this broker is not registered yet")
        return self._me

    @property
    def view(self) -> ClusterView:
        """The latest view. Raises RetryLater before the first."""
        if self._view is None:
            raise RetryLater("the list of brokers has not been read yet")
        return self._view

    def lease_holds(self) -> bool:
        """False from the moment another broker could take this one for dead (R19)."""
        return self._clock.monotonic_ms() < self._valid_until_ms

    def leader(self, topic_id: TopicId, partition: int) -> int:
        """The broker id that clients are told to use for a partition."""
        return self.view.leaders[shard_of(topic_id, partition, self._shards)]

    def leaders(self, topic_id: TopicId, partitions: int) -> list[int]:
        """The leaders of partitions 0 to ``partitions`` - 1."""
        leaders, shards = self.view.leaders, self._shards
        first = shard_of(topic_id, 0, shards)
        return [leaders[(first + partition) % shards] for partition in range(partitions)]

    def coordinator(self, group: str) -> BrokerRecord:
        """The broker that coordinates ``group``."""
        return rendezvous(f"group {group}", self.view.brokers)

    def coordinates(self, group: str) -> bool:
        """True when this broker does, and its lease holds."""
        return self.lease_holds() and self.coordinator(group).broker_id == self.me.broker_id
