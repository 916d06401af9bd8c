"""The catalog port: tables by name, changed by requirements and updates in the shapes of the Iceberg REST specification.

Requirements and updates are plain JSON objects (``{"type": "assert-ref-snapshot-id", …}``, ``{"action": "add-snapshot", …}``), so that a
REST back-end sends them as they are and an embedded back-end applies them with ``metadata_json``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import pyarrow as pa

from frazil.kit.chance import Chance
from frazil.kit.clock import Clock
from frazil.kit.errors import Refused
from frazil.kit.faultpoints import FaultPoints
from frazil.kit.tasks import Offload
from frazil.objects.port import ObjectStore

OWNS_LOCATION: Final = "frazil.owns-location"
"""Table property: the location that was made for this table alone. Only there does care judge files that no metadata names."""
JsonObject = Mapping[str, Any]
"""A JSON object; frozen by convention: nobody changes one that was handed over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedTable:
    """One table as of one metadata file."""

    ident: str
    """``namespace.name``."""
    metadata: JsonObject
    """The table metadata as Iceberg's JSON (format version 2)."""
    metadata_location: str
    read_only: str = ""
    """Why nobody can commit to it through this catalog; empty: one can."""

    @property
    def uuid(self) -> str:
        """Identity of the table; a re-created table of the same name has another one (F58)."""
        return str(self.metadata["table-uuid"])

    @property
    def location(self) -> str:
        """Where the table's files are."""
        return str(self.metadata["location"])

    @property
    def data_location(self) -> str:
        """Where its new data and delete files go: the property ``write.data.path``, else ``data`` in its location."""
        return str(self.metadata.get("properties", {}).get("write.data.path") or f"{self.location}/data").rstrip("/")


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTable:
    """What a new table looks like; format version 2."""

    schema: pa.Schema
    properties: Mapping[str, str] = field(default_factory=dict)
    partition_spec: JsonObject = field(default_factory=lambda: {"spec-id": 0, "fields": []})
    """In the field ids of ``catalogs.schema.new_schema``; see ``catalogs.layout``."""
    sort_order: JsonObject = field(default_factory=lambda: {"order-id": 0, "fields": []})


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogDeps:
    """What every part of this room works with."""

    objects: ObjectStore
    offload: Offload
    clock: Clock
    chance: Chance
    faults: FaultPoints


class Catalog(Protocol):
    """Named tables with compare-and-swap commits."""

    async def load(self, ident: str) -> LoadedTable:
        """The table as of now. Raises Missing, RetryLater."""
        ...

    async def create(self, ident: str, table: CreateTable) -> LoadedTable:
        """A new empty table; its namespace is made when absent. Raises Conflict when the name is taken, Refused, RetryLater."""
        ...

    async def commit(self, ident: str, base: LoadedTable, requirements: Sequence[JsonObject], updates: Sequence[JsonObject]) -> LoadedTable:
        """Applies all updates to the newest metadata if every requirement holds there. ``base`` saves reading it when it is the newest.

        Raises Conflict when a requirement failed, OutcomeUnknown when the answer was lost, RetryLater when nothing was applied,
        Refused when the request is wrong as it stands, Missing when there is no such table.
        """
        ...

    async def list(self, namespace: str) -> tuple[str, ...]:
        """The ``namespace.name`` of every table of the namespace, in order; an unknown namespace has none."""
        ...

    async def drop(self, ident: str) -> None:
        """Forgets the table; its files stay. Raises Missing."""
        ...

    @property
    def objects(self) -> ObjectStore | None:
        """The store of the tables' files where the catalog decides that; its keys are locations. None: the process's own object store."""
        return None

    async def unfit(self) -> str:
        """Why no commit of ours can ever succeed, as the catalog says of itself; empty: nothing is known. Raises Refused, RetryLater."""
        return ""

    async def reading(self, table: LoadedTable) -> Mapping[str, str]:
        """What another engine needs to read the table's files, under Iceberg's ``s3.*`` names; empty when the locations are enough.

        Raises RetryLater, Refused.
        """
        return {}

    async def close(self) -> None:
        """Ends connections, if there are any."""
        return


def split_ident(ident: str) -> tuple[str, str]:
    """``a.b.name`` → (``a.b``, ``name``). Raises Refused when a part is empty or not fit for a path."""
    namespace, dot, name = ident.rpartition(".")
    parts = ident.split(".")
    if not dot or not all(parts) or any("/" in part or "\0" in part for part in parts) or len(ident) > 400:
        raise Refused(f"table name {ident[:100]!r}: write namespace.name, without '/' and shorter than 400 characters")
    return namespace, name
