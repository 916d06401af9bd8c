"""Produce and Fetch written by hand give what the generated codec gives, for every version they serve."""

from __future__ import annotations

import random

import pytest
from tests.property.wire.instances import random_bytes_of

from frazil.kit.errors import Bug, Corrupt, Refused
from frazil.wire.codec import decode, encode_parts, encode_response
from frazil.wire.fetch import (
    FETCH_VERSIONS,
    AbortedRange,
    FetchAnswer,
    FetchedPartition,
    FetchedTopic,
    decode_fetch,
    encode_fetch_response,
)
from frazil.wire.messages import fetch, produce
from frazil.wire.produce import PRODUCE_VERSIONS, ProducedPartition, ProducedTopic, decode_produce, encode_produce_response

_FETCH_NAMES = {
    "replica_id": "replica_id",
    "wait_ms_max": "max_wait_ms",
    "bytes_min": "min_bytes",
    "bytes_max": "max_bytes",
    "isolation_level": "isolation_level",
    "session_id": "session_id",
    "session_epoch": "session_epoch",
    "rack_id": "rack_id",
}
_PARTITION_NAMES = {
    "index": "partition",
    "current_leader_epoch": "current_leader_epoch",
    "fetch_offset": "fetch_offset",
    "last_fetched_epoch": "last_fetched_epoch",
    "log_start_offset": "log_start_offset",
    "partition_bytes_max": "partition_max_bytes",
}


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_produce_request(version):
    chance = random.Random(version)
    for _ in range(60):
        _, data = random_bytes_of(produce.REQUEST, version, chance)
        frame = memoryview(data)
        want, got = decode(produce.REQUEST, version, frame, 0), decode_produce(version, frame, 0)
        assert (got.transactional_id, got.acks, got.timeout_ms) == (want.transactional_id, want.acks, want.timeout_ms)
        assert [(t.name, [(p.index, p.records) for p in t.partitions]) for t in got.topics] == [
            (t.name, [(p.index, p.records) for p in t.partition_data]) for t in want.topic_data
        ]
        assert all(p.records is None or p.records.obj is data for t in got.topics for p in t.partitions), "records are views, not copies"


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_fetch_request(version):
    chance = random.Random(version)
    for _ in range(60):
        _, data = random_bytes_of(fetch.REQUEST, version, chance)
        want, got = decode(fetch.REQUEST, version, memoryview(data), 0), decode_fetch(version, memoryview(data), 0)
        for ours, kafkas in _FETCH_NAMES.items():
            assert getattr(got, ours) == getattr(want, kafkas), ours
        assert [t.name for t in got.topics] == [t.topic for t in want.topics]
        pairs = [(p, q) for t, u in zip(got.topics, want.topics, strict=True) for p, q in zip(t.partitions, u.partitions, strict=True)]
        for ours, kafkas in _PARTITION_NAMES.items():
            assert [getattr(p, ours) for p, _ in pairs] == [getattr(q, kafkas) for _, q in pairs], ours
        gone = [(t.name, t.partitions) for t in got.forgotten]
        assert gone == [(t.topic, list(t.partitions)) for t in want.forgotten_topics_data]


def _topics(chance):
    return [("t" * chance.choice((1, 30, 200)) + str(n), range(chance.randrange(4))) for n in range(chance.randrange(4))]


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_produce_response(version):
    chance = random.Random(version)
    for _ in range(60):
        ours, kafkas = [], []
        for name, indices in _topics(chance):
            rows = [
                {
                    "index": i,
                    "error_code": chance.randrange(-1, 130),
                    "base_offset": chance.getrandbits(62),
                    "log_append_time_ms": chance.choice((-1, chance.getrandbits(40))),
                    "log_start_offset": chance.getrandbits(50),
                    "error_message": chance.choice((None, "", "why é", "w" * 300)),
                }
                for i in indices
            ]
            ours.append(ProducedTopic(name, [ProducedPartition(**row) for row in rows]))
            kafkas.append(
                produce.TopicProduceResponse(name=name, partition_responses=[produce.PartitionProduceResponse(**row) for row in rows])
            )
        want = encode_response(0, version, produce.ProduceResponse(responses=kafkas, throttle_time_ms=7))
        assert encode_produce_response(version, ours, 7) == want


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_fetch_response(version):
    chance = random.Random(version)
    for _ in range(60):
        ours, kafkas, blobs = [], [], []
        for name, indices in _topics(chance):
            rows, theirs = [], []
            for i in indices:
                records = chance.randbytes(chance.choice((0, 1, 126, 127, 128, 20000)))
                gone = chance.choice((None, [], [(chance.getrandbits(40), chance.getrandbits(40)) for _ in range(3)]))
                row = {"error_code": chance.randrange(-1, 130), "records": records}
                row |= {k: chance.getrandbits(60) for k in ("high_watermark", "last_stable_offset", "log_start_offset")}
                rows.append(FetchedPartition(i, **row, aborted=None if gone is None else [AbortedRange(*g) for g in gone]))
                pairs = None if gone is None else [fetch.AbortedTransaction(producer_id=a, first_offset=b) for a, b in gone]
                theirs.append(fetch.PartitionData(partition_index=i, **row, aborted_transactions=pairs))
                blobs += [records] if records else []
            ours.append(FetchedTopic(name, rows))
            kafkas.append(fetch.FetchableTopicResponse(topic=name, partitions=theirs))
        response = fetch.FetchResponse(responses=kafkas, throttle_time_ms=3, error_code=5, session_id=9)
        parts = encode_fetch_response(version, FetchAnswer(ours, error_code=5, session_id=9, throttle_time_ms=3))
        assert b"".join(parts) == b"".join(encode_parts(fetch.RESPONSE, version, response))
        assert [id(part) for part in parts if isinstance(part, bytes)] == [id(blob) for blob in blobs], "record bytes are not copied"


