"""The cluster's own catalog as its settings describe it: an address and properties under the names that Iceberg's clients use."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

from frazil.assembly.settings import CatalogSettings, FrazilSettings
from frazil.kit.errors import Refused

_OF_METASTORES = {"glue": ("warehouse", "rest.signing-region"), "hive": ("warehouse",)}
_OF_EVERY_CATALOG = ("ssl.cabundle", "proxy")
"""Also for the catalogs that manifests name, so they may be set when the cluster's own is no REST catalog."""


def catalog_address(settings: FrazilSettings) -> str:
    """``catalog.uri``, or ``store.catalog``, or a file under ``data_dir``. Raises Refused when the first two differ."""
    uri, stored = _with_kind(settings.catalog.uri), settings.store.catalog
    if uri and stored and uri != stored:
        raise Refused("catalog.uri and store.catalog name two catalogs; leave one of them empty")
    return uri or stored or f"sql://{pathlib.Path(settings.data_dir).resolve()}/catalog.db"


def catalog_properties(settings: FrazilSettings) -> Mapping[str, str]:
    """Properties of a catalog that is elsewhere; none for the other kinds, which would not know what to do with them.

    Raises Refused when a setting of the group is given that the catalog in use does not have.
    """
    given = settings.catalog
    kind = kind_of(catalog_address(settings))
    if kind != "rest":
        known = (*_OF_EVERY_CATALOG, *_OF_METASTORES.get(kind, ()))
        unused = [name for name, value in _own(given).items() if value and name not in known]
        if unused:
            raise Refused(f"catalog settings for a REST catalog are given ({', '.join(sorted(unused))}), but catalog.uri names none")
        return _metastore(kind, settings) if kind in _OF_METASTORES else {}
    properties = {
        **_own(given),
        **_headers(given.headers),
        "rest.sigv4-enabled": _flag(value=given.sigv4),
        "vended-credentials": _flag(value=given.vended),
        "timeout-ms": str(given.timeout_ms),
    }
    if given.sigv4:
        properties["rest.signing-name"] = given.signing_name
    return {name: value for name, value in {**storage_options(settings), **properties}.items() if value}


def kind_of(address: str) -> str:
    """``rest``, ``glue``, ``hive``, ``sql`` or ``memory``."""
    return address.partition(":")[0].partition("+")[0]


def shared_properties(settings: FrazilSettings, address: str) -> Mapping[str, str]:
    """What the process knows for any catalog at ``address``: how tables' files are reached, whom to trust, how long to wait."""
    given = settings.catalog
    properties = {**storage_options(settings), "ssl.cabundle": given.ca_file, "timeout-ms": str(given.timeout_ms)}
    if kind_of(address) != "hive":  # thrift goes through no HTTP proxy
        properties["proxy"] = given.proxy
    return {name: value for name, value in properties.items() if value}


def _metastore(kind: str, settings: FrazilSettings) -> Mapping[str, str]:
    given = settings.catalog
    own = {"warehouse": given.warehouse}
    if kind == "glue":
        own |= {"glue.region": given.signing_region, "glue.id": given.glue_id}
    else:
        own |= {"hive.lock-enabled": _flag(value=given.hive_locks)}
    shared = shared_properties(settings, catalog_address(settings))
    return {name: value for name, value in {**shared, **own}.items() if value}


def storage_options(settings: FrazilSettings) -> Mapping[str, str]:
    """``s3.*`` options for tables' files that came without their own: the catalog group's, else those of the log's store."""
    given = settings.catalog
    if given.s3_endpoint or given.s3_access_key_id:
        return {
            "s3.endpoint": given.s3_endpoint,
            "s3.region": given.s3_region,
            "s3.access-key-id": given.s3_access_key_id,
            "s3.secret-access-key": given.s3_secret_access_key,
        }
    log = settings.s3
    return {
        "s3.endpoint": log.endpoint,
        "s3.region": log.region,
        "s3.access-key-id": log.access_key_id,
        "s3.secret-access-key": log.secret_access_key,
        "s3.session-token": log.session_token,
        "s3.path-style-access": _flag(value=log.path_style),
        "s3.cabundle": log.ca_file,
    }


def _own(given: CatalogSettings) -> dict[str, str]:
    """Settings that have the same meaning as one property each."""
    return {
        "warehouse": given.warehouse,
        "prefix": given.prefix,
        "token": given.token,
        "credential": given.credential,
        "oauth2-server-uri": given.oauth2_server_uri,
        "scope": given.scope,
        "audience": given.audience,
        "resource": given.resource,
        "rest.signing-region": given.signing_region,
        "ssl.cabundle": given.ca_file,
        "proxy": given.proxy,
    }


def _headers(text: str) -> dict[str, str]:
    headers = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, sign, value = part.partition("=")
        if not sign or not name.strip():
            raise Refused("catalog.headers: write Name=value, Name=value")
        headers[f"header.{name.strip()}"] = value.strip()
    return headers


def _flag(*, value: bool) -> str:
    return "true" if value else "false"


def _with_kind(uri: str) -> str:
    """A bare http address is a REST catalog's."""
    return f"rest+{uri}" if uri.startswith(("http://", "https://")) else uri
