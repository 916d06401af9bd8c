"""One SQL question over landed tables. Today one platform answers: DuckDB in this process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from frazil.kit.errors import Refused
from frazil.kit.tasks import Offload


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Column names and rows of Python values, in the order the engine gave them."""

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSource:
    """One Iceberg table as ``namespace.name``, the address of its current metadata file, and how its files are reached."""

    name: str
    metadata_location: str
    location: str = ""
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)
    """``s3.*`` names of Iceberg's clients; empty where an address is enough."""


class Platform(Protocol):
    """An engine that can run SQL over Iceberg tables."""

    def names(self, sql: str) -> frozenset[str]:
        """The table names a question mentions; Refused when it does not parse."""
        ...

    def run(self, sql: str, tables: Sequence[TableSource]) -> Answer:
        """Runs the question with ``tables`` bound to their names."""
        ...


Locate = Callable[[str], Awaitable[TableSource | None]]
"""Finds a table of the catalog by ``namespace.name``; None when there is none."""


async def ask(sql: str, *, platform: Platform, locate: Locate, offload: Offload) -> Answer:
    """Answers ``sql``. Tables are read at the snapshot that is current when the question starts.

    Raises Refused for SQL the engine does not accept, naming the place.
    """
    mentioned = await offload.run(lambda: platform.names(sql))
    found = [await locate(name) for name in sorted(mentioned)]
    tables = [source for source in found if source is not None]
    try:
        return await offload.run(lambda: platform.run(sql, tables))
    except Refused as error:
        missing = [name for name, source in zip(sorted(mentioned), found, strict=True) if source is None and "." in name]
        if not missing:
            raise
        raise Refused(f"{error}\nNot landed: {', '.join(missing)}; `frazil table list` shows the tables there are") from error
