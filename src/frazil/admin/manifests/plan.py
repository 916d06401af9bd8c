"""Compares what manifests ask for with what the cluster has, and makes it so. Commands and, later, the operator share this path."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import yaml

from frazil.admin.manifests.wanted import OWNER, Wanted, WantedCatalog, WantedTopic
from frazil.kit.errors import Refused
from frazil.metadata.landings import LandingSpec

CREATED: Final = "created"
CHANGED: Final = "changed"
UNCHANGED: Final = "unchanged"


class ManifestTarget(Protocol):
    """The cluster as manifests see it: what is there, and how to change it. Setting what is there already is no error."""

    async def topic(self, name: str) -> WantedTopic | None:
        """The topic with all its configs."""
        ...

    async def create_topic(self, topic: WantedTopic) -> None:
        """Makes it."""
        ...

    async def change_topic(self, topic: WantedTopic, before: WantedTopic) -> None:
        """More partitions, other configs."""
        ...

    async def catalog(self, name: str) -> str | None:
        """The document of a named catalog."""
        ...

    async def put_catalog(self, catalog: WantedCatalog) -> None:
        """Creates or replaces it."""
        ...

    async def landing(self, table: str) -> LandingSpec | None:
        """The landing into a table."""
        ...

    async def put_landing(self, landing: LandingSpec) -> None:
        """Creates or replaces it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One object: as it is (None: not there), as it should be, and what to do about it."""

    title: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any]
    wanted: WantedTopic | WantedCatalog | LandingSpec
    existing: WantedTopic | None = None
    """For a topic: what is changed."""

    @property
    def verdict(self) -> str:
        """``created``, ``changed`` or ``unchanged``."""
        if self.before is None:
            return CREATED
        return UNCHANGED if self.before == self.after else CHANGED

    def diff(self) -> str:
        """Unified, empty when nothing changes."""
        before, after = _lines(self.before), _lines(self.after)
        return "".join(difflib.unified_diff(before, after, f"{self.title} (cluster)", f"{self.title} (manifest)"))


async def plan_steps(wanted: Wanted, target: ManifestTarget) -> tuple[Step, ...]:
    """One step per object, in the order in which they can be made. Raises Refused when one cannot be, before any is."""
    steps = [await _topic_step(topic, target) for topic in wanted.topics]
    for catalog in wanted.catalogs:
        there = await target.catalog(catalog.name)
        before = None if there is None else json.loads(there)["spec"]
        steps.append(Step(title=f"catalog {catalog.name}", before=before, after=json.loads(catalog.document)["spec"], wanted=catalog))
    catalogs = {"default", *(catalog.name for catalog in wanted.catalogs)}
    for landing in wanted.landings:
        name = landing.options.get("catalog", "default")
        if name not in catalogs and await target.catalog(name) is None:
            raise Refused(f"table {landing.table}: no catalog {name!r} in the cluster or in these manifests; apply its kind: Catalog too")
        existing = await target.landing(landing.table)
        check_owner(landing, existing)
        steps.append(
            Step(
                title=f"table {landing.table}",
                before=None if existing is None else _landing(existing),
                after=_landing(landing),
                wanted=landing,
            )
        )
    return tuple(steps)


async def carry_out(step: Step, target: ManifestTarget) -> None:
    """Makes one object what it should be; nothing when it is. Raises what the cluster says."""
    if step.verdict == UNCHANGED:
        return
    if isinstance(step.wanted, WantedCatalog):
        await target.put_catalog(step.wanted)
    elif isinstance(step.wanted, LandingSpec):
        await target.put_landing(step.wanted)
    elif step.existing is None:
        await target.create_topic(step.wanted)
    else:
        await target.change_topic(step.wanted, step.existing)


async def _topic_step(topic: WantedTopic, target: ManifestTarget) -> Step:
    existing = await target.topic(topic.name)
    after = {"partitions": topic.partitions, "configs": dict(sorted(topic.configs.items()))}
    if existing is None:
        return Step(title=f"topic {topic.name}", before=None, after=after, wanted=topic)
    if topic.partitions < existing.partitions:
        raise Refused(
            f"topic {topic.name} has {existing.partitions} partitions and cannot shrink to {topic.partitions}; "
            f"write at least {existing.partitions}"
        )
    configs = {name: existing.configs[name] for name in sorted(topic.configs) if name in existing.configs}
    before = {"partitions": existing.partitions, "configs": configs}
    return Step(title=f"topic {topic.name}", before=before, after=after, wanted=topic, existing=existing)


def check_owner(landing: LandingSpec, existing: LandingSpec | None) -> None:
    """Two manifests that write one table would undo each other for ever (R35). A landing made by hand is taken over."""
    owner = "" if existing is None else existing.options.get(OWNER, "")
    if owner not in ("", landing.options.get(OWNER)):
        raise Refused(
            f"table {landing.table} is written by {owner}, and {landing.options.get(OWNER)} would write it too; "
            f"end the first with `frazil table drop {landing.table}`, or choose another table"
        )


def _landing(spec: LandingSpec) -> dict[str, Any]:
    found: dict[str, Any] = {
        "topics": list(spec.topics),
        "value": spec.value,
        "columns": list(spec.columns),
        "metadataColumns": spec.metadata_columns,
        "commitIntervalMs": spec.commit_interval_ms,
        "commitBytes": spec.commit_bytes,
    }
    return {**found, **dict(sorted(spec.options.items()))}


def _lines(document: Mapping[str, Any] | None) -> Sequence[str]:
    if document is None:
        return []
    return yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True, default_flow_style=False).splitlines(keepends=True)
