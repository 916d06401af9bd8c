"""A producer of ready-made batches: so that the load is the cluster's, not this program's."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from frazil.admin.bench.cluster import Address, Pipes, Spot
from frazil.admin.bench.plan import BenchPlan
from frazil.admin.bench.tally import Tally
from frazil.kit.chance import Chance
from frazil.kit.errors import FrazilError
from frazil.records import Codec, build_batch
from frazil.records.building import BatchOptions, Record
from frazil.wire import ErrorCode, Message
from frazil.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from frazil.wire.messages.registry import ApiKey

_BATCHES = 8
"""Different ones, so that no cache of equal bytes helps."""
_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_TIMEOUT_MS = 30_000


def make_batches(plan: BenchPlan, chance: Chance, now_ms: int) -> list[bytes]:
    """Batches of random text: codecs make about three quarters of it, as of much real data without repetitions."""
    options = BatchOptions(codec=Codec[plan.codec.upper()])
    found = []
    for _ in range(_BATCHES):
        records = [Record(value=_text(plan.record_bytes, chance), timestamp_ms=now_ms) for _ in range(plan.records_per_batch)]
        found.append(build_batch(records, options=options))
    return found


def _text(size: int, chance: Chance) -> bytes:
    raw = chance.getrandbits(8 * max(1, size)).to_bytes(max(1, size), "big")
    return bytes(_LETTERS[byte & 63] for byte in raw)[:size]


@dataclass(slots=True)
class Producer:
    """One producer, number ``number``: its own connections, ``inflight`` batches at once over all of them."""

    number: int
    plan: BenchPlan
    leaders: Mapping[Spot, Address]
    batches: Sequence[bytes]
    tally: Tally
    pipes: Pipes

    async def run(self) -> None:
        """Produces until the plan is done, then waits for its last answers. Raises RetryLater when a connection breaks."""
        loop = asyncio.get_running_loop()
        room = asyncio.Semaphore(self.plan.inflight)
        spots = sorted(self.leaders)
        step = self.plan.records_per_batch * self.plan.producers / self.plan.rate if self.plan.rate else 0.0
        due = loop.time() + step * self.number / self.plan.producers
        for turn in itertools.count(self.number * len(spots) // self.plan.producers):
            if step:
                await asyncio.sleep(max(0.0, due - loop.time()))
            await room.acquire()
            # With a rate, time counts from when the batch was due: a slow answer delays those behind it and must show there too.
            begun = due if step else loop.time()
            due += step
            if self._done(loop.time()):
                room.release()
                break
            await self._send(spots[turn % len(spots)], self.batches[turn % len(self.batches)], begun, room)
        for _ in range(self.plan.inflight):
            await room.acquire()

    def _done(self, now: float) -> bool:
        plan, tally = self.plan, self.tally
        over = bool(plan.seconds) and now >= tally.begin + plan.seconds
        return over or (bool(plan.records) and tally.sent_records >= plan.records)

    async def _send(self, spot: Spot, batch: bytes, begun: float, room: asyncio.Semaphore) -> None:
        topic, number = spot
        pipe = self.pipes[self.leaders[spot]]
        rows = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=number, records=batch)])]
        request = ProduceRequest(acks=self.plan.acks, timeout_ms=_TIMEOUT_MS, topic_data=rows)
        counts = begun >= self.tally.begin
        if counts:
            self.tally.sent_records += self.plan.records_per_batch
        if self.plan.acks == 0:
            pipe.send_and_forget(ApiKey.PRODUCE, 9, request)
            self.tally.forgotten_records += self.plan.records_per_batch
            room.release()
            if counts:
                self._count(asyncio.get_running_loop().time())
            await asyncio.sleep(0)
        else:
            answer = pipe.send(ApiKey.PRODUCE, 9, request)
            answer.add_done_callback(partial(self._answered, spot=spot, begun=begun, room=room))
        await pipe.drained()

    def _count(self, now: float) -> None:
        self.tally.acked_records += self.plan.records_per_batch
        self.tally.acked_at = now

    def _answered(self, answer: asyncio.Future[Message], *, spot: Spot, begun: float, room: asyncio.Semaphore) -> None:
        room.release()
        if answer.cancelled():
            return
        error = answer.exception()
        if isinstance(error, FrazilError):
            self.tally.fail(str(error))
            return
        found = answer.result()
        assert isinstance(found, ProduceResponse)
        row = found.responses[0].partition_responses[0]
        if row.error_code:
            self.tally.fail(f"{spot[0]}/{spot[1]}: {row.error_message or _name(row.error_code)}")
            return
        self.tally.begun[spot, row.base_offset] = begun
        if begun >= self.tally.begin:
            now = asyncio.get_running_loop().time()
            self._count(now)
            self.tally.latencies_s.append(now - begun)


def _name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"
