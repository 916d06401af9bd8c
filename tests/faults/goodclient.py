"""The good neighbour: an idempotent producer and a group consumer, which check that nothing is lost, doubled or out of order.

python -m tests.faults.goodclient BOOTSTRAP TOPIC; produces until SIGTERM, then reads to the end and prints one JSON line.
"""

from __future__ import annotations

import json
import signal
import sys
import time

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic

PARTITIONS = 3
PER_SECOND = 1000


class GoodClient:
    """Produces and consumes at a steady pace and keeps the books."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic = topic
        self.sent = 0
        self.failed: list[str] = []
        self.acknowledged = 0
        self.latencies_ms: list[float] = []
        self.next = list(range(PARTITIONS))
        """Per partition the number that must come next."""
        self.wrong: list[str] = []
        self.read = 0
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(20)
        self.producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": 120000, "log_level": 0}
        )
        settings = {"group.id": f"{topic}-group", "auto.offset.reset": "earliest", "check.crcs": True, "log_level": 0}
        self.consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, **settings})
        self.consumer.subscribe([topic])

    def produce(self, count: int) -> None:
        for _ in range(count):
            value = b'{"n":%d}' % self.sent
            self.producer.produce(self.topic, value, partition=self.sent % PARTITIONS, on_delivery=self._done(time.monotonic()))
            self.sent += 1
        self.producer.poll(0)

    def _done(self, began: float):  # type: ignore[no-untyped-def]
        def done(error: confluent_kafka.KafkaError | None, _: confluent_kafka.Message) -> None:
            if error is not None:
                self.failed.append(str(error))
                return
            self.acknowledged += 1
            self.latencies_ms.append((time.monotonic() - began) * 1000)

        return done

    def consume(self, timeout_s: float) -> int:
        messages = self.consumer.consume(2000, timeout=timeout_s)
        for message in messages:
            if message.error() is not None:
                self.wrong.append(str(message.error()))
                continue
            number, partition = int(message.value()[5:-1]), message.partition()
            if number != self.next[partition] and len(self.wrong) < 20:
                self.wrong.append(f"partition {partition} offset {message.offset()}: {number} where {self.next[partition]} must come")
            self.next[partition] = number + PARTITIONS
            self.read += 1
        return len(messages)

    def settle(self) -> dict[str, object]:
        left = self.producer.flush(120)
        end = time.monotonic() + 60
        while self.read < self.sent and time.monotonic() < end:
            self.consume(0.5)
        self.consumer.close()
        ordered = sorted(self.latencies_ms) or [0.0]
        return {
            "sent": self.sent,
            "acknowledged": self.acknowledged,
            "read": self.read,
            "lost": self.sent - self.read if self.read < self.sent else 0,
            "wrong": self.wrong,
            "failed": [*self.failed[:5], *([f"{left} not acknowledged"] if left else [])],
            "ack_ms_p50": round(ordered[len(ordered) // 2], 1),
            "ack_ms_p99": round(ordered[len(ordered) * 99 // 100], 1),
            "ack_ms_max": round(ordered[-1], 1),
        }


def main(bootstrap: str, topic: str) -> None:
    stopping = False

    def stop(*_: object) -> None:
        nonlocal stopping
        stopping = True

    signal.signal(signal.SIGTERM, stop)
    client = GoodClient(bootstrap, topic)
    print("ready", flush=True)
    turn_s = 0.02
    due = time.monotonic()
    while not stopping:
        client.produce(int(PER_SECOND * turn_s))
        client.consume(0)
        due = max(due + turn_s, time.monotonic() - 1)
        time.sleep(max(0.0, due - time.monotonic()))
    print(json.dumps(client.settle()), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
