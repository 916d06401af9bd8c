"""A consumer that counts: it reads the heads of batches and leaves the records packed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from frazil.admin.bench.cluster import Address, Pipes, Spot, ask
from frazil.admin.bench.tally import Tally
from frazil.admin.connection import check
from frazil.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from frazil.wire.messages.registry import ApiKey

_FETCH_BYTES = 32 * 1024 * 1024
_PARTITION_BYTES = 4 * 1024 * 1024
_WAIT_MS = 500
_HEAD_BYTES = 61


@dataclass(slots=True)
class Consumer:
    """Reads the partitions it was given, one fetch at a time for each leader."""

    leaders: Mapping[Spot, Address]
    tally: Tally
    pipes: Pipes

    async def run(self) -> None:
        """Reads for ever; the caller cancels. Raises Refused or RetryLater when a fetch fails."""
        try:
            async with asyncio.TaskGroup() as group:
                for address in sorted(set(self.leaders.values())):
                    group.create_task(self._read(address))
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None

    async def _read(self, address: Address) -> None:
        spots = sorted(spot for spot, leader in self.leaders.items() if leader == address)
        loop = asyncio.get_running_loop()
        while True:
            answer = await ask(self.pipes[address], ApiKey.FETCH, 12, self._request(spots), FetchResponse)
            now = loop.time()
            check(answer.error_code, "fetch")
            for topic in answer.responses:
                for row in topic.partitions:
                    check(row.error_code, f"fetch of {topic.topic}/{row.partition_index}")
                    if row.records:
                        self._take((topic.topic, row.partition_index), memoryview(row.records), now)

    def _request(self, spots: list[Spot]) -> FetchRequest:
        by_topic: dict[str, list[FetchPartition]] = {}
        for topic, partition in spots:
            at = self.tally.reached[topic, partition]
            row = FetchPartition(partition=partition, fetch_offset=at, partition_max_bytes=_PARTITION_BYTES)
            by_topic.setdefault(topic, []).append(row)
        topics = [FetchTopic(topic=name, partitions=rows) for name, rows in by_topic.items()]
        return FetchRequest(replica_id=-1, max_wait_ms=_WAIT_MS, min_bytes=1, max_bytes=_FETCH_BYTES, topics=topics)

    def _take(self, spot: Spot, data: memoryview, now: float) -> None:
        tally = self.tally
        position = 0
        while position + _HEAD_BYTES <= len(data):
            base = int.from_bytes(data[position : position + 8], "big")
            length = int.from_bytes(data[position + 8 : position + 12], "big")
            if position + 12 + length > len(data):
                break  # the tail of an answer may be cut (KIP-74)
            last = base + int.from_bytes(data[position + 23 : position + 27], "big")
            if last >= tally.reached[spot]:
                tally.reached[spot] = last + 1
                tally.read_records += int.from_bytes(data[position + 57 : position + 61], "big")
                tally.read_bytes += 12 + length
                tally.read_at = now
                tally.arrived[spot, base] = now
            position += 12 + length
