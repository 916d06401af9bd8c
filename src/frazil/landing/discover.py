"""Stage discover: which tables should exist, and which topics feed each. Pure.

A topic named by a landing spec lands where the spec says. With ``auto`` every other topic lands in
``{namespace}.{topic}``; dots, which separate namespaces in Iceberg names, become two underscores, so that ``orders.v1``,
``orders-v1`` and ``orders_v1`` stay three tables (F44). Topics that begin with ``__`` belong to Kafka itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from frazil.metadata.landings import LandingSpec
from frazil.metadata.topics import TopicRecord

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
    return Discovered(specs=tuple(chosen[table] for table in sorted(chosen)), refusals=tuple(refusals))


def _automatic(topic: str, auto: AutoLanding, interval_ms: int) -> LandingSpec:
    return LandingSpec(
        table=auto_table(auto.namespace, topic),
        topics=(topic,),
        value=auto.value,
        metadata_columns=auto.metadata_columns,
        commit_interval_ms=interval_ms,
        commit_bytes=auto.commit_bytes,
    )
