"""The topic configs Kafka knows: type, default, what values this broker takes, and what it makes of them.

Everything Kafka documents may be set, so that tools which send their whole list work; values that would promise what is not
done here (broker-side compression, tiered storage switches) are refused with the reason. docs/limits.md lists which
configs are kept but have no effect.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from frazil.kit.errors import Refused

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1


class ConfigType(IntEnum):
    """Types as DescribeConfigs (v3+) numbers them."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """One known config. ``choices`` bound strings and list elements, ``least``/``most`` bound numbers."""

    name: str
    kind: ConfigType
    default: str
    doc: str
    least: float = -math.inf
    most: float = math.inf
    choices: tuple[str, ...] = ()
    why_not_others: str = ""


def _long(name: str, default: int, doc: str, *, least: int = 0, most: int = LONG_MAX) -> TopicConfig:
    return TopicConfig(name=name, kind=ConfigType.LONG, default=str(default), doc=doc, least=least, most=most)


def _int(name: str, default: int, doc: str, *, least: int = 0, most: int = INT_MAX) -> TopicConfig:
    return TopicConfig(name=name, kind=ConfigType.INT, default=str(default), doc=doc, least=least, most=most)


def _flag(name: str, doc: str, *, default: str = "false", only: str = "", why: str = "") -> TopicConfig:
    choices = (only,) if only else ("true", "false")
    return TopicConfig(name=name, kind=ConfigType.BOOLEAN, default=default, doc=doc, choices=choices, why_not_others=why)


def _list(name: str, doc: str) -> TopicConfig:
    return TopicConfig(name=name, kind=ConfigType.LIST, default="", doc=doc)


def _text(name: str, default: str, doc: str, choices: tuple[str, ...], why: str = "") -> TopicConfig:
    return TopicConfig(name=name, kind=ConfigType.STRING, default=default, doc=doc, choices=choices, why_not_others=why)


_KEPT = "kept and shown, no effect here"
TOPIC_CONFIGS: tuple[TopicConfig, ...] = (
    TopicConfig(
        name="cleanup.policy",
        kind=ConfigType.LIST,
        default="delete",
        doc="old data is deleted by age and size",
        choices=("delete",),
        why_not_others="log compaction is not there yet",
    ),
    _int("compression.gzip.level", -1, _KEPT, least=-1, most=9),
    _int("compression.lz4.level", 9, _KEPT, least=1, most=17),
    _text(
        "compression.type",
        "producer",
        "batches are kept as the producer compressed them",
        ("producer",),
        "the broker never compresses anew; set compression.type at the producer",
    ),
    _int("compression.zstd.level", 3, _KEPT, least=-131072, most=22),
    _long("delete.retention.ms", 86_400_000, _KEPT),
    _long("file.delete.delay.ms", 60_000, _KEPT),
    _long("flush.messages", LONG_MAX, "every acknowledged batch is durable; " + _KEPT, least=1),
    _long("flush.ms", LONG_MAX, "every acknowledged batch is durable; " + _KEPT),
    _list("follower.replication.throttled.replicas", _KEPT),
    _int("index.interval.bytes", 4096, _KEPT),
    _list("leader.replication.throttled.replicas", _KEPT),
    _long("local.retention.bytes", -2, _KEPT, least=-2),
    _long("local.retention.ms", -2, _KEPT, least=-2),
    _long("max.compaction.lag.ms", LONG_MAX, _KEPT, least=1),
    _int("max.message.bytes", 1_048_588, "largest batch taken, as compressed by the producer"),
    _long("message.timestamp.after.max.ms", LONG_MAX, "how far ahead of the broker's clock a batch's newest record may be"),
    _long("message.timestamp.before.max.ms", LONG_MAX, "how far behind the broker's clock a batch's first record may be"),
    _text("message.timestamp.type", "CreateTime", "who stamps records: producer or broker", ("CreateTime", "LogAppendTime")),
    TopicConfig(name="min.cleanable.dirty.ratio", kind=ConfigType.DOUBLE, default="0.5", doc=_KEPT, least=0, most=1),
    _long("min.compaction.lag.ms", 0, _KEPT),
    _int("min.insync.replicas", 1, "the object store replicates; " + _KEPT, least=1),
    _flag("preallocate", _KEPT),
    _flag("remote.log.copy.disable", _KEPT),
    _flag("remote.log.delete.on.disable", _KEPT),
    _flag(
        "remote.storage.enable",
        "all data is in the object store already",
        only="false",
        why="all data is in the object store already; leave this switch alone",
    ),
    _long("retention.bytes", -1, "bytes kept per partition; -1: no bound", least=-1),
    _long("retention.ms", 604_800_000, "age at which records may go; -1: never", least=-1),
    _int("segment.bytes", 1_073_741_824, _KEPT, least=14),
    _int("segment.index.bytes", 10_485_760, _KEPT, least=4),
    _long("segment.jitter.ms", 0, _KEPT),
    _long("segment.ms", 604_800_000, _KEPT, least=1),
    _flag("unclean.leader.election.enable", _KEPT),
)


def find_config(name: str) -> TopicConfig | None:
    """The known config of this name."""
    return next((config for config in TOPIC_CONFIGS if config.name == name), None)


def check_configs(configs: Mapping[str, str | None]) -> None:
    """Refused with the config's name, what is wrong and what may stand there; None values (removals) only need a known name."""
    for name, value in configs.items():
        config = find_config(name)
        if config is None:
            raise Refused(f"unknown topic config {name!r}{_nearest(name)}")
        if value is not None:
            _check_value(config, value)


