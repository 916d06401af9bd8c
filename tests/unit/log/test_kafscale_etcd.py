"""KafScale's etcd beside its bucket: both spellings of the snapshot, hostile values, acknowledged ends."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import httpx
import pytest
from tests.simulation.loop import run_virtual
from tests.sources.kafka_server import free_port

from frazil.kit.clock import LoopClock, SystemClock
from frazil.kit.errors import Corrupt, RetryLater
from frazil.kit.names import PartitionId, PartitionKey
from frazil.log.kafscale.etcd import KafscaleEtcd
from frazil.log.kafscale.snapshot import Known, parse_ends, parse_snapshot
from frazil.log.listing import ListingPolicy, SegmentListing, topic_id_of
from frazil.objects.stores.memory import MemoryBucket, MemoryObjects
from frazil.records import build_batch
from frazil.records.building import BatchOptions, Record
from frazil.segments.kfs import build_segment

NEW = {
    "Brokers": [{"NodeID": 0, "Host": "demo-broker-0", "Port": 9092, "Rack": None, "UnknownTags": {}}],
    "ControllerID": 0,
    "Topics": [
        {
            "ErrorCode": 0,
            "Topic": "orders",
            "TopicID": list(topic_id_of("orders")),
            "IsInternal": False,
            "Partitions": [{"ErrorCode": 0, "Partition": number, "Leader": 0, "Replicas": [0], "ISR": [0]} for number in range(3)],
            "UnknownTags": {},
        },
        {"Topic": "empty", "Partitions": None},
    ],
    "ClusterName": "demo",
}
OLD = {"Topics": [{"Name": "orders", "Partitions": [{"PartitionIndex": number, "LeaderID": 0} for number in range(3)]}]}
BOTH = {"topics": [{"Topic": None, "name": "orders", "partitions": [{"partition": 2, "PartitionIndex": 2}, {"partition": 0}]}]}


@pytest.mark.parametrize("snapshot", [NEW, OLD, BOTH])
def test_both_spellings_of_the_snapshot_say_the_same(snapshot: dict[str, Any]) -> None:
    assert parse_snapshot(json.dumps(snapshot).encode())["orders"] == 3


@pytest.mark.parametrize("value", [b"", b"null", b"[]", b"\xff", b"[" * 100_000, b"1"])
def test_what_is_no_snapshot_is_corrupt(value: bytes) -> None:
    with pytest.raises(Corrupt):
        parse_snapshot(value)


@pytest.mark.parametrize(
    "topics",
    [
        None,
        5,
        "orders",
        [None, 5, [], {}],
        [{"Topic": 7}, {"Topic": "../up", "Partitions": []}, {"Topic": "x" * 250}],
        [{"Topic": "t", "Partitions": [{"Partition": -1}, {"Partition": True}, {"Partition": "1"}, {"Partition": 10**12}, None]}],
    ],
)
def test_hostile_members_of_a_snapshot_are_left_out(topics: object) -> None:
    assert set(parse_snapshot(json.dumps({"Topics": topics}).encode()).values()) <= {0}


def test_next_offsets() -> None:
    found = parse_ends(
        [
            ("/kafscale/topics/orders/partitions/0/next_offset", b"17"),
            ("/kafscale/topics/orders/partitions/1/next_offset", b""),
            ("/kafscale/topics/orders/partitions/2/next_offset", b" 5\n"),
            ("/kafscale/topics/orders/partitions/3/next_offset", b"-4"),
            ("/kafscale/topics/orders/partitions/4/next_offset", b"9" * 19),
            ("/kafscale/topics/orders/partitions/5/next_offset", b"many"),
            ("/kafscale/topics/orders/partitions/x/next_offset", b"1"),
            ("/kafscale/topics/orders/partitions/6", b"\x0a"),
            ("/kafscale/topics/orders/config", b"1"),
        ]
    )
    assert found == {("orders", 0): 17, ("orders", 1): 0, ("orders", 2): 5}


class Told:
    def __init__(self, known: Known) -> None:
        self.known = known

    async def read(self, topics: Sequence[str]) -> Known:
        return self.known


def key(partition: int) -> PartitionKey:
    return PartitionKey(topic_id_of("orders"), PartitionId(partition))


def test_f81_a_lost_index_of_the_last_segment_is_no_hindrance_when_it_was_acknowledged() -> None:
    async def main() -> None:
        objects = MemoryObjects(MemoryBucket(), LoopClock())
        built = build_segment([build_batch([Record(value=b"v")] * 5, options=BatchOptions())], created_ms=1)
        await objects.put_if_absent("ns/orders/0/segment-00000000000000000000.kfs", built.kfs)
        told = Told(Known(partitions={"orders": 4}, ends={}))
        listing = SegmentListing(objects, LoopClock(), prefix="ns", topics=["orders"], policy=ListingPolicy(interval_ms=0), cluster=told)
        await listing.refresh()
        assert listing.end(key(0)) == 0  # its owner may be at work on it
        record = listing.get("orders")
        assert record is not None and record.partitions == 4
        told.known = Known(partitions={}, ends={("orders", 0): 5})
        await listing.refresh()
        assert listing.end(key(0)) == 5 and listing.trouble(key(0)) is None
        told.known = Known(partitions={}, ends={("orders", 0): 9})
        await listing.refresh()
        assert listing.end(key(0)) == 5
        assert "offsets 5-8 were acknowledged" in (listing.trouble(key(0)) or "")

    run_virtual(main())


async def _on_etcd(address: str) -> None:
    client = KafscaleEtcd(["http://127.0.0.1:1", address], SystemClock(), interval_ms=0)
    try:
        assert (await client.read(["orders"])).partitions == {}
        put("/kafscale/metadata/snapshot", json.dumps(NEW), address)
        for number in range(3):
            put(f"/kafscale/topics/orders/partitions/{number}/next_offset", str(number * 10), address)
        put("/kafscale/topics/orders0/partitions/0/next_offset", "99", address)
        known = await client.read(["orders", "other"])
        assert known == Known(partitions={"orders": 3}, ends={("orders", number): number * 10 for number in range(3)})
    finally:
        await client.close()


def put(name: str, value: str, address: str) -> None:
    body = {"key": base64.b64encode(name.encode()).decode(), "value": base64.b64encode(value.encode()).decode()}
    assert httpx.post(f"{address}/v3/kv/put", json=body).status_code == 200


@pytest.mark.server
@pytest.mark.skipif(shutil.which("etcd") is None, reason="no etcd on this machine (Debian: etcd-server)")
def test_a_real_etcd_is_read_through_its_gateway() -> None:
    client, peer = free_port(), free_port()
    address = f"http://127.0.0.1:{client}"
    with tempfile.TemporaryDirectory() as directory:
        command = ["etcd", "--data-dir", directory, "--listen-client-urls", address, "--advertise-client-urls", address]
        command += ["--listen-peer-urls", f"http://127.0.0.1:{peer}", "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}"]
        command += ["--initial-cluster", f"default=http://127.0.0.1:{peer}"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for _ in range(300):
                try:
                    if httpx.get(f"{address}/health").json()["health"] == "true":
                        break
                except httpx.HTTPError:
                    time.sleep(0.1)  # etcd does not listen yet
            asyncio.run(_on_etcd(address))
        finally:
            process.kill()
            process.wait()


def test_an_etcd_that_is_away_is_waited_for() -> None:
    async def main() -> None:
        client = KafscaleEtcd(["http://127.0.0.1:1"], SystemClock())
        try:
            with pytest.raises(RetryLater, match="cannot be reached"):
                await client.read(["orders"])
        finally:
            await client.close()

    asyncio.run(main())
