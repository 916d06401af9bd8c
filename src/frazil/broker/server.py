"""The broker as one value: made of its parts, started, stopped."""

from __future__ import annotations

import asyncio
import logging

from frazil.broker.budget import ByteBudget
from frazil.broker.cluster import LiveBrokers
from frazil.broker.complaints import Complaints
from frazil.broker.connection import Connection, House
from frazil.broker.counters import BrokerCounters
from frazil.broker.dispatch import Dispatcher
from frazil.broker.groups.coordinator import GroupDeps, Groups
from frazil.broker.groups.inventory import OffsetSweep
from frazil.broker.handlers.api_versions import ranges
from frazil.broker.handlers.table import HANDLERS
from frazil.broker.listener import Listener, listen
from frazil.broker.metadata_rows import MetadataRows
from frazil.broker.services import BrokerDeps, ProducerIds, Services
from frazil.broker.settings import BrokerSettings
from frazil.broker.topic_view import TopicView
from frazil.kit.errors import RetryLater
from frazil.kit.tasks import spawn
from frazil.log.gate import Gate
from frazil.metadata.cluster import BrokerRecord

log = logging.getLogger(__name__)

_START_RETRY_S = 0.5
_END_TURNS = 50
_END_TURN_S = 0.01


class Broker:
    """One broker. ``start`` registers and listens, ``run`` keeps it alive, ``stop`` ends it cleanly.

    Without sockets (simulation): ``join_cluster`` instead of ``start``, then ``connection()`` for each in-memory transport.
    """

    def __init__(self, settings: BrokerSettings, deps: BrokerDeps) -> None:
        self.settings = settings
        self._deps = deps
        self.counters = BrokerCounters()
        complaints = Complaints(deps.clock)
        self._brokers = LiveBrokers(deps.store, deps.clock, ttl_ms=settings.lease_ttl_ms, shards=settings.shards)
        self._topics = TopicView(deps.topics, deps.store)
        group_deps = GroupDeps(
            store=deps.store,
            clock=deps.clock,
            chance=deps.chance,
            brokers=self._brokers,
            counters=self.counters,
            limits=settings.groups,
        )
        self._groups = Groups(group_deps)
        services = Services(
            settings=settings,
            clock=deps.clock,
            store=deps.store,
            brokers=self._brokers,
            topics=self._topics,
            metadata_rows=MetadataRows(self._brokers),
            index=deps.index,
            appender=deps.appender,
            reader=deps.reader,
            fetch_gate=Gate(settings.fetch_buffered_bytes_max),
            groups=self._groups,
            producer_ids=ProducerIds(deps.store),
            counters=self.counters,
            delete_records=deps.delete_records,
            complaints=complaints,
            api_ranges=ranges(HANDLERS),
        )
        self._dispatcher = Dispatcher(services, HANDLERS)
        self._house = House(
            settings=settings,
            serve=self._dispatcher.serve,
            serve_burst=self._dispatcher.serve_burst,
            budget=ByteBudget(settings.buffered_bytes_max),
            counters=self.counters,
            faults=deps.faults,
            complaints=complaints,
        )
        self._listener: Listener | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return self._listener.port if self._listener is not None else self.settings.port

    async def start(self) -> None:
        """Opens the port, announces it, starts the broker's own tasks. Raises OSError, Conflict.

        Waits for a metadata store that does not answer yet (F83); the port is bound meanwhile and refuses connections.
        """
        self._listener = await listen(self.settings, self.connection, self._house.complaints)
        try:
            await self.join_cluster(self._listener.port)
            self._listener.open_doors()
        except BaseException:
            self._listener.close()
            raise
        self._tasks += self._listener.tasks
        log.info("broker %d listens on %s:%d", self.settings.node_id, self.settings.host, self.port)

    async def join_cluster(self, port: int) -> None:
        """Announces this broker at ``port`` and starts its tasks; waits for the metadata store. Raises Conflict."""
        settings = self.settings
        me = BrokerRecord(
            broker_id=settings.node_id,
            host=settings.advertised_host or settings.host,
            port=settings.advertised_port or port,
            rack=settings.rack or "",
            started_ms=self._deps.clock.now_ms(),
        )
        while True:
            try:
                await self._topics.refresh()
                await self._deps.index.refresh()
                await self._brokers.register(me)
                break
            except RetryLater as error:
                log.warning("waiting for the metadata store: %s", error)
                await asyncio.sleep(_START_RETRY_S)
        self._tasks = [
            spawn("broker lease", self._brokers.keep()),
            spawn("broker list", self._brokers.follow()),
            spawn("broker topics", self._topics.follow()),
            spawn("broker groups", self._groups.run()),
            spawn("broker offsets", self._sweep_offsets()),
        ]

    def connection(self) -> Connection:
        """A protocol for one connection; attach it to any asyncio stream transport."""
        return Connection(self._house)

    async def run(self) -> None:
        """Waits until one of the broker's tasks dies and raises what killed it; cancelled by the caller when it is time to stop."""
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()

    async def stop(self) -> None:
        """Stops accepting and reading, sends groups elsewhere, finishes requests under way, withdraws the announcement.

        The appender is flushed by its owner afterwards.
        """
        if self._listener is not None:
            self._listener.close()
        await self._groups.close()
        for connection in list(self._house.connections):
            connection.stop_reading()
        if not await self._dispatcher.drain(self.settings.stop_timeout_ms):
            log.warning("some requests were not done after %d ms", self.settings.stop_timeout_ms)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        try:
            await self._brokers.deregister()
        except RetryLater as error:
            log.warning("announcement not withdrawn: %s", error)
        await self._end_connections()

    async def _end_connections(self) -> None:
        """Closes after what has been written; peers that do not take it are cut off."""
        connections = self._house.connections
        for force in (False, True):
            for connection in list(connections):
                connection.end(force=force)
            for _ in range(_END_TURNS):
                if not connections:
                    return
                await asyncio.sleep(_END_TURN_S)

    async def _sweep_offsets(self) -> None:
        sweep = OffsetSweep(
            groups=self._groups,
            store=self._deps.store,
            topics=self._topics,
            clock=self._deps.clock,
            retention_ms=self.settings.offsets_retention_ms,
        )
        while True:
            await asyncio.sleep(self.settings.offsets_sweep_interval_ms / 1000)
            try:
                dropped = await sweep.pass_once()
            except RetryLater as error:
                log.warning("old offsets not swept: %s", error)
                continue
            if dropped:
                log.info("%d old offsets dropped", dropped)
