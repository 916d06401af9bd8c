"""The tables that each route feeds, and the value whose records each was named for: the first to claim a table has it (R07).

A claim is made before the table is, so two values that would land in one table never do, in whatever order they come after a restart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from frazil.metadata.change import settle
from frazil.metadata.opening import prefix_end
from frazil.metadata.port import Entry, MetadataStore, Write
from frazil.metadata.values import decode, encode

PREFIX: Final = "route-tables/"


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteTable:
    """``route`` is the landing's table name. ``value``: whose records; None: the route's own map or default names the table."""

    route: str
    table: str
    value: str | None

    def encode(self) -> bytes:
        """The value of ``route-tables/{route}/{table}``."""
        named = {} if self.value is None else {"value": self.value}
        return encode({"route": self.route, "table": self.table, "named": self.value is not None, **named})

    @classmethod
    def decode(cls, value: bytes, *, where: str) -> RouteTable:
        """Reads ``encode``'s bytes. Raises Corrupt or Refused."""
        fields = decode(value, where=where)
        named = fields.flag("named")
        return cls(route=fields.text("route"), table=fields.text("table"), value=fields.text("value") if named else None)


async def claim_table(store: MetadataStore, wanted: RouteTable) -> RouteTable:
    """The claim that holds: ``wanted``, or the one somebody made before. Raises RetryLater."""
    key = f"{PREFIX}{wanted.route}/{wanted.table}"
    holder = wanted

    def decide(entries: Mapping[str, Entry]) -> list[Write]:
        nonlocal holder
        entry = entries[key]
        if entry.version:
            holder = RouteTable.decode(entry.value, where=key)
            return []
        holder = wanted
        return [Write(key=key, value=wanted.encode())]

    await settle(store, (key,), decide)
    return holder


async def list_route_tables(store: MetadataStore, route: str | None = None) -> tuple[RouteTable, ...]:
    """The tables of one route, or of all, by table. Raises RetryLater."""
    prefix = PREFIX if route is None else f"{PREFIX}{route}/"
    found = await store.range(prefix, prefix_end(prefix))
    return tuple(RouteTable.decode(entry.value, where=entry.key) for entry in found.entries)


async def forget_route(store: MetadataStore, route: str) -> None:
    """Takes all claims of a route away; its tables stay. Raises RetryLater."""
    for claim in await list_route_tables(store, route):
        key = f"{PREFIX}{route}/{claim.table}"
        await settle(store, (key,), _drop)


def _drop(entries: Mapping[str, Entry]) -> list[Write]:
    return [Write(key=key, value=None) for key, entry in entries.items() if entry.version]
