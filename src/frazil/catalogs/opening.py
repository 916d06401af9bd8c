"""Opening a catalog by its URL."""

from __future__ import annotations

from collections.abc import Mapping

from frazil.catalogs.port import Catalog, CatalogDeps
from frazil.kit.errors import Refused
from frazil.kit.plugins import load_backend

WITH_PROPERTIES = frozenset({"rest", "glue", "hive"})
"""Kinds of catalogs that are elsewhere: their addresses come with properties."""


def open_catalog(url: str, deps: CatalogDeps, properties: Mapping[str, str] | None = None) -> Catalog:
    """The catalog behind ``sql:///path/catalog.db``, ``memory:``, ``rest+https://host/path``, ``glue:`` or ``hive://host:9083``.

    Back-ends register under ``frazil.catalogs``.
    ``properties`` have the names of PyIceberg; only some kinds have any. No input or output happens yet where the catalog is elsewhere.
    Raises Refused for an unknown scheme, an address or a property that the back-end cannot use.
    """
    scheme, colon, _ = url.partition(":")
    if not colon or not scheme:
        raise Refused(f"catalog url {url!r}: write scheme:…, for example sql:///var/lib/frazil/catalog.db or rest+https://host/path")
    kind = scheme.partition("+")[0]
    backend = load_backend("frazil.catalogs", kind)
    given = {name: value for name, value in (properties or {}).items() if value != ""}
    if kind not in WITH_PROPERTIES and given:
        raise Refused(f"catalog {kind}: takes no properties, but has {', '.join(sorted(given))}")
    catalog: Catalog = backend(url, deps, given) if kind in WITH_PROPERTIES else backend(url, deps)
    return catalog
