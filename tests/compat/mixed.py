"""Group members on threads: kafka-python and aiokafka, range assignor, commit after each poll."""

from __future__ import annotations

import abc
import asyncio
import threading

import aiokafka
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from tests.compat.clients.kafka_python import KafkaConsumer
from tests.compat.flow import Plan


class Member(abc.ABC):
    """Reads until ``stop``; ``numbers`` in the order read, ``share`` the partitions it has now."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.numbers: list[int] = []
        self.share: set[int] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(30)

    @abc.abstractmethod
    def _run(self) -> None:
        """Reads and commits until ``_stop`` is set."""


class KafkaPythonMember(Member):
    def _run(self) -> None:
        consumer = KafkaConsumer(
            self.plan.topic,
            bootstrap_servers=self.plan.bootstrap,
            group_id=self.plan.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=500,
        )
        while not self._stop.is_set():
            for records in consumer.poll(timeout_ms=200).values():
                self.numbers += [int(record.value) for record in records]
            self.share = {place.partition for place in consumer.assignment()}
            if self.share:
                consumer.commit()
        consumer.close(autocommit=False)


class AiokafkaMember(Member):
    def _run(self) -> None:
        asyncio.run(self._read())

    async def _read(self) -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            self.plan.topic,
            bootstrap_servers=self.plan.bootstrap,
            group_id=self.plan.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=500,
            partition_assignment_strategy=(RangePartitionAssignor,),
        )
        await consumer.start()
        while not self._stop.is_set():
            for records in (await consumer.getmany(timeout_ms=200)).values():
                self.numbers += [int(record.value) for record in records]
            self.share = {place.partition for place in consumer.assignment()}
            if self.share:
                try:
                    await consumer.commit()
                except aiokafka.errors.CommitFailedError:
                    continue  # a new generation: whoever has the partition next reads them again
        await consumer.stop()
