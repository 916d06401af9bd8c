"""What a load is asked to do, and how its times become quantiles."""

from __future__ import annotations

import pytest
import yaml

from frazil.admin.bench.plan import BenchPlan, plan_of_workload
from frazil.admin.bench.producer import make_batches
from frazil.admin.bench.report import phase, quantile
from frazil.kit.chance import seeded_chance
from frazil.kit.errors import Refused
from frazil.records import scan

BASE = BenchPlan(topics=("t",))
WORKLOAD = """
name: 1 topic / 100 partitions / 1kb
topics: 2
partitionsPerTopic: 100
keyDistributor: "NO_KEY"
messageSize: 1024
payloadFile: "payload/payload-1Kb.data"
subscriptionsPerTopic: 1
consumerPerSubscription: 3
producersPerTopic: 4
producerRate: 50000
consumerBacklogSizeGB: 0
testDurationMinutes: 15
"""


def test_an_openmessaging_workload_is_a_plan() -> None:
    plan = plan_of_workload(yaml.safe_load(WORKLOAD), base=BASE, prefix="x")
    assert plan.topics == ("x-0", "x-1")
    assert (plan.partitions, plan.record_bytes, plan.rate, plan.seconds) == (100, 1024, 50_000, 900)
    assert (plan.producers, plan.consumers, plan.warmup_s) == (8, 6, BASE.warmup_s)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"subscriptionsPerTopic": 2}, "subscriptionsPerTopic"),
        ({"consumerBacklogSizeGB": 100}, "consumerBacklogSizeGB"),
        ({"producerRat": 1}, "unknown key 'producerRat'"),
        ({"messageSize": "big"}, "messageSize must be a whole number"),
        ({"producerRate": float("inf")}, "producerRate must be a number"),
        ({"topics": True}, "topics must be a whole number"),
    ],
)
def test_what_a_workload_asks_and_this_load_cannot_do_is_refused(change: dict[str, object], why: str) -> None:
    with pytest.raises(Refused, match=why):
        plan_of_workload({**yaml.safe_load(WORKLOAD), **change}, base=BASE, prefix="x")


def test_a_plan_without_end_or_without_anybody_is_refused() -> None:
    for plan in (
        BenchPlan(topics=("t",), seconds=0),
        BenchPlan(topics=("t",), producers=0, consumers=0),
        BenchPlan(topics=("t",), acks=0, consumers=0),
        BenchPlan(topics=()),
    ):
        with pytest.raises(Refused):
            plan.check()


def test_a_batch_holds_what_fits_and_with_a_rate_what_comes_in_a_linger() -> None:
    assert BenchPlan(topics=("t",), record_bytes=1012, batch_bytes=65_536).records_per_batch == 64
    assert BenchPlan(topics=("t",), record_bytes=100_000, batch_bytes=65_536).records_per_batch == 1
    assert BenchPlan(topics=("t",), rate=2_000, linger_ms=5).records_per_batch == 10
    assert BenchPlan(topics=("t",), rate=2_000, linger_ms=5, producers=10).records_per_batch == 1
    assert BenchPlan(topics=("t",), rate=10_000_000, linger_ms=5).records_per_batch == 63


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_are_whole_and_different(codec: str) -> None:
    plan = BenchPlan(topics=("t",), record_bytes=100, batch_bytes=1_000, codec=codec)
    batches = make_batches(plan, seeded_chance(1), 5)
    assert len(set(batches)) == len(batches) > 1
    for batch in batches:
        columns, faults = scan(memoryview(batch), uncompressed_bytes_max=10_000)
        assert not faults
        assert [len(value or b"") for value in columns.values] == [100] * plan.records_per_batch
        assert set(columns.timestamps_ms) == {5}


def test_quantiles_are_values_that_were_measured() -> None:
    ordered = [float(at) for at in range(1, 1001)]
    assert [quantile(ordered, share) for share in (0.0, 0.5, 0.99, 0.999, 1.0)] == [1, 500, 990, 999, 1000]
    assert quantile([7.0], 0.999) == 7
    found = phase("produce", records=10, size=10_000_000, seconds=2.0, latencies_s=[0.002, 0.001])
    assert (found.p50_ms, found.p999_ms, found.max_ms, found.records_per_s, found.mb_per_s) == (1, 2, 2, 5, 5)
    assert phase("consume", records=0, size=0, seconds=0.0).records_per_s == 0
