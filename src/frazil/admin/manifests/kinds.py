# ruff: noqa: RUF009 - entry() makes a dataclass field, as dataclasses.field() does
"""The kinds of ``frazil.dev/v1`` and ``kafscale.io/v1``: what a manifest may say, key by key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from frazil.admin.manifests.catalogspec import CatalogSpec, NamedCatalogSpec
from frazil.admin.manifests.fields import Rule, Secret, entry
from frazil.admin.manifests.kafkasource import KafkaSource

FRAZIL: Final = "frazil.dev/v1"
KAFSCALE: Final = "kafscale.io/v1"
WITH_COLUMNS: Final = ("json", "json-schema", "avro", "protobuf")
"""Kinds of values that have fields."""
KEYS: Final = ("raw", "string", "int", "long", "float", "double")
VALUES: Final = (*WITH_COLUMNS, *KEYS)
_TOPIC: Final = Rule(
    about="a Kafka topic",
    pattern=r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}",
    wanted="a topic name: 1 to 249 of A-Z a-z 0-9 . _ - and not '.' or '..'",
)
_TABLE_PART: Final = r"[^./\x00-\x1f\s]+"
_SECONDS_MAX: Final = 86_400


OPTION_KEYS: Final[Mapping[str, str]] = {
    "catalog": "spec.catalog",
    "key": "spec.key",
    "manifest": "metadata.name",
    "paused": "spec.paused",
    "recreated": "spec.recreated",
}
"""Options of a landing that a manifest has a key for: they are not given twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """Who the object is. Labels and annotations are kept for Kubernetes; Frazil does not read them."""

    name: str = entry(
        Rule(
            about="name of the object, one per kind",
            pattern=r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?",
            wanted="a name: letters, digits, '.', '_' and '-', at most 253, first and last a letter or digit",
            example="orders",
        )
    )
    namespace: str = entry(Rule(about="Kubernetes namespace; has no meaning elsewhere"), "")
    labels: Mapping[str, str] = entry(Rule(about="labels"), dict)
    annotations: Mapping[str, str] = entry(Rule(about="annotations", characters_max=262_144), dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSpec:
    """A topic of the cluster."""

    topic_name: str | None = entry(
        Rule(about="the topic, when metadata.name cannot be its name", pattern=_TOPIC.pattern, wanted=_TOPIC.wanted), None
    )
    partitions: int = entry(Rule(about="number of partitions; it can grow, not shrink", least=1, most=10_000), 1)
    configs: Mapping[str, str] = entry(
        Rule(
            about="topic settings by their Kafka names; those not named keep their default",
            numbers_too=True,
            example="retention.ms: 3600000",
        ),
        dict,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSpec:
    """Topics that land in one Iceberg table."""

    table: str | None = entry(
        Rule(
            about="the table, when metadata.name cannot be its name",
            pattern=rf"{_TABLE_PART}(\.{_TABLE_PART})+",
            wanted="namespace.name",
            characters_max=400,
            example="analytics.orders",
        ),
        None,
    )
    topics: tuple[str, ...] = entry(
        Rule(
            about="topics whose records land in the table", pattern=_TOPIC.pattern, wanted=_TOPIC.wanted, items_least=1, example="[orders]"
        )
    )
    value: str = entry(Rule(about="what record values are", choices=VALUES), "json")
    key: str = entry(Rule(about="what record keys are, and so the column _key", choices=KEYS), "raw")
    columns: tuple[str, ...] = entry(
        Rule(
            about="columns of the values, `name type` each; none: they are inferred and grow", example='["id long", "price decimal(10,2)"]'
        ),
        (),
    )
    metadata_columns: bool = entry(Rule(about="have _topic, _kafka_partition, _offset, _timestamp, _key and _headers in the table"), True)  # noqa: FBT003
    commit_interval_seconds: int | None = entry(
        Rule(about="time between two commits; default the setting landing.commit_interval_ms", least=1, most=_SECONDS_MAX), None
    )
    commit_bytes: int | None = entry(
        Rule(about="raw bytes that commit before the interval; default the setting landing.commit_bytes", least=1024, most=2**40), None
    )
    catalog: str = entry(
        Rule(about="catalog of the table: `default` is the cluster's own, any other a kind: Catalog", example="lake"), "default"
    )
    paused: bool = entry(Rule(about="do not land for now"), False)  # noqa: FBT003
    recreated: str = entry(
        Rule(
            about="what to do when the table was dropped or made anew: stop and say so, or fill it from the log's start",
            choices=("stop", "fill"),
        ),
        "stop",
    )
    options: Mapping[str, str] = entry(
        Rule(
            about="more options of the landing by name, as in docs/landing-options.md; those that have a key here are written there",
            numbers_too=True,
            characters_max=65_536,
            example="{route: field:type}",
        ),
        dict,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Source:
    """Objects of a log. Region, endpoint and keys come from AWS_… variables or an instance role."""

    bucket: str = entry(
        Rule(
            about="bucket with the log's objects",
            pattern=r"[A-Za-z0-9][A-Za-z0-9._-]{1,253}[A-Za-z0-9]",
            wanted="a bucket's name: 3 to 255 letters, digits, '.', '_' and '-'",
            example="kafscale-data",
        )
    )
    prefix: str = entry(
        Rule(
            about="what stands before {topic}/{partition}/segment-….kfs, KafScale's namespace; not read where a Frazil cluster lives",
            pattern=r"([^/\x00-\x1f]+/)*[^/\x00-\x1f]*",
            wanted="a key prefix without an empty part, for example segments/",
            example="segments/",
        ),
        "",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdSource:
    """The etcd of the KafScale cluster, read through its JSON gateway."""

    endpoints: tuple[str, ...] = entry(
        Rule(
            about="addresses of etcd's members",
            pattern=r"https?://[^\s/?#@]+",
            wanted="an http(s) URL without a path",
            items_least=1,
            example="[http://etcd:2379]",
        )
    )
    username: str | None = entry(Rule(about="user, where etcd asks for one", example="${ETCD_USER}"), None)
    password: Secret | None = entry(Rule(about="its password, best as ${VARIABLE}", characters_max=8192, example="${ETCD_PASSWORD}"), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorSource:
    """Which records."""

    topics: tuple[str, ...] = entry(
        Rule(
            about="topics to land, each in a table of its own",
            pattern=_TOPIC.pattern,
            wanted=_TOPIC.wanted,
            items_least=1,
            example="[events]",
        )
    )
    s3: S3Source = entry(Rule(about="where the log is"))
    etcd: EtcdSource | None = entry(
        Rule(about="KafScale's etcd, when it can be reached: topics and acknowledged ends, checked against the bucket"), None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorSink:
    """Which tables: ``{database}.{tablePrefix}{topic}``, dots of a topic's name as two underscores."""

    catalog: CatalogSpec = entry(Rule(about="catalog of the tables"))
    database: str = entry(
        Rule(
            about="namespace of the tables",
            pattern=rf"{_TABLE_PART}(\.{_TABLE_PART})*",
            wanted="a namespace such as analytics",
            example="analytics",
        )
    )
    table_prefix: str = entry(
        Rule(
            about="what stands before the topic in a table's name",
            pattern=r"[^./\x00-\x1f\s]*",
            wanted="part of a table name",
            example="streaming_",
        ),
        "",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Processing:
    """How."""

    parallelism: int = entry(Rule(about="slices decoded and converted at once", least=1, most=256), 2)
    commit_interval_seconds: int = entry(Rule(about="time between two commits of a table", least=1, most=_SECONDS_MAX), 60)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorSpec:
    """Lands topics of a log in object storage in tables of one catalog."""

    source: ProcessorSource = entry(Rule(about="which records"))
    sink: ProcessorSink = entry(Rule(about="which tables"))
    processing: Processing = entry(Rule(about="how"), Processing)


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaTopics:
    """Which records."""

    topics: tuple[str, ...] = entry(
        Rule(
            about="topics to land, each in a table of its own",
            pattern=_TOPIC.pattern,
            wanted=_TOPIC.wanted,
            items_least=1,
            example="[orders]",
        )
    )
    kafka: KafkaSource = entry(Rule(about="the Kafka cluster that has them"))


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaProcessing(Processing):
    """How."""

    value: str = entry(Rule(about="what record values are", choices=VALUES), "json")
    options: Mapping[str, str] = entry(
        Rule(
            about="options of the landings by name, as in docs/landing-options.md",
            numbers_too=True,
            characters_max=65_536,
            example="{isolation: read_uncommitted}",
        ),
        dict,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaProcessorSpec:
    """Lands topics of a Kafka cluster in tables of one catalog."""

    source: KafkaTopics = entry(Rule(about="which records"))
    sink: ProcessorSink = entry(Rule(about="which tables"))
    processing: KafkaProcessing = entry(Rule(about="how"), KafkaProcessing)


SPECS: Final[Mapping[tuple[str, str], type]] = {
    (FRAZIL, "Topic"): TopicSpec,
    (FRAZIL, "Table"): TableSpec,
    (FRAZIL, "Catalog"): NamedCatalogSpec,
    (FRAZIL, "KafkaProcessor"): KafkaProcessorSpec,
    (KAFSCALE, "IcebergProcessor"): ProcessorSpec,
}
"""What ``spec`` of each apiVersion and kind is."""
