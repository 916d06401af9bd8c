"""Simulated clients: producers that behave as Kafka's do, consumers that read all the time and change brokers."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from tests.simulation import kafka
from tests.simulation.book import Accepted, Book, Order, Place, Sent
from tests.simulation.kafka import Broken, Connection

INFLIGHT_MAX = 5
TIMEOUT_S = 8.0
RETRY_S = 0.1


class Cluster(Protocol):
    """What clients know of the world."""

    chance: random.Random
    book: Book

    def connect(self, broker: int | None = None) -> Connection:
        """A connection to one broker, a random one if None. Raises Broken when that one is down."""
        ...

    def now_ms(self) -> int: ...

    def shrinks(self) -> bool:
        """True when log starts may rise at any moment."""
        ...


def wire_name(topic: str) -> str:
    """``name#2`` is the second life of topic ``name``."""
    return topic.partition("#")[0]


class Link:
    """A client's current connection; a new one when it broke or when the client feels like it."""

    def __init__(self, cluster: Cluster, *, restless: float = 0.0) -> None:
        self._cluster, self._restless = cluster, restless
        self._connection: Connection | None = None

    async def get(self) -> Connection:
        connection = self._connection
        if connection is not None and not connection.lost and self._cluster.chance.random() >= self._restless:
            return connection
        if connection is not None:
            connection.close()
        while True:
            try:
                self._connection = self._cluster.connect()
                return self._connection
            except Broken:
                await asyncio.sleep(RETRY_S * (0.5 + self._cluster.chance.random()))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


@dataclass(slots=True)
class Batch:
    """One batch of a lane. ``sequence`` is fixed when it is made, as in Kafka's producer."""

    values: list[bytes]
    sequence: int = -1
    payload: bytes = b""


@dataclass(slots=True)
class Lane:
    """One producer's way to one partition: batches in order, at most five under way."""

    name: str
    place: Place
    waiting: deque[Batch] = field(default_factory=deque)
    taken: list[list[bytes]] = field(default_factory=list)
    next_sequence: int = 0
    accepted: list[Accepted] = field(default_factory=list)
    connection: Connection | None = None
    connections: int = 0
    closed: bool = False
    news: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerStyle:
    idempotent: bool
    retries: bool
    """A plain producer without retries sends each batch once, whatever comes back."""
    acks: int
    inflight: int = INFLIGHT_MAX
    gzip: bool = False


