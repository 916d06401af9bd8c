"""Opens the log that a manifest's ``source`` names (R27): a Frazil cluster when the bucket holds its marker, else sealed segments alone."""

from __future__ import annotations

import asyncio
import logging
import pathlib
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from frazil.admin.manifests.kafkasource import KafkaSource, KafkaTls, kafka_login
from frazil.admin.manifests.kinds import KafkaProcessorSpec, ProcessorSpec
from frazil.assembly.cloud import cloud_access
from frazil.assembly.marks import Marks
from frazil.assembly.secretfiles import secret_files
from frazil.assembly.settings import FrazilSettings
from frazil.assembly.starting import patiently
from frazil.kit.chance import Chance
from frazil.kit.clock import Clock
from frazil.kit.errors import Refused
from frazil.kit.faultpoints import FaultPoints
from frazil.kit.tasks import ThreadOffload
from frazil.landing.naming import ListedNaming, SourceNaming
from frazil.landing.settings import TopicView
from frazil.log.cache import BlockCache
from frazil.log.index import LogIndex
from frazil.log.kafka.cluster import KafkaCluster, parse_bootstrap
from frazil.log.kafka.connection import KafkaSecurity
from frazil.log.kafka.source import KafkaLog
from frazil.log.kafscale.etcd import KafscaleEtcd
from frazil.log.listing import ListingPolicy, SegmentListing
from frazil.log.read import LogReader, ReadLimits
from frazil.log.view import LogSource, LogView
from frazil.metadata import MetadataStore, open_metadata
from frazil.metadata.cluster import INSTANCE_KEY, MARKER_PREFIX, InstanceRecord, check_marker
from frazil.metadata.opening import read_one
from frazil.metadata.topics import Topics
from frazil.metadata.values import decode
from frazil.objects import ObjectStore, open_objects

_LOG = logging.getLogger("frazil.land")
_LISTINGS_PER_COMMIT = 30
"""A listing costs money; a view that is a thirtieth of the commit interval old is young enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What everything in a process works with."""

    clock: Clock
    chance: Chance
    offload: ThreadOffload
    faults: FaultPoints


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A log to land from. ``beside`` runs as long as it is read."""

    kind: str
    """``frazil``, ``kafscale`` or ``kafka``."""
    name: str
    """As progress knows it."""
    store: MetadataStore
    """Of the cluster, or this process's own memory."""
    objects: ObjectStore
    """Of the log; a Kafka cluster has none, and there the catalog says where tables are."""
    topics: TopicView
    index: LogView
    reader: LogSource
    naming: SourceNaming | None
    beside: tuple[Callable[[], Coroutine[Any, Any, None]], ...]


@asynccontextmanager
async def open_source(settings: FrazilSettings, spec: ProcessorSpec, tools: Tools, stop: asyncio.Event) -> AsyncIterator[Source]:
    """The log behind ``source.s3``. Raises Refused when the bucket is of a cluster whose metadata cannot be opened here, RetryLater."""
    place = spec.source.s3
    bucket = f"s3://{place.bucket}"
    found = await patiently(f"looking for a cluster in {bucket}", lambda: _find_marker(bucket, place.prefix, settings, tools), stop)
    if found is None:
        _LOG.info("%s holds no Frazil cluster: its sealed segments under %r are landed", bucket, place.prefix)
        etcd = _etcd(spec, tools)
        try:
            yield _listed(settings, spec, tools, etcd)
        finally:
            if etcd is not None:
                await etcd.close()
        return
    root, objects, marker = found
    url = settings.store.metadata or decode(marker, where=f"{root}/{MARKER_PREFIX}…").text("metadata")
    _check_reachable(url, root)
    store = open_metadata(url, clock=tools.clock)
    try:
        instance = await _instance(store, url)
        if not check_marker(instance, marker):
            raise Refused(f"metadata store {url} and {root} belong to one cluster, but the bucket is behind; start the cluster first")
        await patiently("checking the bucket's marks", Marks(store, objects, tools.chance).check, stop)
        _LOG.info("%s is of cluster %s: records are landed from its live tail on, by %s", root, instance.cluster_id, url)
        yield cluster_source(settings, store, objects, instance, tools)
    finally:
        await store.close()


def cluster_source(settings: FrazilSettings, store: MetadataStore, objects: ObjectStore, instance: InstanceRecord, tools: Tools) -> Source:
    """The log of a cluster whose stores are open: its live tail, sealed or not."""
    index = LogIndex(store, shards=instance.shards, producers=False)
    cache = BlockCache(settings.landing.cache_bytes)
    return Source(
        kind="frazil",
        name=f"{instance.cluster_id}/{instance.incarnation}",
        store=store,
        objects=objects,
        topics=Topics(store, tools.clock, tools.chance),
        index=index,
        reader=LogReader(objects, index, cache, limits=ReadLimits(), offload=tools.offload),
        naming=None,
        beside=(index.follow,),
    )


