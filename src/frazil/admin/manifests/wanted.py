"""Manifests → the objects they ask for, each with one owner (R35: two manifests writing one table are refused). Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from frazil.admin.manifests.catalogspec import CatalogSpec, NamedCatalogSpec
from frazil.admin.manifests.documents import Manifest, check_together
from frazil.admin.manifests.fields import Secret, entries, is_declared
from frazil.admin.manifests.interpolate import is_template
from frazil.admin.manifests.kinds import FRAZIL, KafkaProcessing, KafkaProcessorSpec, ProcessorSpec, TableSpec, TopicSpec
from frazil.admin.manifests.place import ManifestFault
from frazil.metadata.landings import LandingSpec

DEFAULT_CATALOG: Final = "default"
OWNER: Final = "manifest"
"""The option of a landing that names its manifest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedTopic:
    """A topic; configs that are not named keep what they have."""

    name: str
    partitions: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedCatalog:
    """A named catalog. ``document`` is a manifest of ``kind: Catalog`` as JSON whose secrets are references."""

    name: str
    document: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Everything that some manifests ask for, in order of creation."""

    topics: tuple[WantedTopic, ...]
    catalogs: tuple[WantedCatalog, ...]
    landings: tuple[LandingSpec, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LandingDefaults:
    """What a table gets that does not say otherwise."""

    commit_interval_ms: int
    commit_bytes: int


def wanted_of(manifests: Sequence[Manifest], defaults: LandingDefaults) -> Wanted:
    """The objects. Raises ManifestFault when two manifests ask for the same one."""
    check_together(manifests)
    topics: dict[str, tuple[WantedTopic, Manifest]] = {}
    catalogs: dict[str, tuple[WantedCatalog, Manifest]] = {}
    landings: dict[str, tuple[LandingSpec, Manifest]] = {}
    for manifest in manifests:
        spec = manifest.spec
        if isinstance(spec, TopicSpec):
            topic = WantedTopic(name=spec.topic_name or manifest.metadata.name, partitions=spec.partitions, configs=spec.configs)
            _claim(topics, topic.name, topic, manifest, f"topic {topic.name}")
        if isinstance(spec, NamedCatalogSpec | ProcessorSpec):
            catalog = _catalog(manifest, spec if isinstance(spec, NamedCatalogSpec) else spec.sink.catalog)
            _claim(catalogs, catalog.name, catalog, manifest, f"catalog {catalog.name}")
        for landing in landings_of(manifest, defaults):
            _claim(landings, landing.table, landing, manifest, f"table {landing.table}")
    return Wanted(topics=_values(topics), catalogs=_values(catalogs), landings=_values(landings))


def landings_of(manifest: Manifest, defaults: LandingDefaults) -> tuple[LandingSpec, ...]:
    """The landings of one manifest."""
    spec = manifest.spec
    if isinstance(spec, TableSpec):
        return (_of_table(manifest, spec, defaults),)
    if not isinstance(spec, ProcessorSpec | KafkaProcessorSpec):
        return ()
    processing = spec.processing
    further = processing.options if isinstance(processing, KafkaProcessing) else {}
    return tuple(
        LandingSpec(
            table=f"{spec.sink.database}.{spec.sink.table_prefix}{topic.replace('.', '__')}",
            topics=(topic,),
            value=processing.value if isinstance(processing, KafkaProcessing) else "json",
            commit_interval_ms=spec.processing.commit_interval_seconds * 1000,
            commit_bytes=defaults.commit_bytes,
            options={**further, "catalog": manifest.metadata.name, OWNER: manifest.title},
        )
        for topic in spec.source.topics
    )


def document_of(manifest: Manifest) -> dict[str, Any]:
    """The manifest as JSON: secrets as they are written in it, everything else as it came out, defaults left out."""
    return {
        "apiVersion": manifest.api_version,
        "kind": manifest.kind,
        "metadata": {"name": manifest.metadata.name},
        "spec": _plain(manifest.spec),
    }


def _of_table(manifest: Manifest, spec: TableSpec, defaults: LandingDefaults) -> LandingSpec:
    options = {**spec.options, OWNER: manifest.title}
    if spec.catalog != DEFAULT_CATALOG:
        options["catalog"] = spec.catalog
    if spec.paused:
        options["paused"] = "true"
    if spec.key != "raw":
        options["key"] = spec.key
    if spec.recreated != "stop":
        options["recreated"] = spec.recreated
    seconds = spec.commit_interval_seconds
    return LandingSpec(
        table=spec.table or manifest.metadata.name,
        topics=spec.topics,
        value=spec.value,
        columns=spec.columns,
        metadata_columns=spec.metadata_columns,
        commit_interval_ms=defaults.commit_interval_ms if seconds is None else seconds * 1000,
        commit_bytes=spec.commit_bytes or defaults.commit_bytes,
        options=options,
    )


def _catalog(manifest: Manifest, spec: CatalogSpec) -> WantedCatalog:
    if manifest.metadata.name == DEFAULT_CATALOG:
        raise ManifestFault(manifest.place, f"catalog {DEFAULT_CATALOG!r} is the cluster's own; choose another metadata.name")
    auth = spec.auth
    secrets: list[tuple[str, object]] = [("auth.client_secret", auth.client_secret), ("auth.token", auth.token)] if auth else []
    if isinstance(spec, NamedCatalogSpec):
        secrets += [(f"properties.{name}", value) for name, value in spec.properties.items()]
    for key, secret in secrets:
        if isinstance(secret, Secret) and not is_template(secret.template):
            raise ManifestFault(
                manifest.place,
                f"{key} is written out, and the cluster would keep it readable; write ${{VARIABLE}}, which landing looks up, "
                "or use credentials.secretRef",
            )
    document = {"apiVersion": FRAZIL, "kind": "Catalog", "metadata": {"name": manifest.metadata.name}, "spec": _plain(spec)}
    return WantedCatalog(name=manifest.metadata.name, document=json.dumps(document, ensure_ascii=False, sort_keys=True))


def _plain(spec: object) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in entries(type(spec)):
        value = getattr(spec, one.name)
        if value == one.default and not one.required:
            continue
        found[one.key] = _value(value)
    return found


def _value(value: object) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, Secret):
        return value.template
    if is_declared(type(value)):
        return _plain(value)
    if isinstance(value, str):
        return value.replace("${", "$${")
    if isinstance(value, tuple):
        return [_value(item) for item in value]
    return {key: _value(item) for key, item in value.items()} if isinstance(value, Mapping) else value


def _claim(owners: dict[str, tuple[Any, Manifest]], name: str, thing: object, manifest: Manifest, what: str) -> None:
    _, first = owners.setdefault(name, (thing, manifest))
    if first is not manifest:
        raise ManifestFault(
            manifest.place, f"{manifest.title} writes {what}, which {first.title} at {first.place} writes already; take one of them away"
        )


def _values(owners: Mapping[str, tuple[Any, Manifest]]) -> tuple[Any, ...]:
    return tuple(thing for thing, _ in owners.values())