class Producer:
    """Sends values to the partitions of one topic."""

    def __init__(self, name: str, cluster: Cluster, topic: str, partitions: int, style: ProducerStyle) -> None:
        self.name, self.style = name, style
        self._cluster = cluster
        self._lanes = [Lane(f"{name}-{number}", (topic, number)) for number in range(partitions)]
        self._pid = -1
        self._epoch = -1
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._run_lane(lane), name=f"producer {lane.name}") for lane in self._lanes]

    def send(self, partition: int, values: list[bytes]) -> None:
        """Takes a batch; it is sent in its turn."""
        lane = self._lanes[partition]
        for value in values:
            self._cluster.book.sent[value] = Sent(value, lane.place, idempotent=self.style.idempotent)
        batch = Batch(values)
        if self.style.idempotent:
            batch.sequence = lane.next_sequence
            lane.next_sequence += len(values)
        lane.waiting.append(batch)
        lane.taken.append(values)
        lane.news.set()

    async def finish(self) -> None:
        """Returns when everything taken is answered."""
        for lane in self._lanes:
            lane.closed = True
            lane.news.set()
        await asyncio.gather(*self._tasks)
        for lane in self._lanes:
            if lane.accepted:
                self._cluster.book.orders.append(Order(lane.name, lane.place, self.style.idempotent, lane.taken, lane.accepted))

    def unanswered(self) -> int:
        return sum(len(lane.waiting) for lane in self._lanes)

    async def _run_lane(self, lane: Lane) -> None:
        link = Link(self._cluster)
        while True:
            if not lane.waiting:
                if lane.closed:
                    break
                lane.news.clear()
                await lane.news.wait()
                continue
            try:
                await self._identify(link)
                connection = await link.get()
                if connection is not lane.connection:
                    lane.connection, lane.connections = connection, lane.connections + 1
                await self._window(lane, connection)
            except Broken:
                await asyncio.sleep(RETRY_S * (0.5 + self._cluster.chance.random()))
        link.close()

    async def _identify(self, link: Link) -> None:
        if not self.style.idempotent or self._pid >= 0:
            return
        answer = await (await link.get()).ask(kafka.INIT_PRODUCER_ID, 0, kafka.init_producer_request(), timeout_s=TIMEOUT_S)
        error, pid, epoch = kafka.read_init_producer(answer)
        if error:
            raise Broken(f"init producer id: error {error}")
        if self._pid < 0:
            self._pid, self._epoch = pid, epoch

    def _payload(self, batch: Batch) -> bytes:
        if not batch.payload:
            pid, epoch = (self._pid, self._epoch) if self.style.idempotent else (-1, -1)
            batch.payload = kafka.batch(
                batch.values, at_ms=self._cluster.now_ms(), pid=pid, epoch=epoch, sequence=batch.sequence, gzip=self.style.gzip
            )
        return batch.payload

    async def _window(self, lane: Lane, connection: Connection) -> None:
        """Sends and takes answers on one connection until something goes wrong or nothing is left."""
        under_way: deque[tuple[Batch, asyncio.Future[kafka.Reader]]] = deque()
        sent = 0
        trouble: Broken | None = None
        while trouble is None:
            while len(under_way) < self.style.inflight and sent < len(lane.waiting):
                batch = lane.waiting[sent]
                under_way.append((batch, self._send(lane, batch, connection)))
                sent += 1
            if not under_way:
                return
            batch, future = under_way.popleft()
            trouble = await self._take(lane, batch, future, connection)
            if not self._keeps(batch, trouble):
                sent -= 1
                lane.waiting.remove(batch)
            if not self.style.retries and not connection.lost:
                trouble = None
        for batch, future in under_way:  # their answers count too; then all that is left is sent again, in order
            outcome = await self._take(lane, batch, future, connection)
            if not self._keeps(batch, outcome):
                lane.waiting.remove(batch)
        raise trouble

    def _keeps(self, batch: Batch, trouble: Broken | None) -> bool:
        """True when the batch has to be sent again."""
        del batch
        return trouble is not None and self.style.retries

    def _send(self, lane: Lane, batch: Batch, connection: Connection) -> asyncio.Future[kafka.Reader]:
        topic, partition = lane.place
        for value in batch.values:
            self._cluster.book.sent[value].attempts += 1
        body = kafka.produce_request(wire_name(topic), partition, self._payload(batch), acks=self.style.acks)
        future = connection.send(kafka.PRODUCE, 7, body, answered=self.style.acks != 0)
        if self.style.acks == 0 and not future.done():
            future.set_exception(Broken("not answered"))
            future.exception()
        return future

    async def _take(self, lane: Lane, batch: Batch, future: asyncio.Future[kafka.Reader], connection: Connection) -> Broken | None:
        """Enters the answer into the book; what is wrong with it."""
        try:
            answer = kafka.read_produce(await connection.answer(future, timeout_s=TIMEOUT_S))
        except Broken as error:
            return error
        book = self._cluster.book
        if answer.error == 0 or (answer.error == kafka.DUPLICATE_SEQUENCE and self.style.idempotent):
            book.ack(lane.place, answer.base if answer.error == 0 else -1, batch.values, lane.name)
            if answer.error == 0:
                lane.accepted.append(Accepted(lane.connections, answer.base, batch.values))
            return None
        if answer.error == 45 and self.style.idempotent and lane.waiting and lane.waiting[0] is batch:
            book.fail(f"{lane.name}: OUT_OF_ORDER_SEQUENCE for the first unanswered batch, sequence {batch.sequence}")
        if answer.error not in _RETRIABLE:
            book.fail(f"{lane.name}: produce answered error {answer.error}")
        return Broken(f"produce answered error {answer.error}")


_RETRIABLE = (3, 5, 6, 7, 19, 20, 45, 56)


