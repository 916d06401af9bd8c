"""Opening a catalog by its URL."""

from __future__ import annotations

from frazil.catalogs.port import Catalog, CatalogDeps
from frazil.kit.errors import Refused
from frazil.kit.plugins import load_backend


def open_catalog(url: str, deps: CatalogDeps) -> Catalog:
    """The catalog behind ``sql:///path/catalog.db`` or ``memory:``; back-ends register under ``frazil.catalogs``.

    Raises Refused for an unknown scheme or an address the back-end cannot use.
    """
    scheme, colon, _ = url.partition(":")
    if not colon or not scheme:
        raise Refused(f"catalog url {url!r}: write scheme:…, for example sql:///var/lib/frazil/catalog.db")
    catalog: Catalog = load_backend("frazil.catalogs", scheme)(url, deps)
    return catalog
