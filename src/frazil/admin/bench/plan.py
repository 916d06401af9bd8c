"""What to load a cluster with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from frazil.kit.errors import Refused

_IGNORED: Final = frozenset(
    {"name", "keyDistributor", "payloadFile", "useRandomizedPayloads", "randomBytesRatio", "randomizedPayloadPoolSize"}
)
"""Keys of an OpenMessaging workload that change nothing here: payloads are random text of the wanted size, without a key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchPlan:
    """One run. ``records`` or ``seconds`` ends it, whichever comes first; 0: no such end."""

    topics: tuple[str, ...]
    partitions: int = 1
    records: int = 0
    seconds: float = 10.0
    warmup_s: float = 1.0
    """Not counted; part of ``seconds`` and ``records`` neither."""
    record_bytes: int = 1024
    rate: float = 0.0
    """Records per second of all producers together; 0: as fast as answers come."""
    batch_bytes: int = 65_536
    linger_ms: float = 5.0
    """With a rate, a batch holds what comes in this time, as a client's would."""
    codec: str = "none"
    acks: int = -1
    producers: int = 1
    inflight: int = 5
    consumers: int = 1
    """0: nobody reads; latencies end to end are not known then."""
    keep: bool = False
    """Leave topics that the run made."""

    def check(self) -> None:
        """Raises Refused for a plan that cannot be run."""
        if not self.topics:
            raise Refused("a load needs a topic")
        if self.producers + self.consumers < 1:
            raise Refused("neither producers nor consumers: nothing to do")
        if self.producers and not self.records and not self.seconds:
            raise Refused("give --records or --seconds: without either the load has no end")
        if self.acks == 0 and self.rate == 0 and self.consumers == 0:
            raise Refused("acks 0 as fast as possible and nobody reading measures nothing but this machine's memory")

    @property
    def records_per_batch(self) -> int:
        """Records of one batch."""
        fitting = max(1, self.batch_bytes // (self.record_bytes + 12))
        if not self.rate:
            return fitting
        return max(1, min(fitting, round(self.rate / max(1, self.producers) * self.linger_ms / 1000)))


def plan_of_workload(document: Mapping[str, Any], *, base: BenchPlan, prefix: str) -> BenchPlan:
    """``base`` with what a workload in the shape of the OpenMessaging benchmark says; its topics are named ``{prefix}-{number}``.

    Raises Refused for a key or value that this load cannot do.
    """
    given = dict(document)
    for key in _IGNORED:
        given.pop(key, None)
    topics = _whole(given, "topics", 1)
    if _whole(given, "subscriptionsPerTopic", 1) > 1:
        raise Refused("workload: subscriptionsPerTopic above 1 is not offered: every record is read once")
    if given.pop("consumerBacklogSizeGB", 0):
        raise Refused("workload: consumerBacklogSizeGB is not offered")
    plan = BenchPlan(
        topics=tuple(f"{prefix}-{number}" for number in range(topics)),
        partitions=_whole(given, "partitionsPerTopic", base.partitions),
        records=base.records,
        seconds=_number(given, "testDurationMinutes", base.seconds / 60) * 60,
        warmup_s=_number(given, "warmupDurationMinutes", base.warmup_s / 60) * 60,
        record_bytes=_whole(given, "messageSize", base.record_bytes),
        rate=_number(given, "producerRate", base.rate),
        batch_bytes=base.batch_bytes,
        linger_ms=base.linger_ms,
        codec=base.codec,
        acks=base.acks,
        producers=topics * _whole(given, "producersPerTopic", base.producers),
        inflight=base.inflight,
        consumers=topics * _whole(given, "consumerPerSubscription", base.consumers),
        keep=base.keep,
    )
    if given:
        raise Refused(f"workload: unknown key {sorted(given)[0]!r}")
    return plan


def _whole(given: dict[str, Any], key: str, default: int) -> int:
    value = given.pop(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise Refused(f"workload: {key} must be a whole number, not {value!r}")
    return value


def _number(given: dict[str, Any], key: str, default: float) -> float:
    value = given.pop(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise Refused(f"workload: {key} must be a number, not {value!r}")
    return float(value)