class Consumer:
    """Reads every partition of a topic from the front, for ever, now from this broker, now from that."""

    def __init__(self, name: str, cluster: Cluster, topic: str, partitions: int) -> None:
        self.name, self._cluster, self._topic = name, cluster, topic
        self.topic = topic
        self.offsets = dict.fromkeys(range(partitions), 0)

    async def run(self) -> None:
        link = Link(self._cluster, restless=0.25)
        chance = self._cluster.chance
        while True:
            try:
                request = kafka.fetch_request(
                    wire_name(self._topic),
                    self.offsets,
                    wait_ms=500,
                    bytes_max=1 << 20,
                    partition_bytes_max=chance.choice((1, 200, 1 << 20)),
                )
                connection = await link.get()
                answer = await connection.ask(kafka.FETCH, 5, request, timeout_s=TIMEOUT_S)
            except Broken:
                await asyncio.sleep(RETRY_S)
                continue
            failed = False
            for found in kafka.read_fetch(answer):
                failed |= not self._take(found)
            await asyncio.sleep(RETRY_S if failed else 0.02)

    def _take(self, found: kafka.Fetched) -> bool:
        book = self._cluster.book
        place = (self._topic, found.partition)
        asked = self.offsets[found.partition]
        if found.error == kafka.OUT_OF_RANGE:
            if found.log_start <= asked:  # what follows a record that was read is always a valid offset
                book.fail(f"{self.name}: {place} offset {asked} called out of range, log is [{found.log_start}, {found.end}]")
            book.out_of_range.append((place, asked, found.log_start, self.name))
            self.offsets[found.partition] = max(asked, found.log_start)
            return False
        if found.error:
            return False
        book.told_start[place] = max(book.told_start.get(place, 0), found.log_start)
        expected = asked
        for seen in kafka.records(found.data):
            if seen.offset < asked:
                continue
            if seen.offset != expected:
                book.fail(f"{self.name}: {place} skips from {expected} to {seen.offset}")
            book.see(place, seen.offset, seen.value, seen.at_ms, self.name)
            expected = seen.offset + 1
        if expected > asked:
            self.offsets[found.partition] = expected
        return True


class Looker:
    """Asks for the ends of the log: whatever was acknowledged before the question must be below the answer."""

    def __init__(self, cluster: Cluster, topic: str, partitions: int) -> None:
        self._cluster, self._topic, self._partitions = cluster, topic, list(range(partitions))

    async def run(self) -> None:
        link = Link(self._cluster, restless=0.5)
        book, chance = self._cluster.book, self._cluster.chance
        while True:
            await asyncio.sleep(0.3 + chance.random())
            before = {place: max(book.acked_end.get(place, 0), book.seen_end.get(place, 0)) for place in self._places()}
            starts = {place: book.told_start.get(place, 0) for place in self._places()}
            time = chance.choice((-1, -1, -2))
            try:
                if chance.random() < 0.3:
                    await self._by_time(link)
                    continue
                request = kafka.list_offsets_request(wire_name(self._topic), self._partitions, time)
                answer = await (await link.get()).ask(kafka.LIST_OFFSETS, 1, request, timeout_s=TIMEOUT_S)
            except Broken:
                continue
            for partition, (error, offset) in kafka.read_list_offsets(answer).items():
                place = (self._topic, partition)
                if error:
                    continue
                if time == -1 and offset < before[place]:
                    book.fail(f"ListOffsets latest of {place} is {offset}, but {before[place]} was known before the question")
                if time == -2 and offset < starts[place]:
                    book.fail(f"ListOffsets earliest of {place} is {offset}, but the start was {starts[place]} before")

    async def _by_time(self, link: Link) -> None:
        """The first record at or after a time, as far as the records that were read before the question tell."""
        book, chance = self._cluster.book, self._cluster.chance
        place = (self._topic, chance.choice(self._partitions))
        known = dict(book.times.get(place, {}))
        if not known:
            return
        wanted = chance.choice(sorted(known.values())) + chance.choice((-1, 0, 1))
        first = min((offset for offset, at_ms in known.items() if at_ms >= wanted), default=None)
        answer = await (await link.get()).ask(
            kafka.LIST_OFFSETS, 1, kafka.list_offsets_request(wire_name(self._topic), [place[1]], wanted), timeout_s=TIMEOUT_S
        )
        error, offset = kafka.read_list_offsets(answer)[place[1]]
        if error or first is None or first < book.told_start.get(place, 0):
            return
        if (offset < 0 or offset > first) and not self._cluster.shrinks():
            book.fail(f"ListOffsets of {place} at {wanted} is {offset}, but offset {first} is of {known[first]}")
        if known.get(offset, wanted) < wanted:
            book.fail(f"ListOffsets of {place} at {wanted} is {offset}, which is of {known[offset]}")

    def _places(self) -> list[Place]:
        return [(self._topic, partition) for partition in self._partitions]


