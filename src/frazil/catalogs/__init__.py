"""Iceberg catalogs behind one door: our committer, progress, expiry and manifest care."""

from frazil.catalogs.commit import Committer, Landed
from frazil.catalogs.opening import open_catalog
from frazil.catalogs.port import Catalog, CatalogDeps, CreateTable, LoadedTable

__all__ = ["Catalog", "CatalogDeps", "Committer", "CreateTable", "Landed", "LoadedTable", "open_catalog"]
