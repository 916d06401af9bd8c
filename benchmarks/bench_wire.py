"""Microseconds per message: generated and hand-written codec beside kio. Run: ``python benchmarks/bench_wire.py [name part]``."""

from __future__ import annotations

import io
import platform
import sys
import timeit
from collections.abc import Callable, Iterator

from frazil.wire import decode_request, encode_response
from frazil.wire.client import decode_response, encode_request
from frazil.wire.fetch import FetchAnswer, FetchedPartition, FetchedTopic, decode_fetch, encode_fetch_response
from frazil.wire.messages import fetch, metadata, produce
from frazil.wire.produce import ProducedPartition, ProducedTopic, decode_produce, encode_produce_response

Case = tuple[str, dict[str, Callable[[], object]]]


def microseconds(call: Callable[[], object]) -> float:
    """The best of five rounds of about 50 ms."""
    timer = timeit.Timer(call)
    count = max(1, int(timer.autorange()[0] / 4))
    return min(timer.repeat(5, count)) / count * 1e6


def kio_reader(api: int, version: int, data: bytes, *, response: bool = False) -> Callable[[], object]:
    from kio.index import load_request_schema, load_response_schema
    from kio.serial import entity_reader

    read = entity_reader((load_response_schema if response else load_request_schema)(api, version))
    return lambda: read(data, 0)


def kio_writer(api: int, version: int, data: bytes) -> Callable[[], object]:
    """Writes the entity only; building it is not counted, in kio's favour."""
    from kio.index import load_response_schema
    from kio.serial import entity_writer

    schema = load_response_schema(api, version)
    entity, write = kio_reader(api, version, data, response=True)()[0], entity_writer(schema)  # type: ignore[index]
    return lambda: write(io.BytesIO(), entity)


def produce_request(version: int, partitions: int, size: int) -> Case:
    rows = [produce.PartitionProduceData(index=i, records=bytes(size)) for i in range(partitions)]
    data = encode_request(
        0, version, produce.ProduceRequest(acks=-1, topic_data=[produce.TopicProduceData(name="topic", partition_data=rows)])
    )
    frame = memoryview(data)
    return f"ProduceRequest v{version} decode, {partitions} x {size} B", {
        "kio": kio_reader(0, version, data),
        "generated": lambda: decode_request(0, version, frame, 0),
        "by hand": lambda: decode_produce(version, frame, 0),
    }


def produce_response(version: int, partitions: int) -> Case:
    def generated() -> bytes:
        rows = [produce.PartitionProduceResponse(index=i, base_offset=5, log_start_offset=0) for i in range(partitions)]
        topics = [produce.TopicProduceResponse(name="topic", partition_responses=rows)]
        return encode_response(0, version, produce.ProduceResponse(responses=topics))

    def by_hand() -> bytes:
        return encode_produce_response(version, [ProducedTopic("topic", [ProducedPartition(i, 0, 5, -1, 0) for i in range(partitions)])])

    calls = {"kio": kio_writer(0, version, generated()), "generated": generated, "by hand": by_hand}
    return f"ProduceResponse v{version} build + encode, {partitions} partitions", calls


def fetch_request(version: int, partitions: int) -> Case:
    rows = [fetch.FetchPartition(partition=i, fetch_offset=7, partition_max_bytes=1 << 20) for i in range(partitions)]
    data = encode_request(1, version, fetch.FetchRequest(topics=[fetch.FetchTopic(topic="topic", partitions=rows)]))
    frame = memoryview(data)
    return f"FetchRequest v{version} decode, {partitions} partitions", {
        "kio": kio_reader(1, version, data),
        "generated": lambda: decode_request(1, version, frame, 0),
        "by hand": lambda: decode_fetch(version, frame, 0),
    }


def fetch_response(version: int, partitions: int, size: int) -> Case:
    records = bytes(size)

    def generated() -> bytes:
        rows = [fetch.PartitionData(partition_index=i, high_watermark=9, records=records) for i in range(partitions)]
        topics = [fetch.FetchableTopicResponse(topic="topic", partitions=rows)]
        return encode_response(1, version, fetch.FetchResponse(responses=topics))

    def by_hand() -> object:
        rows = [FetchedPartition(i, 0, 9, 9, 0, records) for i in range(partitions)]
        return encode_fetch_response(version, FetchAnswer([FetchedTopic("topic", rows)]))

    calls = {"kio": kio_writer(1, version, generated()), "generated": generated, "by hand": by_hand}
    return f"FetchResponse v{version} build + encode, {partitions} x {size} B", calls


def metadata_response(version: int, topics: int, partitions: int) -> Case:
    def generated() -> bytes:
        return encode_response(
            3,
            version,
            metadata.MetadataResponse(
                brokers=[metadata.MetadataResponseBroker(node_id=1, host="broker", port=9092)],
                topics=[
                    metadata.MetadataResponseTopic(
                        name=f"topic-{n}",
                        partitions=[
                            metadata.MetadataResponsePartition(partition_index=i, leader_id=1, replica_nodes=[1], isr_nodes=[1])
                            for i in range(partitions)
                        ],
                    )
                    for n in range(topics)
                ],
            ),
        )

    data = generated()
    frame = memoryview(data)
    return f"MetadataResponse v{version} build + encode, {topics} x {partitions}", {
        "kio": kio_writer(3, version, data),
        "generated": generated,
        "decode": lambda: decode_response(3, version, frame, 0),
    }


def cases() -> Iterator[Case]:
    """The messages that matter."""
    yield produce_request(9, 1, 1100)
    yield produce_request(7, 1, 1100)
    yield produce_request(9, 1, 1 << 20)
    yield produce_request(9, 10, 16384)
    yield produce_response(9, 1)
    yield produce_response(9, 10)
    yield fetch_request(12, 10)
    yield fetch_request(11, 10)
    yield fetch_response(12, 1, 1100)
    yield fetch_response(12, 1, 1 << 20)
    yield fetch_response(12, 10, 16384)
    yield metadata_response(9, 1, 12)
    yield metadata_response(9, 100, 10)


def main() -> None:
    """Print one line per case."""
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    print(f"# Python {platform.python_version()}, {platform.machine()}; µs per message, best of five")
    for name, calls in cases():
        if wanted in name:
            print(f"{name:58}" + "".join(f"{label:>11} {microseconds(call):8.2f}" for label, call in calls.items()))


if __name__ == "__main__":
    main()