def _etcd(spec: ProcessorSpec, tools: Tools) -> KafscaleEtcd | None:
    told = spec.source.etcd
    if told is None:
        return None
    password = told.password.value if told.password is not None else ""
    return KafscaleEtcd(told.endpoints, tools.clock, username=told.username or "", password=password)


def _listed(settings: FrazilSettings, spec: ProcessorSpec, tools: Tools, etcd: KafscaleEtcd | None) -> Source:
    place = spec.source.s3
    bucket = f"s3://{place.bucket}"
    objects = _open(bucket, settings, tools)
    policy = ListingPolicy(interval_ms=max(1_000, spec.processing.commit_interval_seconds * 1000 // _LISTINGS_PER_COMMIT))
    listing = SegmentListing(objects, tools.clock, prefix=place.prefix, topics=spec.source.topics, policy=policy, cluster=etcd)
    reader = LogReader(objects, listing, BlockCache(settings.landing.cache_bytes), limits=ReadLimits(), offload=tools.offload)
    listing.changed = reader.forget
    root = f"kafscale:{bucket}/{place.prefix}"
    return Source(
        kind="kafscale",
        name=root,
        store=open_metadata("memory:", clock=tools.clock),
        objects=objects,
        topics=listing,
        index=listing,
        reader=reader,
        naming=ListedNaming(root, listing.identity, listing.bounds),
        beside=(),
    )


@asynccontextmanager
async def open_kafka_source(spec: KafkaProcessorSpec, tools: Tools, stop: asyncio.Event) -> AsyncIterator[Source]:
    """The topics of a Kafka cluster. Raises Refused when it does not let us in or is too old, and for files that cannot be used."""
    kafka = spec.source.kafka
    cluster = KafkaCluster(parse_bootstrap(kafka.bootstrap), _security(kafka), tools.chance, client_id=kafka.client_id)
    try:
        found = await patiently(f"asking Kafka at {kafka.bootstrap}", lambda: cluster.metadata(spec.source.topics), stop)
        log = KafkaLog(cluster, tools.clock, cluster_id=found.cluster_id, topics=spec.source.topics)
        nameless = [topic.name for topic in found.topics.values() if not topic.has_id]
        if nameless:
            _LOG.warning("brokers give topics no ids (Kafka before 2.8): %s, when made anew, would be taken for the old one", nameless[0])
        _LOG.info("Kafka cluster %s at %s: its log is read without a consumer group", found.cluster_id, kafka.bootstrap)
        yield Source(
            kind="kafka",
            name=f"kafka:{found.cluster_id or kafka.bootstrap}",
            store=open_metadata("memory:", clock=tools.clock),
            objects=open_objects("memory:", offload=tools.offload, clock=tools.clock, chance=tools.chance),
            topics=log,
            index=log,
            reader=log,
            naming=None,
            beside=(),
        )
    finally:
        await cluster.close()


def _security(kafka: KafkaSource) -> KafkaSecurity:
    tls = kafka.tls or KafkaTls(ca_file="", cert_file="", key_file="")
    username, password = kafka_login(kafka.sasl, secret_files()) if kafka.sasl is not None else ("", "")
    return KafkaSecurity(
        tls=kafka.tls is not None,
        ca_file=tls.ca_file,
        cert_file=tls.cert_file,
        key_file=tls.key_file,
        mechanism=kafka.sasl.mechanism if kafka.sasl is not None else "",
        username=username,
        password=password,
    )


async def _find_marker(bucket: str, prefix: str, settings: FrazilSettings, tools: Tools) -> tuple[str, ObjectStore, bytes] | None:
    """The newest marker at the bucket's root, else under the prefix: a cluster's object store may be a part of a bucket."""
    for root in dict.fromkeys((bucket, f"{bucket}/{prefix}".rstrip("/"))):
        objects = _open(root, settings, tools)
        markers = [info.key async for info in objects.list(MARKER_PREFIX)]
        if markers:
            return root, objects, await objects.get(markers[-1])
    return None


def _open(url: str, settings: FrazilSettings, tools: Tools) -> ObjectStore:
    return open_objects(url, offload=tools.offload, clock=tools.clock, access=cloud_access(settings), chance=tools.chance)


def _check_reachable(url: str, root: str) -> None:
    """A file of another machine would be made here, empty, and look like a cluster without topics."""
    if url.startswith("memory:") or (url.startswith("sqlite:") and not pathlib.Path(url.partition("://")[2]).is_file()):
        raise Refused(
            f"{root} is of a cluster whose metadata store {url} is not on this machine; "
            "run this where it is, or say how to reach it from here with the setting store.metadata"
        )


async def _instance(store: MetadataStore, url: str) -> InstanceRecord:
    entry = await read_one(store, INSTANCE_KEY)
    if not entry.version:
        raise Refused(f"metadata store {url} holds no cluster; name the right one with the setting store.metadata")
    return InstanceRecord.decode(entry.value)
