"""Stage discover: which tables should exist, and which topics feed each. Pure.

A topic named by a landing spec lands where the spec says. With ``auto`` every other topic lands in
``{namespace}.{topic}``; dots, which separate namespaces in Iceberg names, become two underscores, so that ``orders.v1``,
``orders-v1`` and ``orders_v1`` stay three tables (F44). Topics that begin with ``__`` belong to Kafka itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from frazil.metadata.landings import LandingSpec

DEAD_SUFFIX = "_dead"


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


def dead_table(table: str) -> str:
    """The dead-letter table of a table (R15)."""
    return table + DEAD_SUFFIX


def discover(specs: Sequence[LandingSpec], topics: Iterable[str], auto: AutoLanding | None, *, interval_ms: int) -> Discovered:
    """Specs from metadata plus one automatic spec per topic that no spec names. ``interval_ms`` is for automatic ones."""
    chosen = {spec.table: spec for spec in specs}
    named = {topic for spec in specs for topic in spec.topics}
    refusals: dict[str, Refusal] = {}
    for topic in sorted(set(topics) - named) if auto is not None else ():
        if topic.startswith("__"):
            continue
        assert auto is not None
        table = auto_table(auto.namespace, topic)
        if table in chosen:
            taken = ", ".join(chosen[table].topics)
            why = f"topic {topic!r} would land in {table}, which already takes {taken}; give it a table of its own"
            refusals[f"{table}:{topic}"] = Refusal(table=table, topics=(topic,), why=why)
            continue
        chosen[table] = LandingSpec(
            table=table,
            topics=(topic,),
            value=auto.value,
            columns=(),
            metadata_columns=auto.metadata_columns,
            commit_interval_ms=interval_ms,
            commit_bytes=auto.commit_bytes,
        )
    for table in sorted(chosen):
        owner = table.removesuffix(DEAD_SUFFIX)
        if owner != table and owner in chosen:
            why = f"{table} is the dead-letter table of {owner}; choose another table for {', '.join(chosen[table].topics)}"
            refusals[table] = Refusal(table=table, topics=chosen[table].topics, why=why)
    good = tuple(chosen[table] for table in sorted(chosen) if table not in refusals)
    return Discovered(specs=good, refusals=tuple(refusals[key] for key in sorted(refusals)))
