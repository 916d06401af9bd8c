"""The cluster as manifests see it: topics asked of a broker, landings and catalogs in metadata."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from frazil.admin.manifests import Manifest
from frazil.admin.manifests.kinds import KafkaProcessorSpec, ProcessorSpec
from frazil.admin.manifests.plan import Step, carry_out, plan_steps
from frazil.admin.manifests.wanted import LandingDefaults, WantedCatalog, WantedTopic, wanted_of
from frazil.admin.port import KafkaAdmin
from frazil.assembly.manifestfiles import load_manifests
from frazil.assembly.settings import FrazilSettings
from frazil.assembly.stores import addresses_of, open_stores
from frazil.kit.errors import Missing, Refused
from frazil.landing.options import check_options
from frazil.metadata import MetadataStore
from frazil.metadata.landings import LandingSpec, get_landing, put_landing
from frazil.metadata.namedcatalogs import get_catalog, put_catalog

OpenKafka = Callable[[], AbstractAsyncContextManager[KafkaAdmin]]


class ManifestVerbs:
    """``apply`` and ``diff`` over one cluster."""

    def __init__(self, settings: FrazilSettings, target: ClusterTarget) -> None:
        self._settings = settings
        self._target = target

    async def plan(self, sources: Sequence[str]) -> tuple[Step, ...]:
        """What ``sources`` ask for beside what is there; nothing is changed. Raises Refused, ManifestFault, RetryLater."""
        manifests = load_manifests(sources)
        for manifest in manifests:
            _check_source(manifest, self._settings)
        wanted = wanted_of(manifests, landing_defaults(self._settings))
        for landing in wanted.landings:
            landing.check()
            check_options(landing)
        return await plan_steps(wanted, self._target)

    async def apply(self, step: Step) -> None:
        """Makes one object as it should be. Doing it twice is no error."""
        await carry_out(step, self._target)


@asynccontextmanager
async def open_manifests(settings: FrazilSettings, open_kafka: OpenKafka) -> AsyncIterator[ManifestVerbs]:
    """The verbs over the cluster of ``settings``. A broker is asked only when topics are in question."""
    async with open_stores(settings, create=False) as stores, AsyncExitStack() as closing:
        yield ManifestVerbs(settings, ClusterTarget(stores.metadata, open_kafka, closing))


class ClusterTarget:
    """``admin.manifests.plan.ManifestTarget`` over open stores."""

    def __init__(self, store: MetadataStore, open_kafka: OpenKafka, closing: AsyncExitStack) -> None:
        self._store = store
        self._open_kafka = open_kafka
        self._closing = closing
        self._kafka: KafkaAdmin | None = None

    async def topic(self, name: str) -> WantedTopic | None:
        """See ``ManifestTarget.topic``."""
        kafka = await self._broker()
        try:
            detail = await kafka.describe_topic(name)
        except Missing:
            return None
        return WantedTopic(name=name, partitions=len(detail.partitions), configs=detail.configs)

    async def create_topic(self, topic: WantedTopic) -> None:
        """See ``ManifestTarget.create_topic``."""
        await (await self._broker()).create_topic(topic.name, partitions=topic.partitions, configs=topic.configs)

    async def change_topic(self, topic: WantedTopic, before: WantedTopic) -> None:
        """See ``ManifestTarget.change_topic``."""
        kafka = await self._broker()
        changes = {name: value for name, value in topic.configs.items() if before.configs.get(name) != value}
        if changes:
            await kafka.alter_topic(topic.name, changes)
        if topic.partitions > before.partitions:
            await kafka.add_partitions(topic.name, topic.partitions)

    async def catalog(self, name: str) -> str | None:
        """See ``ManifestTarget.catalog``."""
        return await get_catalog(self._store, name)

    async def put_catalog(self, catalog: WantedCatalog) -> None:
        """See ``ManifestTarget.put_catalog``."""
        await put_catalog(self._store, catalog.name, catalog.document)

    async def landing(self, table: str) -> LandingSpec | None:
        """See ``ManifestTarget.landing``."""
        return await get_landing(self._store, table)

    async def put_landing(self, landing: LandingSpec) -> None:
        """See ``ManifestTarget.put_landing``."""
        await put_landing(self._store, landing)

    async def _broker(self) -> KafkaAdmin:
        if self._kafka is None:
            self._kafka = await self._closing.enter_async_context(self._open_kafka())
        return self._kafka


def landing_defaults(settings: FrazilSettings) -> LandingDefaults:
    """What a table gets that does not say otherwise."""
    return LandingDefaults(commit_interval_ms=settings.landing.commit_interval_ms, commit_bytes=settings.landing.commit_bytes)


def _check_source(manifest: Manifest, settings: FrazilSettings) -> None:
    """A processor of another log is not this cluster's to run (R27)."""
    if isinstance(manifest.spec, KafkaProcessorSpec):
        raise Refused(f"{manifest.place}: {manifest.title} lands another cluster's topics; run it by itself with `frazil land -f`")
    if not isinstance(manifest.spec, ProcessorSpec):
        return
    objects, bucket = addresses_of(settings).objects, manifest.spec.source.s3.bucket
    if objects.rstrip("/") != f"s3://{bucket}" and not objects.startswith(f"s3://{bucket}/"):
        raise Refused(
            f"{manifest.place}: {manifest.title} reads bucket {bucket}, and this cluster's objects are in {objects}; "
            f"run it by itself with `frazil land -f`, or apply it to the cluster of that bucket"
        )
