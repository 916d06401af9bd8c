"""What landing needs of one catalog: the catalog itself, its committer, the writer of data files, the care of tables."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from frazil.catalogs.care import Care, CareSettings
from frazil.catalogs.commit import CommitPolicy, Committer
from frazil.catalogs.history import Keep
from frazil.catalogs.port import Catalog, CatalogDeps
from frazil.catalogs.rewrite import Rewriter
from frazil.catalogs.rewriteplan import RewriteSettings
from frazil.catalogs.rowdelta import RowDelta
from frazil.catalogs.write import FileWriter
from frazil.kit.errors import Refused, RetryLater
from frazil.kit.tasks import Offload
from frazil.landing.folding import Folding
from frazil.landing.settings import LandingDeps, LandingSettings
from frazil.objects.port import ObjectStore

T = TypeVar("T")
_ROWS_PER_FILE_BYTES = 8
"""Rows in memory take so many times their size on disk, about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lake:
    """One catalog with everything that works on its tables."""

    name: str
    catalog: Catalog
    committer: Committer
    writer: FileWriter
    delta: RowDelta
    folding: Folding | None
    """None: the catalog rewrites files itself, or nobody shall."""
    care: Care | None
    """None: the catalog cares for its tables itself."""
    objects: ObjectStore
    offload: Offload


class Lakes:
    """One lake per named catalog, made when first asked for."""

    def __init__(self, deps: LandingDeps, settings: LandingSettings) -> None:
        self._deps = deps
        self._settings = settings
        self._lakes: dict[str, Lake] = {}

    def find(self, name: str) -> Lake:
        """The lake of the catalog that has this name now. Raises Refused with the known ones."""
        catalog = self._deps.catalogs.get(name)
        if catalog is None:
            raise Refused(f"no catalog {name!r}; known: {', '.join(sorted(self._deps.catalogs)) or 'none'}")
        lake = self._lakes.get(name)
        if lake is None or lake.catalog is not catalog:
            lake = self._lakes[name] = self._open(name, catalog)
        return lake

    def is_current(self, lake: Lake) -> bool:
        """Whether the name still stands for this catalog."""
        return self._deps.catalogs.get(lake.name) is lake.catalog

    def all(self) -> tuple[Lake, ...]:
        """Those that are in use."""
        return tuple(self._lakes.values())

    def _folding(self, committer: Committer, delta: RowDelta) -> Folding:
        settings = self._settings
        wanted = RewriteSettings(
            target_bytes=settings.rewrite_bytes_max // _ROWS_PER_FILE_BYTES,
            group_rows_max=settings.rewrite_rows_max,
            dead_share=settings.dead_share,
            dead_rows_min=settings.dead_rows_min,
        )
        return Folding(Rewriter(committer, delta, wanted), wanted, pause_ms=settings.backoff_max_ms)

    def _open(self, name: str, catalog: Catalog) -> Lake:
        deps, settings = self._deps, self._settings
        objects = catalog.objects or deps.objects
        shared = CatalogDeps(objects=objects, offload=deps.offload, clock=deps.clock, chance=deps.chance, faults=deps.faults)
        committer = Committer(catalog, shared, CommitPolicy(request_timeout_ms=settings.call_deadline_ms))
        care = CareSettings(
            keep=Keep(last=settings.snapshots_keep),
            delete_grace_ms=settings.delete_grace_ms,
            metadata_grace_ms=settings.metadata_grace_ms,
        )
        writer = FileWriter(shared, put_deadline_ms=settings.call_deadline_ms)
        delta = RowDelta(committer, writer, cache_bytes=settings.key_cache_bytes)
        return Lake(
            name=name,
            catalog=catalog,
            committer=committer,
            writer=writer,
            delta=delta,
            folding=None if name in deps.managed or not settings.rewrite else self._folding(committer, delta),
            care=None if name in deps.managed else Care(committer, care),
            objects=objects,
            offload=deps.offload,
        )


async def within(call: Awaitable[T], deadline_ms: int, what: str) -> T:
    """The call's result, or RetryLater when it takes longer than ``deadline_ms`` (F29)."""
    # asyncio.timeout, not wait_for: the latter may swallow a cancellation that comes together with the result (CPython 3.11).
    try:
        async with asyncio.timeout(deadline_ms / 1000):
            return await call
    except TimeoutError:
        raise RetryLater(f"{what} takes longer than {deadline_ms} ms") from None


class Heavy(Offload):
    """An offload for long work that takes at most so many of its threads at once, first come, first served."""

    def __init__(self, inner: Offload, at_once: int) -> None:
        self._inner = inner
        self._turns = asyncio.Semaphore(at_once)

    async def run(self, work: Callable[[], T]) -> T:
        """See ``Offload.run``."""
        async with self._turns:
            return await self._inner.run(work)
