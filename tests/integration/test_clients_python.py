"""The two pure Python clients, kafka-python and aiokafka, and kcat against a broker on real sockets."""

from __future__ import annotations

import asyncio
import gc
import shutil
import subprocess
import warnings
from collections.abc import Iterator

import aiokafka
import pytest
from tests.integration.rig import BrokerThread, brokers

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its schemas by an old call
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import KafkaAdminClient, NewTopic

pytestmark = [
    pytest.mark.server,
    # the clients under test leave sockets and warnings of their own behind
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    with brokers(default_partitions=3) as (one,):
        yield one
    gc.collect()  # what the clients left behind is complained about here, where it is ignored


def test_kafka_python_produces_consumes_commits_and_resumes(broker: BrokerThread) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.address)
    for n in range(200):
        producer.send("kp", b"%d" % n, key=b"%d" % n, headers=[("h", b"x")])
    producer.flush(10)
    producer.close()

    def consume(count: int) -> list[bytes]:
        consumer = KafkaConsumer(
            "kp",
            bootstrap_servers=broker.address,
            group_id="g",
            auto_offset_reset="earliest",
            consumer_timeout_ms=5_000,
            max_poll_records=10,
        )
        values = []
        for record in consumer:
            assert record.headers == [("h", b"x")]
            values.append(record.value)
            if len(values) == count:
                break
        consumer.commit()
        consumer.close()
        return values

    first = consume(80)
    second = consume(120)
    assert sorted(first + second) == sorted(b"%d" % n for n in range(200))


def test_kafka_python_admin(broker: BrokerThread) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker.address)
    admin.create_topics([NewTopic(name="a", num_partitions=2, replication_factor=1)])
    assert "a" in admin.list_topics()
    consumer = KafkaConsumer(bootstrap_servers=broker.address)
    assert consumer.end_offsets([TopicPartition("a", 1)]) == {TopicPartition("a", 1): 0}
    consumer.close()
    admin.delete_topics(["a"])
    assert "a" not in admin.list_topics()
    admin.close()


def test_aiokafka_idempotent_producer_and_group(broker: BrokerThread) -> None:
    async def main() -> list[bytes]:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=broker.address, enable_idempotence=True, compression_type="gzip")
        await producer.start()
        for n in range(200):
            await producer.send("ak", b"%d" % n)
        await producer.stop()
        consumers = [
            aiokafka.AIOKafkaConsumer("ak", bootstrap_servers=broker.address, group_id="g", auto_offset_reset="earliest") for _ in range(2)
        ]
        await asyncio.gather(*(c.start() for c in consumers))
        values: list[bytes] = []

        async def drain(consumer: aiokafka.AIOKafkaConsumer) -> None:
            while len(values) < 200:
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    values.extend(r.value for r in records)

        await asyncio.wait_for(asyncio.gather(*map(drain, consumers)), 20)
        assert all(c.assignment() for c in consumers)
        await asyncio.gather(*(c.stop() for c in consumers))
        return values

    assert sorted(asyncio.run(main())) == sorted(b"%d" % n for n in range(200))


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed (apt-get install kcat)")
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_kcat_of_debian_12_connects_and_uses_every_codec(broker: BrokerThread, codec: str) -> None:
    def kcat(*arguments: str, text: str = "") -> str:
        command = ["kcat", "-b", broker.address, *arguments]
        return subprocess.run(command, input=text, capture_output=True, text=True, timeout=20, check=True).stdout

    lines = [f"{n} {'x' * 50}" for n in range(100)]
    kcat("-P", "-t", "kc", "-p", "0", "-z", codec, text="\n".join(lines))
    assert kcat("-C", "-t", "kc", "-o", "beginning", "-e").splitlines() == lines
    assert sorted(kcat("-G", "kg", "-X", "auto.offset.reset=earliest", "-e", "kc").splitlines()) == sorted(lines)
    assert 'topic "kc" with 3 partitions' in kcat("-L")
