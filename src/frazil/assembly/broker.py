"""Joins the parts of a broker process and runs them."""

from __future__ import annotations

import asyncio
import logging
import sys
from dataclasses import dataclass
from functools import partial

from frazil.assembly.cloud import flush_policy, in_cloud
from frazil.assembly.health import broker_report, health_served
from frazil.assembly.log_lines import set_up_logging
from frazil.assembly.loops import settle_memory
from frazil.assembly.marks import Marks, ends_of, keep_marking
from frazil.assembly.memory import requests_bytes_max
from frazil.assembly.openfiles import connections_allowed
from frazil.assembly.running import cancel, finish, first_of
from frazil.assembly.settings import FrazilSettings
from frazil.assembly.starting import patiently
from frazil.assembly.stopping import stop_requested
from frazil.assembly.stores import Stores, open_stores
from frazil.broker import Broker, BrokerDeps, BrokerSettings
from frazil.endpoints.health import Report
from frazil.kit.errors import OutcomeUnknown, Refused, RetryLater
from frazil.kit.tasks import spawn
from frazil.log.append import AppendDeps, Appender
from frazil.log.cache import BlockCache
from frazil.log.caretaker import Caretaker
from frazil.log.index import LogIndex
from frazil.log.read import LogReader, ReadLimits
from frazil.log.upkeep import UpkeepDeps, UpkeepPolicy
from frazil.metadata.topics import Topics

_LOG = logging.getLogger("frazil.broker")
_STOP_S = 20.0
_FETCH_BYTES_MAX = 55 * 1024 * 1024
"""Of one answer; what Kafka's consumers ask for by default is 50 MiB."""
_LOCAL_INFLIGHT, _CLOUD_INFLIGHT = 256, 4096
"""Requests of one connection that may wait at once. librdkafka sends one request per partition, and on S3 each waits a tenth of a
second: fewer would be what limits a producer with hundreds of partitions. Their bytes are bounded apart."""


async def run_broker(settings: FrazilSettings, *, supervised: bool) -> None:
    """Serves until SIGTERM or SIGINT; then answers what it has taken, flushes and stops."""
    set_up_logging(settings.log_level)
    async with stop_requested(supervised=supervised) as stop, open_stores(settings, stop=stop) as stores:
        marks = Marks(stores.metadata, stores.objects, stores.chance)
        parts = _parts(settings, stores)
        await parts.index.refresh()
        await patiently("marking the bucket", lambda: marks.advance(ends_of(parts.index)), stop)
        broker = Broker(broker_settings(settings, stores), _deps(stores, parts))
        tasks = {
            spawn("appender", parts.appender.run()),
            spawn("follow log", parts.index.follow()),
            spawn("caretaker", parts.caretaker.run()),
            spawn("marks", keep_marking(marks, parts.index)),
        }
        try:
            await _start(broker)
        except BaseException:
            await cancel(tasks)
            raise
        print(f"frazil broker {settings.broker.id} listens on {settings.broker.host}:{broker.port}", file=sys.stderr, flush=True)  # noqa: T201
        tasks.add(spawn("broker", broker.run()))
        settle_memory()
        given = settings.broker
        try:
            look = partial(_look, broker, parts)
            async with health_served("broker", given.http_host, given.http_port, look):
                await first_of(spawn("wait for stop", stop.wait()), tasks)
        finally:
            try:
                await _stop(broker, parts, marks)
            except BaseException:
                await cancel(tasks)
                raise
        await finish(tasks, keep_name="appender")


def _look(broker: Broker, parts: _Parts) -> Report:
    return broker_report(broker, parts.index, parts.appender.unanswered)


