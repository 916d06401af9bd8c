"""Catalogs that manifests name, open beside the cluster's own; kept as metadata says while the process runs."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from typing import NoReturn

from frazil.admin.manifests import read_manifests
from frazil.admin.manifests.catalogspec import CatalogSpec
from frazil.admin.manifests.secrets import catalog_address
from frazil.assembly.catalogs import shared_properties
from frazil.assembly.secretfiles import secret_files
from frazil.assembly.settings import FrazilSettings
from frazil.catalogs.opening import open_catalog
from frazil.catalogs.port import Catalog, CatalogDeps, CreateTable, JsonObject, LoadedTable
from frazil.kit.errors import FrazilError, Refused, RetryLater
from frazil.metadata import MetadataStore
from frazil.metadata.namedcatalogs import list_catalogs

_LOG = logging.getLogger("frazil.land")
_REFRESH_S = 2.0


class CatalogBook:
    """Name → open catalog. One that cannot be opened stands there and says why; it is tried again."""

    def __init__(self, settings: FrazilSettings, deps: CatalogDeps, own: Catalog) -> None:
        self.catalogs: dict[str, Catalog] = {"default": own}
        self.managed: set[str] = {"default"} if settings.catalog.managed else set()
        self._settings = settings
        self._deps = deps
        self._documents: dict[str, str] = {}

    async def refresh(self, store: MetadataStore) -> None:
        """Opens what is new or changed, closes what is gone. Raises RetryLater, Corrupt."""
        documents = await list_catalogs(store)
        for name in [name for name in self._documents if name not in documents]:
            await self._close(name)
        for name, document in documents.items():
            if self._documents.get(name) != document or isinstance(self.catalogs.get(name), _Unopened):
                await self._open(name, document)

    async def add(self, name: str, catalog: Catalog, managed: bool) -> None:  # noqa: FBT001 - as open_named gives them
        """Puts an open catalog here, in place of one of this name; ``close`` closes it."""
        await self._close(name)
        self.catalogs[name], self._documents[name] = catalog, ""
        if managed:
            self.managed.add(name)

    async def keep(self, store: MetadataStore) -> None:
        """Refreshes for ever."""
        while True:
            await asyncio.sleep(_REFRESH_S)
            try:
                await self.refresh(store)
            except RetryLater as error:
                _LOG.warning("catalogs: %s", error)

    async def close(self) -> None:
        """Closes all but the cluster's own."""
        for name in list(self._documents):
            await self._close(name)

    async def _open(self, name: str, document: str) -> None:
        before = self.catalogs.get(name)
        try:
            (manifest,) = read_manifests(document, f"catalog {name}", os.environ)
            if not isinstance(manifest.spec, CatalogSpec):
                raise Refused(f"catalog {name}: its document in metadata is a {manifest.kind}")
            catalog, managed = open_named(manifest.spec, self._settings, self._deps)
        except FrazilError as error:
            if not isinstance(before, _Unopened) or before.why != str(error):
                _LOG.warning("catalog %s cannot be opened: %s", name, error)
                await self._close(name)
                self.catalogs[name] = _Unopened(str(error))
            self._documents[name] = document
            return
        await self._close(name)
        self.catalogs[name], self._documents[name] = catalog, document
        if managed:
            self.managed.add(name)

    async def _close(self, name: str) -> None:
        self._documents.pop(name, None)
        self.managed.discard(name)
        catalog = self.catalogs.pop(name, None)
        if catalog is not None:
            await catalog.close()


def open_named(spec: CatalogSpec, settings: FrazilSettings, deps: CatalogDeps) -> tuple[Catalog, bool]:
    """The catalog of a manifest, and whether its service cares for tables itself. Raises Refused, also for a secret that is not there."""
    address = catalog_address(spec, secret_files())
    return open_catalog(address.url, deps, {**shared_properties(settings, address.url), **address.properties}), address.managed


class _Unopened(Catalog):
    """Stands for a catalog that cannot be opened: every call is Refused with the reason."""

    def __init__(self, why: str) -> None:
        self.why = why

    async def load(self, ident: str) -> LoadedTable:
        """Refused."""
        self._refuse(ident)

    async def create(self, ident: str, table: CreateTable) -> LoadedTable:
        """Refused."""
        self._refuse(ident)

    async def commit(self, ident: str, base: LoadedTable, requirements: Sequence[JsonObject], updates: Sequence[JsonObject]) -> LoadedTable:
        """Refused."""
        self._refuse(ident)

    async def list(self, namespace: str) -> tuple[str, ...]:
        """Refused."""
        self._refuse(namespace)

    async def drop(self, ident: str) -> None:
        """Refused."""
        self._refuse(ident)

    def _refuse(self, ident: str) -> NoReturn:
        raise Refused(f"{ident}: its catalog cannot be opened: {self.why}")
