"""Text → manifests. Pure: bytes and variables in, frozen values or a ManifestFault out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from frazil.admin.manifests.catalogspec import NamedCatalogSpec
from frazil.admin.manifests.kinds import OPTION_KEYS, SPECS, WITH_COLUMNS, KafkaProcessorSpec, Metadata, ProcessorSpec, TableSpec, TopicSpec
from frazil.admin.manifests.place import ManifestFault, Place, nearest, shown
from frazil.admin.manifests.reading import Reading, at, read_mapping, what
from frazil.admin.manifests.tree import Items, Mapped, Node, Scalar, parse_documents
from frazil.kit.errors import Refused
from frazil.kit.names import is_topic_name
from frazil.schemas import parse_columns

Spec: TypeAlias = TopicSpec | TableSpec | NamedCatalogSpec | ProcessorSpec | KafkaProcessorSpec
Locate: TypeAlias = Callable[[str], Place]

_KEYS: Final = ("apiVersion", "kind", "metadata", "spec")
_LANDED_COLUMNS: Final = ("_topic", "_kafka_partition", "_offset", "_timestamp", "_key", "_headers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One object that somebody wants. ``place`` is where its document begins."""

    api_version: str
    kind: str
    metadata: Metadata
    spec: Spec
    place: Place

    @property
    def title(self) -> str:
        """``Kind/name``, the object's identity."""
        return f"{self.kind}/{self.metadata.name}"


def read_manifests(text: str | bytes, file: str, variables: Mapping[str, str]) -> tuple[Manifest, ...]:
    """The manifests of one file. ``variables`` are what ``${NAME}`` may name. Raises ManifestFault."""
    return tuple(_manifest(node, Reading(variables=variables)) for node in parse_documents(text, file))


def check_together(manifests: Sequence[Manifest]) -> None:
    """Raises ManifestFault when an object is described twice."""
    seen: dict[tuple[str, str], Manifest] = {}
    for manifest in manifests:
        first = seen.setdefault((manifest.api_version, manifest.title), manifest)
        if first is not manifest:
            raise ManifestFault(
                manifest.place, f"{manifest.title} is described at {first.place} already; give this one another metadata.name"
            )


def _manifest(node: Node, reading: Reading) -> Manifest:
    if not isinstance(node, Mapped):
        raise ManifestFault(node.place, f"want a manifest: a mapping with {', '.join(_KEYS)}, not {what(node)}")
    for key in node.nodes:
        if key not in _KEYS:
            hint = "status is Kubernetes' own; leave it out" if key == "status" else nearest(key, _KEYS)
            raise ManifestFault(node.keys[key], f"unknown key {shown(key)}; {hint}")
    api_version, kind = (_word(node, key) for key in ("apiVersion", "kind"))
    spec_kind = _spec_kind(node, api_version, kind)
    metadata = read_mapping(_part(node, "metadata"), Metadata, "metadata", reading)
    spec: Spec = read_mapping(_part(node, "spec"), spec_kind, "spec", reading)
    manifest = Manifest(api_version=api_version, kind=kind, metadata=metadata, spec=spec, place=node.place)
    _check(manifest, lambda path: _locate(node, path))
    return manifest


def _spec_kind(node: Mapped, api_version: str, kind: str) -> type:
    found = SPECS.get((api_version, kind))
    if found is not None:
        return found
    versions = sorted({version for version, _ in SPECS})
    if api_version not in versions:
        raise ManifestFault(
            at(node.nodes["apiVersion"], "apiVersion"), f"{shown(api_version)} is not known; {nearest(api_version, versions)}"
        )
    kinds = [known for version, known in SPECS if version == api_version]
    raise ManifestFault(at(node.nodes["kind"], "kind"), f"{api_version} has no kind {shown(kind)}; {nearest(kind, kinds)}")


def _word(node: Mapped, key: str) -> str:
    found = _part(node, key)
    if not isinstance(found, Scalar) or not isinstance(found.value, str):
        raise ManifestFault(at(found, key), f"want text, not {what(found)}")
    return found.value


def _part(node: Mapped, key: str) -> Node:
    if key not in node.nodes:
        raise ManifestFault(node.place, f"key {key!r} is missing; a manifest has {', '.join(_KEYS)}")
    return node.nodes[key]


def _locate(node: Node, path: str) -> Place:
    """The place of ``spec.columns[2]``, or of what is nearest above it."""
    found: Node = node
    for step in path.replace("[", ".").replace("]", "").split("."):
        if isinstance(found, Mapped) and step in found.nodes:
            found = found.nodes[step]
        elif isinstance(found, Items) and step.isdecimal() and int(step) < len(found.nodes):
            found = found.nodes[int(step)]
        else:
            break
    return at(found, path)


def _check(manifest: Manifest, locate: Locate) -> None:
    """What no single key can say."""
    spec = manifest.spec
    name = locate("metadata.name")
    if isinstance(spec, KafkaProcessorSpec) and (taken := {"catalog", "manifest"} & spec.processing.options.keys()):
        raise ManifestFault(locate("spec.processing.options"), f"option {shown(min(taken))} is this manifest's own; leave it out")
    if isinstance(spec, TopicSpec) and spec.topic_name is None and not is_topic_name(manifest.metadata.name):
        raise ManifestFault(name, f"{shown(manifest.metadata.name)} is not a topic name; write it as spec.topicName")
    if isinstance(spec, TableSpec):
        if spec.table is None and not all(("." in manifest.metadata.name, *manifest.metadata.name.split("."))):
            raise ManifestFault(name, f"{shown(manifest.metadata.name)} is not namespace.name; write the table as spec.table")
        _check_columns(spec, locate)
        for option, key in OPTION_KEYS.items():
            if option in spec.options:
                raise ManifestFault(locate("spec.options"), f"option {shown(option)} is written as {key}")


def _check_columns(spec: TableSpec, locate: Locate) -> None:
    if spec.key != "raw" and not spec.metadata_columns:
        raise ManifestFault(locate("spec.key"), "it says what the column _key holds, and metadataColumns is false")
    if spec.columns and spec.value not in WITH_COLUMNS:
        raise ManifestFault(locate("spec.columns"), f"values that are {spec.value} have no columns of their own; leave columns out")
    reserved = frozenset(_LANDED_COLUMNS) if spec.metadata_columns else frozenset[str]()
    try:
        parse_columns(spec.columns, reserved=reserved)
    except Refused as error:
        raise ManifestFault(locate(_bad_column(spec.columns, reserved)), str(error)) from error


def _bad_column(columns: Sequence[str], reserved: frozenset[str]) -> str:
    """Path of the first column that is wrong by itself, or of them all."""
    for number, column in enumerate(columns):
        try:
            parse_columns((column,), reserved=reserved)
        except Refused:
            return f"spec.columns[{number}]"
    return "spec.columns"