async def _stop(broker: Broker, parts: _Parts, marks: Marks) -> None:
    """Answers what has been taken, then marks metadata and bucket. Raises OutcomeUnknown when that takes longer than ``_STOP_S``.

    A commit whose fate is unknown is never given up while the process lives (R02); a stop cannot wait for that for ever.
    """
    try:
        async with asyncio.timeout(_STOP_S):
            await broker.stop()
            await parts.appender.close()
            await marks.advance(ends_of(parts.index))
    except TimeoutError:
        left = parts.appender.unanswered
        raise OutcomeUnknown(
            f"stopped after {_STOP_S:.0f} s without an answer of the stores: {left} produce request(s) are undecided; "
            "their clients got no acknowledgement, and their records may or may not be in the log"
        ) from None
    except RetryLater as error:
        _LOG.warning("no mark could be taken at the end: %s", error)


async def _start(broker: Broker) -> None:
    """Opens the doors. Raises Refused when the port is taken, Conflict when the broker id is."""
    wanted = broker.settings
    try:
        await broker.start()
    except OSError as error:
        why = (error.strerror or str(error)).rpartition(": ")[2]
        raise Refused(f"cannot listen on {wanted.host}:{wanted.port}: {why}; choose another broker.port or broker.host") from error


def broker_settings(settings: FrazilSettings, stores: Stores) -> BrokerSettings:
    """The broker part of the settings tree as the room wants it."""
    given = settings.broker
    return BrokerSettings(
        node_id=given.id,
        host=given.host,
        port=given.port,
        advertised_host=given.advertised_host,
        advertised_port=given.advertised_port,
        cluster_id=stores.instance.cluster_id,
        shards=stores.instance.shards,
        auto_create_topics=given.auto_create_topics,
        default_partitions=given.default_partitions,
        request_bytes_max=given.request_bytes_max,
        buffered_bytes_max=requests_bytes_max(settings),
        fetch_bytes_max=min(_FETCH_BYTES_MAX, given.fetches_bytes_max),
        fetch_buffered_bytes_max=given.fetches_bytes_max,
        connections_max=connections_allowed(),
        connection_inflight_max=_CLOUD_INFLIGHT if in_cloud(settings) else _LOCAL_INFLIGHT,
    )


def upkeep_policy(settings: FrazilSettings) -> UpkeepPolicy:
    """When the log is sealed, retained, collected."""
    given = settings.broker
    return UpkeepPolicy(
        seal_age_ms=given.seal_age_ms,
        segment_bytes=given.segment_bytes,
        memory_bytes=given.seal_bytes_max,
        grace_ms=given.collect_grace_ms,
        pin_max_ms=given.pin_max_ms,
        interval_ms=given.upkeep_interval_ms,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """The log as one broker holds it."""

    index: LogIndex
    cache: BlockCache
    topics: Topics
    appender: Appender
    caretaker: Caretaker


def _parts(settings: FrazilSettings, stores: Stores) -> _Parts:
    index = LogIndex(stores.metadata, shards=stores.instance.shards)
    cache = BlockCache(settings.broker.cache_bytes)
    topics = Topics(stores.metadata, stores.clock, stores.chance)
    append = AppendDeps(
        store=stores.metadata,
        objects=stores.objects,
        index=index,
        clock=stores.clock,
        chance=stores.chance,
        faults=stores.faults,
        cache=cache,
        topics=topics,
    )
    upkeep = UpkeepDeps(
        store=stores.metadata,
        objects=stores.objects,
        index=index,
        topics=topics,
        clock=stores.clock,
        chance=stores.chance,
        offload=stores.offload,
        cache=cache,
        namespace=settings.store.namespace,
    )
    return _Parts(
        index=index,
        cache=cache,
        topics=topics,
        appender=Appender(append, flush_policy(settings)),
        caretaker=Caretaker(upkeep, upkeep_policy(settings), name=f"broker {settings.broker.id}"),
    )


def _deps(stores: Stores, parts: _Parts) -> BrokerDeps:
    return BrokerDeps(
        clock=stores.clock,
        chance=stores.chance,
        faults=stores.faults,
        store=stores.metadata,
        topics=parts.topics,
        index=parts.index,
        appender=parts.appender,
        reader=LogReader(stores.objects, parts.index, parts.cache, limits=ReadLimits(), offload=stores.offload),
        delete_records=parts.caretaker.retainer.delete_records,
    )
