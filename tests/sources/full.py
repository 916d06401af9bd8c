"""Sources in full: Apache Kafka and KafScale buckets, each landed to the record.

python -m tests.sources.full [--records 200000] [--buckets 400]

Apache Kafka (Maven) on loopback: every codec, transactions that commit and abort, landing killed at every kill point, brokers killed, new
partitions; a compacted topic; retention that is faster; TLS with SCRAM. librdkafka's read_committed consumer is the judge. Buckets are
those of tests/corpus/test_kafscale_buckets.py. Also how fast records come out of Kafka, beside librdkafka in the same run.
Writes docs/results/sources.json with its commit.
"""

from __future__ import annotations

import argparse
import asyncio
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

import trustme
from confluent_kafka import Consumer, TopicPartition
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from tests.corpus.test_kafscale_buckets import draw, test_a_drawn_bucket_lands_exactly
from tests.faults import results
from tests.integration.test_kafka_source import Stage
from tests.sources.kafka_server import VERSION, Clients, KafkaServer, free_port, send, until
from tests.standins.rest_catalog import RestCatalogDouble

from frazil.kit.chance import system_chance
from frazil.kit.clock import SystemClock
from frazil.kit.names import PartitionId, PartitionKey
from frazil.log.kafka.cluster import KafkaCluster, parse_bootstrap
from frazil.log.kafka.connection import KafkaSecurity
from frazil.log.kafka.source import KafkaLog

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
POINTS = ("P1", "P2", "P3", "P4", "P5", "P6", "P7")


def rounds_of(records: int) -> int:
    """Each kill point three times in the full form."""
    return (3 if records >= 100_000 else 1) * len(POINTS)


def exactness(stage: Stage, records: int) -> dict[str, Any]:
    """Everything at once in one topic of 4, then 6 partitions."""
    clients, topic, chance = stage.clients, "exact", random.Random(1)
    clients.create(topic, 4)
    plain = {codec: clients.producer(**{"compression.type": codec}) for codec in CODECS}
    writers = [clients.producer(**{"transactional.id": f"w{number}", "compression.type": CODECS[number]}) for number in range(3)]
    kills, restarts, aborted, at = 0, 0, 0, 0
    process = None
    rounds = rounds_of(records)
    for number in range(rounds):
        for writer in writers:
            writer.begin_transaction()
        for _ in range(4):
            size = records // rounds // 8
            send(plain[chance.choice(CODECS)], topic, range(at, at + size), 4)
            send(chance.choice(writers), topic, range(at + size, at + 2 * size), 4)
            at += 2 * size
        for writer in writers:
            aborts = chance.random() < 0.4
            aborted += aborts
            (writer.abort_transaction if aborts else writer.commit_transaction)(60)
        if process is None or process.poll() is not None:
            process = stage.land(topic, FRAZIL_FAULT=f"{POINTS[number % len(POINTS)]}:1")
        if number % 7 == 3:
            stage.kafka.kill()
            stage.kafka.start()
            restarts += 1
        if number == rounds // 2:
            clients.grow(topic, 6)
        try:
            kills += process.wait(60) == -signal.SIGKILL
        except subprocess.TimeoutExpired:  # it had nothing more to commit: the next round brings it there
            continue
    if process is not None and process.poll() is None:
        process.terminate()
        process.wait()
    begun = stage.log.read_text().count(" lands ")
    process = stage.land(topic)
    until(lambda: stage.log.read_text().count(" lands ") > begun)
    want = clients.committed(topic)
    until(lambda: stage.landed(topic) == want, patience_s=300)
    process.terminate()
    assert process.wait(120) == 0, f"exit code {process.returncode}: {stage.log.read_text()[-3000:]}"
    return {"records": at, "rows": len(want), "landing_killed": kills, "broker_killed": restarts, "transactions_aborted": aborted}


def compacted(stage: Stage) -> dict[str, Any]:
    """F11: the log cleaner takes records from the middle; rows of what is left, no lag."""
    clients, topic = stage.clients, "compacted"
    config = {"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01", "max.compaction.lag.ms": "1000"}
    clients.create(topic, 1, **config, **{"segment.ms": "1000"})
    producer = clients.producer()
    for number in range(3_000):
        producer.produce(topic, key=str(number % 10).encode(), value=b'{"id": %d}' % number)
        if number % 300 == 0:
            producer.flush()
            time.sleep(1.1)  # longer than the segment time of the topic: only closed segments are compacted
    producer.flush()
    until(lambda: len(clients.committed(topic)) < 2_000, patience_s=120)
    process = stage.land(topic)
    until(lambda: set(clients.committed(topic)) <= set(stage.landed(topic)) and len(stage.rows(topic)) > 0, patience_s=120)
    process.terminate()
    process.wait()
    landed = stage.landed(topic)
    assert len(landed) == len(set(landed))
    return {"records": 3_000, "rows": len(landed)}


def retention(stage: Stage) -> dict[str, Any]:
    """F10: records go before they were landed; what is left lands, the loss is in a snapshot's summary."""
    clients, topic = stage.clients, "retained"
    clients.create(topic, 1)
    producer = clients.producer()
    send(producer, topic, range(100), 1)
    process = stage.land(topic)
    until(lambda: len(stage.rows(topic)) == 100)
    process.terminate()
    process.wait()
    send(producer, topic, range(100, 1_000), 1)
    clients.drop_below(topic, 0, 500)
    process = stage.land(topic)
    until(lambda: len(stage.rows(topic)) == 600)
    process.terminate()
    process.wait()
    text = pathlib.Path(stage.directory / "warehouse").rglob("*.metadata.json")
    assert any("retained[0] 100-499" in path.read_text() for path in text)
    return {"lost": 400, "rows": 600}


