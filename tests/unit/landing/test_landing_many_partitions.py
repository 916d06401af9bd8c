"""Two topics of 10,000 partitions into one table: progress of 20,000 partitions is an object, and a step stays bounded (R14, F72)."""

from __future__ import annotations

import json
import random
from dataclasses import replace

from tests.simulation.loop import run_virtual
from tests.unit.landing.world import World, auto_off

from frazil.catalogs.progress import SourcePartition, encode_object, read_progress
from frazil.kit.names import TopicId
from frazil.metadata.landings import LandingSpec, put_landing

TABLE = "x.both"
QUIET = replace(auto_off(), status_interval_ms=1_000)


def test_r14_topics_of_20000_partitions_land_in_one_table_and_their_progress_is_an_object() -> None:
    async def work() -> None:
        world = World()
        sent: dict[str, list[int]] = {"a": [], "b": []}
        for topic in sent:
            await world.topics.create(topic, 10_000)
        await put_landing(world.store, LandingSpec(table=TABLE, topics=("a", "b")))
        for partition in range(0, 10_000, 500):
            for topic in sent:
                sent[topic] += [partition] * len(await world.produce(topic, [b'{"n":1}', b'{"n":2}'], partition=partition))
        await world.land(3, QUIET)
        await world.produce("b", [b'{"n":3}'], partition=9_999)
        await world.land_until_killed("P5", settings=QUIET, seconds=10)
        await world.land(3, QUIET)
        sent["b"].append(9_999)
        rows = await world.rows(TABLE)
        assert {topic: sorted(row["_kafka_partition"] for row in rows if row["_topic"] == topic) for topic in sent} == sent
        table = await world.catalog().load(TABLE)
        progress = await read_progress(world.objects, table)
        assert sorted(set(progress.values())) == [1, 2] and len(progress) == 41
        assert "object" in json.loads(table.metadata["properties"]["frazil.progress"])
        assert len(world.oracle.bytes_of(table.metadata_location)) < 20_000

    run_virtual(work())


def test_r14_progress_of_20000_partitions_at_high_offsets_is_below_200_kb_as_an_object() -> None:
    chance = random.Random(1)
    progress = {}
    for number in range(20_000):
        place = SourcePartition("cluster/1", TopicId(bytes([number % 2] * 16)), number // 2)
        progress[place] = 10**9 + chance.randrange(10**8)
    assert len(encode_object(progress)) < 200_000