@pytest.mark.parametrize(
    ("call", "module", "versions"), [(decode_produce, produce, PRODUCE_VERSIONS), (decode_fetch, fetch, FETCH_VERSIONS)]
)
def test_by_hand_and_generated_refuse_the_same_bytes(call, module, versions):
    chance = random.Random(11)
    refused = 0
    for round_number in range(1500):
        version = versions[round_number % len(versions)]
        _, data = random_bytes_of(module.REQUEST, version, chance)
        bad = bytearray(data)
        for _ in range(chance.randrange(1, 3)):
            bad[chance.randrange(min(len(bad), 120))] = chance.choice((0, 1, 2, 127, 128, 255, chance.getrandbits(8)))
        if chance.random() < 0.3:
            del bad[chance.randrange(len(bad)) :]
        outcomes = []
        for read in (lambda v, f: call(v, f, 0), lambda v, f: decode(module.REQUEST, v, f, 0)):
            try:
                read(version, memoryview(bad))
                outcomes.append("read")
            except Corrupt:
                outcomes.append("corrupt")
        if version == 12 and module is fetch and outcomes == ["read", "corrupt"]:
            continue  # a broken cluster id inside its tag: by hand it is stepped over
        assert outcomes[0] == outcomes[1], (version, bytes(bad))
        refused += outcomes[0] == "corrupt"
    assert refused > 300


def test_versions_not_served_are_refused_by_name():
    for act in (
        lambda: decode_produce(2, memoryview(b""), 0),
        lambda: decode_produce(13, memoryview(b""), 0),
        lambda: encode_produce_response(13, []),
        lambda: decode_fetch(3, memoryview(b""), 0),
        lambda: decode_fetch(13, memoryview(b""), 0),
        lambda: encode_fetch_response(13, FetchAnswer([])),
    ):
        with pytest.raises(Refused, match="not served here"):
            act()


def test_values_that_do_not_fit_are_bugs():
    with pytest.raises(Bug, match="ProduceResponse v9"):
        encode_produce_response(9, [ProducedTopic("t", [ProducedPartition(1 << 40)])])
    with pytest.raises(Bug, match="FetchResponse v11"):
        encode_fetch_response(11, FetchAnswer([FetchedTopic("t", [FetchedPartition(0, high_watermark=1 << 70)])]))


@pytest.mark.parametrize(
    ("read", "version", "text", "field"),
    [
        (decode_produce, 7, "ffff 0001 00000000 7fffffff 0001", "topic_data at byte 12"),
        (decode_produce, 7, "ffff 0001 00000000 00000001 0001 74 7fffffff", "topic_data.partition_data"),
        (decode_produce, 7, "ffff 0001 00000000 00000001 0001 74 00000001 00000000 7fffffff 00", "topic_data.partition_data"),
        (decode_produce, 9, "00 0001 00000000 ffffffff07 00 00", "topic_data at byte 12"),
        (decode_produce, 9, "00 0001 00000000 02 02 74 ffffffff07 00 00", "topic_data.partition_data"),
        (decode_produce, 9, "00 0001 00000000 02 02 74 02 00000000 ffffffff07 00 00 00", "topic_data.partition_data"),
        (decode_fetch, 4, "ffffffff 00000000 00000000 00000000 00 7fffffff", "topics"),
        (decode_fetch, 4, "ffffffff 00000000 00000000 00000000 00 00000001 0001 74 7fffffff", "topics"),
        (decode_fetch, 7, "ffffffff 00000000 00000000 00000000 00 00000000 00000000 00000000 00000001 0001 74 7fffffff", "forgotten"),
        (decode_fetch, 12, "ffffffff 00000000 00000000 00000000 00 00000000 00000000 02 02 74 ffffffff07 00", "topics"),
    ],
)
def test_claimed_giants_are_refused_by_their_count(read, version, text, field):
    with pytest.raises(Corrupt, match=r"length \d{10} cannot fit in the \d+ bytes left") as caught:
        read(version, memoryview(bytes.fromhex(text)), 0)
    assert field in caught.value.where