def secured(directory: pathlib.Path) -> dict[str, Any]:
    """TLS and SCRAM-SHA-512; a wrong password is refused by name."""
    authority, port = trustme.CA(), free_port()
    issued = authority.issue_cert("localhost", "127.0.0.1")
    key = load_pem_private_key(issued.private_key_pem.bytes(), None)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    directory.mkdir()
    (directory / "broker.pem").write_bytes(pem + b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    authority.cert_pem.write_to_path(directory / "ca.pem")
    module = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    extra = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(directory / "broker.pem"),
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": module,
    }
    server = KafkaServer(directory / "server", extra, secure_port=port)
    server.format("--add-scram", "SCRAM-SHA-512=[name=frazil,password=sesame]")
    with server as kafka, RestCatalogDouble(directory / "warehouse") as catalog:
        stage = Stage(kafka=kafka, clients=Clients(kafka.bootstrap), catalog=catalog, directory=directory)
        stage.clients.create("safe", 1)
        send(stage.clients.producer(), "safe", range(100), 1)
        stage.source = (
            f'{{bootstrap: "localhost:{port}", tls: {{caFile: "{directory}/ca.pem"}}, '
            "sasl: {username: frazil, password: '${KAFKA_PASSWORD}'}}"
        )
        wrong = stage.land("safe", KAFKA_PASSWORD="guess")
        assert wrong.wait(60) == 1
        assert "does not let user 'frazil', SCRAM-SHA-512 in" in stage.log.read_text()
        process = stage.land("safe", KAFKA_PASSWORD="sesame")
        until(lambda: len(stage.rows("safe")) == 100)
        process.terminate()
        process.wait()
        assert "sesame" not in stage.log.read_text()
    return {"rows": 100, "mechanism": "SCRAM-SHA-512", "tls": True}


def speed(stage: Stage) -> dict[str, Any]:
    """CPU seconds of this process to have every record's bytes out of Kafka: raw batches, and messages of librdkafka."""
    clients, topic = stage.clients, "fast"
    clients.create(topic, 1)
    producer = clients.producer(**{"compression.type": "lz4", "batch.size": 1_000_000, "linger.ms": 50})
    value = b'{"id": %d, "name": "a name of some length", "price": 12.5, "note": "' + b"x" * 120 + b'"}'
    count = size = 0
    for number in range(400_000):
        made = value % number
        size += len(made)
        while True:
            try:
                producer.produce(topic, value=made)
                break
            except BufferError:
                producer.poll(0.1)
        count += 1
    assert producer.flush(60) == 0

    async def raw() -> int:
        cluster = KafkaCluster(parse_bootstrap(stage.kafka.bootstrap), KafkaSecurity(), system_chance(), client_id="bench")
        log = KafkaLog(cluster, SystemClock(), cluster_id=(await cluster.metadata([topic])).cluster_id, topics=[topic])
        await log.refresh()
        key = PartitionKey(log.all()[0].topic_id, PartitionId(0))
        at = 0
        while at < log.end(key):
            at = (await log.fetch(key, at, bytes_max=32 << 20)).end
        await cluster.close()
        return at

    begun, cpu = time.perf_counter(), time.process_time()
    assert asyncio.run(raw()) == count
    ours = {"seconds": time.perf_counter() - begun, "cpu_seconds": time.process_time() - cpu}
    consumer = Consumer({"bootstrap.servers": stage.kafka.bootstrap, "group.id": "bench", "enable.auto.commit": False, "log_level": 0})
    consumer.assign([TopicPartition(topic, 0, 0)])
    begun, cpu, seen = time.perf_counter(), time.process_time(), 0
    while seen < count:
        seen += sum(message.error() is None and len(message.value()) > 0 for message in consumer.consume(10_000, 5))
    theirs = {"seconds": time.perf_counter() - begun, "cpu_seconds": time.process_time() - cpu}
    consumer.close()
    return {"value_bytes": size, "records": count, "raw_batches": ours, "librdkafka_messages": theirs}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--buckets", type=int, default=400)
    options = parser.parse_args()
    found: dict[str, Any] = {"kafka": VERSION}
    with tempfile.TemporaryDirectory() as place:
        directory = pathlib.Path(place)
        extra = {"log.cleaner.backoff.ms": "500", "log.retention.check.interval.ms": "1000", "log.cleaner.min.compaction.lag.ms": "0"}
        with KafkaServer(directory / "server", extra) as kafka, RestCatalogDouble(directory / "warehouse") as catalog:
            stage = Stage(kafka=kafka, clients=Clients(kafka.bootstrap), catalog=catalog, directory=directory)
            for name, work in (("exact", lambda: exactness(stage, options.records)), ("compacted", lambda: compacted(stage)),
                               ("retention", lambda: retention(stage)), ("speed", lambda: speed(stage))):  # fmt: skip
                try:
                    found[name] = work()
                finally:
                    for process in stage.processes:
                        process.kill()
                        process.wait()
                sys.stdout.write(f"{name}: {found[name]}\n")
                sys.stdout.flush()
        found["secured"] = secured(directory / "secured")
        sys.stdout.write(f"secured: {found['secured']}\n")
    rows = 0
    for seed in range(options.buckets):
        test_a_drawn_bucket_lands_exactly(seed)
        rows += len(draw(seed).rows)
    found["kafscale"] = {"buckets": options.buckets, "rows": rows}
    sys.stdout.write(f"kafscale: {found['kafscale']}\n")
    results.save("sources.json", "python -m tests.sources.full", found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
