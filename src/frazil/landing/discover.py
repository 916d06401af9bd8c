"""Stage discover: which tables should exist, and which topics feed each. Pure.

A topic named by a landing spec lands where the spec says. With ``auto`` every other topic lands in
``{namespace}.{topic}``; dots, which separate namespaces in Iceberg names, become two underscores, so that ``orders.v1``,
``orders-v1`` and ``orders_v1`` stay three tables (F44). Topics that begin with ``__`` belong to Kafka itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from frazil.kit.errors import Refused
from frazil.landing.routing import Route, route_of, same_tables
from frazil.metadata.landings import DEAD_SUFFIX as DEAD_SUFFIX
from frazil.metadata.landings import LandingSpec
from frazil.metadata.landings import dead_table as dead_table
from frazil.metadata.topics import TopicRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoLanding:
    """How topics without a spec land: namespace of their tables, and what their values are (``json`` or ``raw``)."""

    namespace: str = "default"
    value: str = "json"
    metadata_columns: bool = True
    commit_bytes: int = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A table that cannot be landed as asked, and what to change."""

    table: str
    topics: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovered:
    """Specs to work on and wishes that contradict each other, both in order of table name."""

    specs: tuple[LandingSpec, ...]
    refusals: tuple[Refusal, ...]


def auto_table(namespace: str, topic: str) -> str:
    """The table of a topic without a spec. Same topic, same table, on every day and machine."""
    return f"{namespace}.{topic.replace('.', '__')}"


def discover(specs: Sequence[LandingSpec], topics: Iterable[TopicRecord], auto: AutoLanding | None, *, interval_ms: int) -> Discovered:
    """Specs from metadata plus one automatic spec per topic that no spec names. ``interval_ms`` is for automatic ones.

    Of two topics that want the same table the older one has it; a newcomer never takes a table over.
    """
    chosen = {spec.table: spec for spec in specs}
    named = {topic for spec in specs for topic in spec.topics}
    refusals: list[Refusal] = []
    if auto is not None:
        for topic in sorted(topics, key=lambda record: (record.created_ms, record.name)):
            if topic.name in named or topic.name.startswith("__"):
                continue
            spec = _automatic(topic.name, auto, interval_ms)
            taken = chosen.setdefault(spec.table, spec)
            if taken is not spec:
                why = f"topic {topic.name!r} would land in {spec.table}, which takes {', '.join(taken.topics)}; give it a table of its own"
                refusals.append(Refusal(table=f"{spec.table} ({topic.name})", topics=spec.topics, why=why))
    for table in sorted(chosen):
        owner = table.removesuffix(DEAD_SUFFIX)
        if owner != table and owner in chosen:
            topics_of = chosen.pop(table).topics
            why = f"{table} is the dead-letter table of {owner}; choose another table for {', '.join(topics_of)}"
            refusals.append(Refusal(table=table, topics=topics_of, why=why))
    refusals += _refuse_routes(chosen)
    return Discovered(specs=tuple(chosen[table] for table in sorted(chosen)), refusals=tuple(refusals))


def _refuse_routes(chosen: dict[str, LandingSpec]) -> list[Refusal]:
    """Takes routes away that name a table of another landing or route: one table has one writer. Wrong options are refused elsewhere."""
    routes: dict[str, Route] = {}
    refusals = []
    for table in sorted(chosen):
        try:
            route = route_of(chosen[table])
        except Refused:
            continue
        if route is None:
            continue
        why = _rival(route, table, chosen, routes)
        if why:
            refusals.append(Refusal(table=table, topics=chosen[table].topics, why=f"{why}; choose other tables for the route"))
        else:
            routes[table] = route
    for refusal in refusals:
        del chosen[refusal.table]
    return refusals


def _rival(route: Route, name: str, chosen: Mapping[str, LandingSpec], routes: Mapping[str, Route]) -> str:
    for table in sorted(route.named_tables):
        if table in chosen:
            return f"route {name} names {table}, which takes {', '.join(chosen[table].topics)}"
        if table.removesuffix(DEAD_SUFFIX) != table and table.removesuffix(DEAD_SUFFIX) in chosen:
            return f"route {name} names {table}, which is the dead-letter table of {table.removesuffix(DEAD_SUFFIX)}"
    for other, known in routes.items():
        shared = same_tables(route, known)
        if shared:
            return f"routes {name} and {other} would both write {shared[0]}"
    return ""


def _automatic(topic: str, auto: AutoLanding, interval_ms: int) -> LandingSpec:
    return LandingSpec(
        table=auto_table(auto.namespace, topic),
        topics=(topic,),
        value=auto.value,
        metadata_columns=auto.metadata_columns,
        commit_interval_ms=interval_ms,
        commit_bytes=auto.commit_bytes,
    )
