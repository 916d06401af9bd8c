"""Storage access that came with a loaded table: per location prefix, some of it for a limited time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from frazil.catalogs.tablestore import VENDED_KEYS, Access

DELEGATION: Final = {"X-Iceberg-Access-Delegation": "vended-credentials"}
_EXPIRY: Final = "expires-at-ms"


def accesses_of(result: Mapping[str, Any], location: str, storage: Mapping[str, str]) -> tuple[Access, ...]:
    """What a load or credentials answer lets the client read and write.

    ``storage-credentials`` go before ``config``, and both before the catalog-wide ``storage``. What has no prefix is for wherever the
    table has files.
    """
    config = _storage(result.get("config"))
    found = []
    for entry in result.get("storage-credentials") or ():
        given = _storage(entry.get("config"))
        found.append(access(str(entry.get("prefix") or ""), given, {**storage, **config}))
    if not any(item.vended and location.startswith(item.prefix) for item in found):
        found.append(access("", config, storage))
    return tuple(found)


def access(prefix: str, given: Mapping[str, str], below: Mapping[str, str]) -> Access:
    """``given`` over ``below``. Keys come from one place only: a vended key pair is never used with another's session token."""
    vended = any(name in given for name in VENDED_KEYS)
    rest = {name: text for name, text in below.items() if not (vended and name in VENDED_KEYS)}
    ends = [int(text) for name, text in given.items() if name.endswith(_EXPIRY) and text.isdigit()]
    options = {name: text for name, text in {**rest, **given}.items() if not name.endswith(_EXPIRY)}
    return Access(prefix=prefix, options=options, vended=vended, ends_ms=min(ends, default=None))


def _storage(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        return {}
    return {str(name): str(text) for name, text in value.items() if str(name).startswith(("s3.", "client.")) and text is not None}