class Deleter:
    """Raises log starts by hand (DeleteRecords): they never go back, and never where they were not sent."""

    def __init__(self, cluster: Cluster, topic: str, partitions: int) -> None:
        self._cluster, self._topic, self._partitions = cluster, topic, partitions

    async def run(self) -> None:
        link = Link(self._cluster, restless=0.5)
        book, chance = self._cluster.book, self._cluster.chance
        while True:
            await asyncio.sleep(0.5 + 2 * chance.random())
            place = (self._topic, chance.randrange(self._partitions))
            before = chance.randint(0, book.acked_end.get(place, 0))
            try:
                request = kafka.delete_records_request(*place, before)
                answer = await (await link.get()).ask(kafka.DELETE_RECORDS, 0, request, timeout_s=TIMEOUT_S)
            except Broken:
                continue
            error, start = kafka.read_delete_records(answer)
            if error:
                if error == kafka.OUT_OF_RANGE:
                    book.fail(f"DeleteRecords of {place} below {before} called out of range")
                continue
            if start < before:
                book.fail(f"DeleteRecords of {place} below {before} left the log start at {start}")
            book.told_start[place] = max(book.told_start.get(place, 0), start)


class Committer:
    """A group of one that commits offsets: what was acknowledged last is what is read back."""

    def __init__(self, name: str, cluster: Cluster, topic: str) -> None:
        self.name, self._cluster, self._topic = name, cluster, topic
        self.sent = 0
        self.acked = 0

    async def run(self) -> None:
        chance = self._cluster.chance
        while True:
            await asyncio.sleep(0.5 + chance.random())
            try:
                connection = await self._find()
                if chance.random() < 0.6:
                    await self._commit(connection)
                else:
                    await self._check(connection)
                connection.close()
            except Broken:
                continue

    async def _find(self) -> Connection:
        connection = self._cluster.connect()
        answer = await connection.ask(kafka.FIND_COORDINATOR, 0, kafka.find_coordinator_request(self.name), timeout_s=TIMEOUT_S)
        error, node = kafka.read_find_coordinator(answer)
        connection.close()
        if error:
            raise Broken(f"error {error}")
        return self._cluster.connect(node)

    async def _commit(self, connection: Connection) -> None:
        self.sent += 1
        number = self.sent
        request = kafka.offset_commit_request(self.name, self._topic, {0: number})
        errors = kafka.read_offset_commit(await connection.ask(kafka.OFFSET_COMMIT, 2, request, timeout_s=TIMEOUT_S))
        if errors[0] == 0:
            self.acked = max(self.acked, number)

    async def _check(self, connection: Connection) -> None:
        floor = self.acked
        request = kafka.offset_fetch_request(self.name, self._topic, [0])
        error, offset = kafka.read_offset_fetch(await connection.ask(kafka.OFFSET_FETCH, 1, request, timeout_s=TIMEOUT_S))[0]
        if error == 0 and floor and not floor <= offset <= self.sent:
            self._cluster.book.fail(
                f"{self.name}: committed offset reads {offset}, but {floor} was acknowledged and {self.sent} is the last sent"
            )


async def until(done: Callable[[], bool] | Callable[[], Awaitable[bool]], *, seconds: float, step_s: float = 0.25) -> bool:
    """Waits in virtual time; False when it took too long."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while True:
        answer = done()
        if answer if isinstance(answer, bool) else await answer:
            return True
        if loop.time() >= deadline:
            return False
        await asyncio.sleep(step_s)