def _check_value(config: TopicConfig, value: str) -> None:
    if config.kind in (ConfigType.INT, ConfigType.LONG, ConfigType.DOUBLE):
        _check_number(config, value)
        return
    elements = [part.strip() for part in value.split(",")] if config.kind is ConfigType.LIST else [value]
    if config.kind is ConfigType.BOOLEAN:
        elements = [value.lower()]
    for element in elements:
        if config.choices and element not in config.choices:
            reason = f"; {config.why_not_others}" if config.why_not_others else ""
            raise Refused(f"{config.name}={value!r}: use {' or '.join(config.choices)}{reason}")


def _check_number(config: TopicConfig, value: str) -> None:
    try:
        number: float = float(value) if config.kind is ConfigType.DOUBLE else int(value)
    except ValueError as error:
        raise Refused(f"{config.name}={value!r} is not a number") from error
    if not config.least <= number <= config.most:
        bounds = f"at least {config.least}" if config.most >= INT_MAX else f"{config.least} to {config.most}"
        raise Refused(f"{config.name}={value}: use {bounds}")


def _nearest(name: str) -> str:
    close = difflib.get_close_matches(name, [config.name for config in TOPIC_CONFIGS], n=1)
    return f"; did you mean {close[0]}?" if close else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPolicy:
    """What the produce path needs of a topic's configs, parsed once."""

    batch_bytes_max: int
    log_append_time: bool
    bounded: bool
    """Timestamps of producers are looked at: one of the two bounds below is set."""
    before_max_ms: int
    after_max_ms: int

    @classmethod
    def of(cls, configs: Mapping[str, str]) -> TopicPolicy:
        """Reads the four configs, defaults filled in."""
        log_append_time = effective(configs, "message.timestamp.type") == "LogAppendTime"
        before_max_ms = int(effective(configs, "message.timestamp.before.max.ms"))
        after_max_ms = int(effective(configs, "message.timestamp.after.max.ms"))
        return cls(
            batch_bytes_max=int(effective(configs, "max.message.bytes")),
            log_append_time=log_append_time,
            bounded=not log_append_time and (before_max_ms < LONG_MAX or after_max_ms < LONG_MAX),
            before_max_ms=before_max_ms,
            after_max_ms=after_max_ms,
        )


def effective(configs: Mapping[str, str], name: str) -> str:
    """The value set, or the default."""
    config = find_config(name)
    return configs.get(name, config.default if config else "")
