"""Addresses and properties of metastores, under the names that PyIceberg and Iceberg's Java client use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from frazil.catalogs.rest.properties import SigV4Properties, secrets_in
from frazil.kit.errors import Refused

_SHARED: Final = frozenset({"warehouse", "ssl.cabundle", "proxy", "timeout-ms"})
_GLUE: Final = frozenset(
    {"glue.id", "glue.region", "glue.access-key-id", "glue.secret-access-key", "glue.session-token", "rest.signing-region"}
)
_HIVE: Final = frozenset({"hive.lock-enabled", "hive.ugi"})
_PASSED_ON: Final = ("s3.", "client.")
_TIMEOUT_MS: Final = 60_000
_HIVE_PORT: Final = 9083


@dataclass(frozen=True, slots=True, kw_only=True)
class GlueProperties:
    """A Glue Data Catalog's address and everything said about it, checked."""

    endpoint: str
    """``https://glue.region.amazonaws.com``, without a path."""
    sigv4: SigV4Properties
    catalog_id: str = ""
    """AWS account; empty: the one of the keys."""
    warehouse: str = ""
    ca_file: str = ""
    proxy: str = field(default="", repr=False)
    timeout_ms: int = _TIMEOUT_MS
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: frozenset[str] = field(default=frozenset(), repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class HiveProperties:
    """A Hive metastore's address and everything said about it, checked."""

    host: str
    port: int
    user: str = ""
    """``hive.ugi``; empty: the user of the process."""
    warehouse: str = ""
    locks: bool = True
    """Take Hive's own lock around a commit, for writers that rely on it alone."""
    timeout_ms: int = _TIMEOUT_MS
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)


def glue_properties(url: str, properties: Mapping[str, str]) -> GlueProperties:
    """Checks ``glue:`` or ``glue+https://…`` and its properties. Raises Refused naming the property and what would be right."""
    given = _known("glue", properties, _SHARED | _GLUE)

    def first(*names: str) -> str:
        return next((given[name] for name in names if given.get(name)), "")

    region = first("glue.region", "rest.signing-region", "client.region", "s3.region")
    if not region:
        raise Refused("catalog glue: it needs a region: glue.region")
    endpoint = url.removeprefix("glue").removeprefix("+").removeprefix(":") or f"https://glue.{region}.amazonaws.com"
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or parts.query or parts.username:
        raise Refused("catalog url of glue: write glue: (the region's own address) or glue+https://host")
    keys = {name: first(f"glue.{name}", f"client.{name}", f"s3.{name}") for name in ("access-key-id", "secret-access-key", "session-token")}
    return GlueProperties(
        endpoint=endpoint.rstrip("/"),
        sigv4=SigV4Properties(
            service="glue",
            region=region,
            access_key_id=keys["access-key-id"],
            secret_access_key=keys["secret-access-key"],
            session_token=keys["session-token"],
        ),
        catalog_id=given.get("glue.id", ""),
        warehouse=given.get("warehouse", ""),
        ca_file=given.get("ssl.cabundle", ""),
        proxy=given.get("proxy", ""),
        timeout_ms=_milliseconds(given),
        storage={"s3.region": region, **_storage(given)},
        secrets=secrets_in(given),
    )


def hive_properties(url: str, properties: Mapping[str, str]) -> HiveProperties:
    """Checks ``hive://host:9083`` and its properties. Raises Refused naming the property and what would be right."""
    given = _known("hive", properties, _SHARED | _HIVE)
    if "proxy" in given:
        raise Refused("catalog hive: thrift goes through no HTTP proxy; leave proxy away")
    try:
        parts = urlsplit(url)
        port = parts.port or _HIVE_PORT
    except ValueError:
        raise Refused("catalog url of hive: the port is no number from 1 to 65535") from None
    if parts.scheme != "hive" or not parts.hostname or parts.path.strip("/") or parts.query or parts.fragment or parts.username:
        raise Refused("catalog url of hive: write hive://host:9083")
    locks = given.get("hive.lock-enabled", "true").lower()
    if locks not in ("true", "false"):
        raise Refused(f"catalog property hive.lock-enabled: write true or false, not {locks[:40]!r}")
    return HiveProperties(
        host=parts.hostname,
        port=port,
        user=given.get("hive.ugi", "").partition(":")[0],
        warehouse=given.get("warehouse", ""),
        locks=locks == "true",
        timeout_ms=_milliseconds(given),
        storage=_storage(given),
    )


def _known(kind: str, properties: Mapping[str, str], names: frozenset[str]) -> dict[str, str]:
    for name in properties:
        if name not in names and not name.startswith(_PASSED_ON):
            raise Refused(f"catalog {kind}: property {name!r} is not known; known: {', '.join(sorted(names))}, s3.*, client.*")
    return {name: value for name, value in properties.items() if value != ""}


def _milliseconds(given: Mapping[str, str]) -> int:
    text = given.get("timeout-ms", str(_TIMEOUT_MS))
    if not text.isdigit() or int(text) == 0:
        raise Refused(f"catalog property timeout-ms: write a whole number of milliseconds, not {text[:40]!r}")
    return int(text)


def _storage(given: Mapping[str, str]) -> dict[str, str]:
    found = {name: value for name, value in given.items() if name.startswith(_PASSED_ON)}
    return {**({"s3.cabundle": given["ssl.cabundle"]} if "ssl.cabundle" in given else {}), **found}
