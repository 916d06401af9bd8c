"""Landing from another Kafka cluster, whose brokers here are a model: gaps, growth, retention, leaders that move, topics made anew."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest
from tests.property.landing.test_transactions_property import marker
from tests.simulation.loop import run_virtual
from tests.unit.landing.world import FAST, World, auto_off

from frazil.catalogs.progress import read_progress
from frazil.kit.errors import Corrupt, Refused, RetryLater
from frazil.kit.faultpoints import FaultPoints
from frazil.kit.names import PartitionId, PartitionKey, TopicId
from frazil.kit.tasks import InlineOffload, spawn
from frazil.landing import Landing, LandingDeps
from frazil.log.kafka.cluster import KafkaAddress, KafkaCluster, KafkaMetadata, KafkaTopic, check_answer, parse_bootstrap
from frazil.log.kafka.scram import client_final, client_first
from frazil.log.kafka.source import KafkaLog, KafkaPolicy
from frazil.metadata.landings import LandingSpec, LandingStatus
from frazil.metadata.stores.memory import MemoryMetadata, MemoryState
from frazil.records import build_batch
from frazil.records.building import BatchOptions, Record
from frazil.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from frazil.wire.messages.list_offsets import ListOffsetsPartitionResponse, ListOffsetsResponse, ListOffsetsTopicResponse

SPEC = LandingSpec(table="lake.t", topics=("t",), commit_interval_ms=1_000, options={"catalog": "lake"})
QUICK = replace(auto_off(FAST), progress_idle_ms=1_000)


@dataclass
class Part:
    batches: list[tuple[int, int, bytes]] = field(default_factory=list)
    start: int = 0
    end: int = 0
    leader: int = 1


@dataclass
class Brokers:
    """``KafkaCluster`` over memory. ``errors``: codes that the next fetches of any partition meet."""

    parts: list[Part] = field(default_factory=lambda: [Part()])
    topic_id: bytes = b"1" * 16
    has_id: bool = True
    errors: list[int] = field(default_factory=list)
    down: bool = False
    throttled: int = 0
    asked: list[int] = field(default_factory=list)

    def produce(self, ids: Sequence[int], partition: int = 0, **options: Any) -> None:
        part = self.parts[partition]
        records = [Record(value=b'{"id": %d}' % number, timestamp_ms=1_000 * number) for number in ids]
        made = bytes(build_batch(records, options=BatchOptions(base_offset=part.end, **options)))
        part.batches.append((part.end, part.end + len(ids), made))
        part.end += len(ids)

    async def metadata(self, topics: Sequence[str]) -> KafkaMetadata:
        if self.down:
            raise RetryLater("brokers are away")
        leaders = tuple(part.leader for part in self.parts)
        found = KafkaTopic(name="t", topic_id=TopicId(self.topic_id), has_id=self.has_id, leaders=leaders)
        return KafkaMetadata(cluster_id="c", topics={"t": found} if self.parts else {})

    async def version(self, node: int, api: int, most: int) -> int:
        return most

    async def ask(self, node: int, api: int, version: int, request: Any, want: type) -> Any:
        if self.down:
            raise RetryLater("brokers are away")
        return self._offsets(node, request) if want is ListOffsetsResponse else self._fetch(node, version, request)

    def _offsets(self, node: int, request: Any) -> ListOffsetsResponse:
        answers = []
        for one in request.topics[0].partitions:
            part = self.parts[one.partition_index]
            offset = {-2: part.start, -1: part.end}.get(one.timestamp, -1)
            code = 0 if part.leader == node else 6
            answers.append(ListOffsetsPartitionResponse(partition_index=one.partition_index, error_code=code, offset=offset))
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=answers)])

    def _fetch(self, node: int, version: int, request: Any) -> FetchResponse:
        self.asked.append(version)
        topic, left, answers = request.topics[0], request.max_bytes, []
        wrong = version > 12 and topic.topic_id != self.topic_id
        for one in topic.partitions:
            part = self.parts[one.partition] if not wrong else Part()
            code = 100 if wrong else self.errors.pop(0) if self.errors else 0 if part.leader == node else 6
            code = code or (0 if part.start <= one.fetch_offset <= part.end else 1)
            data = b""
            for first, end, batch in part.batches if not code and not self.throttled else ():
                if end > one.fetch_offset and first >= part.start - 100:
                    if data and len(data) + len(batch) > min(left, one.partition_max_bytes):
                        break
                    data += batch
            left -= len(data)
            answers.append(
                PartitionData(
                    partition_index=one.partition, error_code=code, high_watermark=part.end, log_start_offset=part.start, records=data
                )
            )
        found = FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=answers)
        return FetchResponse(throttle_time_ms=self.throttled, responses=[found])


class Stage:
    def __init__(self, brokers: Brokers) -> None:
        self.world, self.brokers = World(), brokers

    async def land(self, seconds: float = 5.0, spec: LandingSpec = SPEC) -> LandingStatus:
        world = self.world
        log = KafkaLog(
            cast(KafkaCluster, self.brokers),
            world.clock,
            cluster_id="c",
            topics=["t"],
            policy=KafkaPolicy(interval_ms=100, metadata_ms=1_000),
        )
        deps = LandingDeps(
            store=MemoryMetadata(MemoryState(), world.clock),
            topics=log,
            index=log,
            reader=log,
            objects=world.objects,
            catalogs={"lake": world.catalog()},
            source="kafka:c",
            clock=world.clock,
            chance=random.Random(1),
            offload=InlineOffload(),
            faults=FaultPoints(),
            specs=(spec,),
        )
        landing = Landing(deps, QUICK)
        task = spawn("landing", landing.run())
        await asyncio.sleep(seconds)
        landing.stop()
        await task
        return landing.statuses()[0]

    async def ids(self) -> list[int]:
        return sorted(row["id"] for row in await self.world.rows("lake.t"))

    async def progress(self) -> list[int]:
        found = await read_progress(self.world.objects, await self.world.catalog().load("lake.t"))
        return [found[at] for at in sorted(found)]


def play(story: Any, brokers: Brokers | None = None) -> None:
    async def main() -> None:
        await story(Stage(brokers or Brokers()))

    run_virtual(main())


def test_f11_a_gap_up_to_the_end_leaves_no_lag() -> None:
    """Compaction took the last records, and the segment after them is empty: brokers have nothing from there to the watermark."""

    async def story(stage: Stage) -> None:
        stage.brokers.produce(range(10))
        stage.brokers.parts[0].end = 17
        status = await stage.land()
        assert await stage.ids() == list(range(10))
        assert await stage.progress() == [17]
        assert (status.state, status.behind_records) == ("idle", 0)

    play(story)


def test_f11_an_answer_without_records_because_of_a_quota_is_no_gap() -> None:
    async def story(stage: Stage) -> None:
        stage.brokers.produce(range(10))
        stage.brokers.throttled = 50
        status = await stage.land()
        assert status.state == "stalled" and "quota" in status.reason
        stage.brokers.throttled = 0
        await stage.land()
        assert await stage.ids() == list(range(10))

    play(story)


def test_f11_f20_gaps_inside_and_transactions() -> None:
    async def story(stage: Stage) -> None:
        brokers = stage.brokers
        brokers.produce(range(3))
        brokers.parts[0].end += 4
        brokers.produce(range(3, 6), producer_id=7, producer_epoch=0, transactional=True)
        brokers.produce(range(6, 9), producer_id=8, producer_epoch=0, transactional=True)
        for producer_id in (7, 8):
            end = brokers.parts[0].end
            brokers.parts[0].batches.append((end, end + 1, marker(end, producer_id, 1, commits=producer_id == 7)))
            brokers.parts[0].end += 1
        status = await stage.land()
        assert await stage.ids() == list(range(6))
        assert status.behind_records == 0 and await stage.progress() == [brokers.parts[0].end]

    play(story)


def test_f09_new_partitions_land_from_their_beginning() -> None:
    async def story(stage: Stage) -> None:
        stage.brokers.produce(range(5))
        task = spawn("land", stage.land(20.0))
        await asyncio.sleep(3)
        stage.brokers.parts += [Part(leader=2), Part()]
        stage.brokers.produce(range(5, 8), partition=1)
        stage.brokers.produce(range(8, 10), partition=2)
        await task
        assert await stage.ids() == list(range(10))

    play(story)


def test_f03_a_topic_made_anew_lands_beside_the_old_one() -> None:
    async def story(stage: Stage) -> None:
        stage.brokers.produce(range(100))
        task = spawn("land", stage.land(20.0))
        await asyncio.sleep(3)
        stage.brokers.parts, stage.brokers.topic_id = [Part()], b"2" * 16
        stage.brokers.produce(range(1_000, 1_005))
        await task
        assert await stage.ids() == [*range(100), *range(1_000, 1_005)]
        assert sorted(await stage.progress()) == [5, 100]

    play(story)


def test_f10_retention_that_was_faster_is_a_recorded_loss() -> None:
    async def story(stage: Stage) -> None:
        stage.brokers.produce(range(100))
        await stage.land()
        for start in range(100, 1_100, 100):
            stage.brokers.produce(range(start, start + 100))
        del stage.brokers.parts[0].batches[1:6]
        stage.brokers.parts[0].start = 600
        status = await stage.land()
        assert await stage.ids() == [*range(100), *range(600, 1_100)]
        assert "lost to retention: t[0] 100-599" in status.reason

    play(story)


def test_f30_a_leader_that_moves_and_brokers_that_go_are_waited_for() -> None:
    async def story(stage: Stage) -> None:
        stage.brokers.parts.append(Part())
        stage.brokers.produce(range(10))
        task = spawn("land", stage.land(90.0))
        await asyncio.sleep(3)
        stage.brokers.parts[0].leader = 2
        stage.brokers.produce(range(10, 20))
        await asyncio.sleep(5)
        assert await stage.ids() == list(range(20))
        stage.brokers.errors = [6, 5, 74, 3, 9]
        stage.brokers.produce(range(20, 30))
        await asyncio.sleep(10)
        stage.brokers.down = True
        await asyncio.sleep(5)
        stage.brokers.down = False
        stage.brokers.produce(range(30, 40))
        await task
        assert await stage.ids() == list(range(40))

    play(story)


def test_a_partition_without_a_leader_is_named_and_the_others_land() -> None:
    async def story(stage: Stage) -> None:
        stage.brokers.parts.append(Part())
        stage.brokers.produce(range(5))
        task = spawn("land", stage.land(40.0))
        await asyncio.sleep(3)
        stage.brokers.parts[1].leader = -1
        stage.brokers.produce(range(5, 10))
        status = await task
        assert await stage.ids() == list(range(10))
        assert (status.state, status.partition) == ("failed", 1) and "no leader" in status.reason

    play(story)


def test_brokers_without_topic_ids_are_asked_by_name() -> None:
    async def story(stage: Stage) -> None:
        stage.brokers.produce(range(5))
        await stage.land()
        assert await stage.ids() == list(range(5)) and max(stage.brokers.asked) == 12

    play(story, Brokers(has_id=False))


def test_a_batch_larger_than_its_share_comes_alone() -> None:
    async def main() -> None:
        brokers = Brokers(parts=[Part(), Part()])
        for number in range(2):
            brokers.produce(range(100), partition=number)
        log = KafkaLog(cast(KafkaCluster, brokers), World().clock, cluster_id="c", topics=["t"])
        await log.refresh()
        found = await log.fetch(PartitionKey(TopicId(b"1" * 16), PartitionId(1)), 0, bytes_max=1)
        assert (found.base, found.end) == (0, 100)

    run_virtual(main())


def test_another_cluster_behind_the_same_address_is_refused() -> None:
    async def main() -> None:
        log = KafkaLog(cast(KafkaCluster, Brokers()), World().clock, cluster_id="other", topics=["t"])
        with pytest.raises(Refused, match="cluster c now"):
            await log.refresh()

    run_virtual(main())


def test_scram_says_what_rfc_7677_says() -> None:
    nonce = "rOprNGfwEbeRWgbNEkqO"
    assert client_first("user", nonce) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    first = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    proof = client_final("SCRAM-SHA-256", "user", "pencil", nonce, first)
    assert proof.message == (b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    assert proof.server_final == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.mark.parametrize(
    "challenge", [b"", b"e=no", b"r=other,s=YQ==,i=4096", b"r=n,s=YQ==,i=4096", b"r=nx,s=!,i=4096", b"r=nx,s=YQ==,i=x"]
)
def test_what_is_no_scram_challenge_is_corrupt(challenge: bytes) -> None:
    with pytest.raises(Corrupt):
        client_final("SCRAM-SHA-512", "user", "p", "n", challenge)


@pytest.mark.parametrize("iterations", [1, 10**9])
def test_a_scram_server_that_asks_for_too_little_or_too_much_is_refused(iterations: int) -> None:
    with pytest.raises(Refused, match="iterations"):
        client_final("SCRAM-SHA-256", "user", "p", "n", b"r=nx,s=YQ==,i=%d" % iterations)


def test_bootstrap_addresses() -> None:
    assert parse_bootstrap("a:1, [::1]:9092") == (KafkaAddress("a", 1), KafkaAddress("::1", 9092))
    for wrong in ("", "a", "a:", ":1", "a:0", "a:99999", "a:1,,b:2"):
        with pytest.raises(Refused, match="bootstrap"):
            parse_bootstrap(wrong)


def test_f01_a_missing_acl_is_refused_by_name() -> None:
    with pytest.raises(Refused, match="ACLs Describe and Read on the topic, and no group"):
        check_answer(29, "Kafka topic t")
    with pytest.raises(RetryLater, match="NOT_LEADER"):
        check_answer(6, "Kafka topic t")
