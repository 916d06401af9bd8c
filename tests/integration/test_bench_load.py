"""``frazil bench`` against a broker: what it counts is what the log holds, and what goes wrong shows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.integration.rig import BrokerThread, World, settings_of

from frazil.admin.bench import BenchPlan, BenchReport, run_bench
from frazil.admin.kafka import KafkaClient
from frazil.admin.port import TopicDetail
from frazil.kit.chance import seeded_chance
from frazil.kit.clock import SystemClock
from frazil.kit.errors import Refused, RetryLater

pytestmark = [pytest.mark.server]
PLAN = BenchPlan(topics=("load",), partitions=3, records=2_000, seconds=0, warmup_s=0, record_bytes=100, batch_bytes=2_000, keep=True)


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    running = BrokerThread(World(), settings_of()).start()
    yield running
    running.stop()


def load(broker: BrokerThread, plan: BenchPlan) -> BenchReport:
    return asyncio.run(run_bench(("127.0.0.1", broker.port), plan, chance=seeded_chance(1), clock=SystemClock(), notice=lambda _: None))


def topics(broker: BrokerThread) -> dict[str, TopicDetail]:
    async def ask() -> dict[str, TopicDetail]:
        client = KafkaClient("127.0.0.1", broker.port)
        found = {row.name: await client.describe_topic(row.name) for row in await client.list_topics()}
        await client.close()
        return found

    return asyncio.run(ask())


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_counts_are_those_of_the_log(broker: BrokerThread, codec: str) -> None:
    report = load(broker, replace(PLAN, codec=codec, producers=2, consumers=2))
    produced, read = report.phases
    held = sum(row.end_offset for row in topics(broker)["load"].partitions)
    assert (report.errors, report.missing) == (0, 0)
    assert produced.records == read.records == held >= 2_000
    assert produced.p50_ms is not None and read.p50_ms is not None
    assert 0 < produced.p50_ms <= (produced.p99_ms or 0) <= (produced.p999_ms or 0) <= (produced.max_ms or 0)
    again = load(broker, replace(PLAN, producers=0))
    assert [(phase.name, phase.records) for phase in again.phases] == [("consume", held)]


def test_a_warm_up_is_not_counted_and_a_rate_is_kept(broker: BrokerThread) -> None:
    report = load(broker, replace(PLAN, records=0, seconds=1.0, warmup_s=0.5, rate=1_000))
    held = sum(row.end_offset for row in topics(broker)["load"].partitions)
    assert 500 <= report.phases[0].records <= 1_100
    assert held > report.phases[0].records


def test_acks_0_counts_what_arrives(broker: BrokerThread) -> None:
    report = load(broker, replace(PLAN, acks=0))
    produced, read = report.phases
    assert produced.records == read.records >= 2_000
    assert produced.p50_ms is None and report.missing == 0


def test_a_topic_of_the_run_goes_with_it_and_one_that_was_there_stays(broker: BrokerThread) -> None:
    load(broker, replace(PLAN, keep=False))
    assert "load" not in topics(broker)
    load(broker, PLAN)
    load(broker, replace(PLAN, keep=False))
    assert "load" in topics(broker)


def test_refused_batches_are_counted_with_the_reason(broker: BrokerThread) -> None:
    report = load(broker, replace(PLAN, records=1, record_bytes=2_000_000, batch_bytes=1))
    assert report.errors == 1
    assert report.phases[0].records == 0
    assert "load/0" in report.first_error


def test_nobody_there_and_names_that_cannot_be(broker: BrokerThread) -> None:
    with pytest.raises(Refused, match="INVALID_TOPIC_EXCEPTION"):
        load(broker, replace(PLAN, topics=("a b",)))
    with pytest.raises(RetryLater, match="no broker answers"):
        asyncio.run(run_bench(("127.0.0.1", 1), PLAN, chance=seeded_chance(1), clock=SystemClock(), notice=lambda _: None))


def test_a_broker_that_goes_away_ends_the_run(broker: BrokerThread) -> None:
    async def main() -> BenchReport:
        run = asyncio.create_task(
            run_bench(
                ("127.0.0.1", broker.port),
                replace(PLAN, records=0, seconds=30),
                chance=seeded_chance(1),
                clock=SystemClock(),
                notice=lambda _: None,
            )
        )
        await asyncio.sleep(0.5)
        await asyncio.to_thread(broker.stop)
        return await asyncio.wait_for(run, 15)

    with pytest.raises(RetryLater):
        asyncio.run(main())
