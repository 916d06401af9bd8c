"""One member of a consumer group as a process: python member.py BOOTSTRAP TOPIC GROUP FILE SETTINGS.

Appends to FILE: ``assigned P…`` at each change of its share, ``read PARTITION NUMBER OFFSET`` before the record is committed.
Ends cleanly at SIGTERM.
"""

from __future__ import annotations

import json
import signal
import sys
from typing import Any

import confluent_kafka


def main(bootstrap: str, topic: str, group: str, path: str, settings: str) -> None:
    stopping = False

    def stop(*_: object) -> None:
        nonlocal stopping
        stopping = True

    signal.signal(signal.SIGTERM, stop)
    given: dict[str, Any] = json.loads(settings)
    cooperative = given.get("partition.assignment.strategy") == "cooperative-sticky"
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest",
            "reconnect.backoff.max.ms": 200, "heartbeat.interval.ms": 500, "log_level": 0, **given,
        }
    )  # fmt: skip
    with open(path, "a", buffering=1) as out:

        def share(mine: set[int]) -> None:
            out.write(" ".join(["assigned", *map(str, sorted(mine))]) + "\n")

        mine: set[int] = set()
        ends: dict[int, int] = {}
        """What is read and not committed, by partition."""

        def assigned(_: confluent_kafka.Consumer, given: list[confluent_kafka.TopicPartition]) -> None:
            if not cooperative:
                mine.clear()
            mine.update(place.partition for place in given)
            share(mine)

        def revoked(_: confluent_kafka.Consumer, taken: list[confluent_kafka.TopicPartition]) -> None:
            commit(consumer, topic, ends)
            for place in taken:
                ends.pop(place.partition, None)
            mine.difference_update(place.partition for place in taken)
            share(mine)

        consumer.subscribe([topic], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
        while not stopping:
            messages = [m for m in consumer.consume(200, timeout=0.1) if m.error() is None]
            out.write("".join(f"read {m.partition()} {int(m.value())} {m.offset()}\n" for m in messages))
            ends.update({m.partition(): m.offset() + 1 for m in messages})
            commit(consumer, topic, ends)
        consumer.close()


def commit(consumer: confluent_kafka.Consumer, topic: str, ends: dict[int, int]) -> None:
    """Commits; what the group refuses now (a rebalance, the broker away) stays in ``ends`` and is tried again with the next."""
    if not ends:
        return
    try:
        consumer.commit(offsets=[confluent_kafka.TopicPartition(topic, p, at) for p, at in ends.items()], asynchronous=False)
        ends.clear()
    except confluent_kafka.KafkaException as error:
        print(f"not committed: {error}", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
