"""A broker without sockets on a virtual clock, and a client that speaks frames to it over an in-memory transport."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from tests.integration.rig import Parts, World, running, settings_of
from tests.simulation.loop import run_virtual

from frazil.broker.connection import Connection
from frazil.kit.clock import LoopClock
from frazil.records import build_batch
from frazil.records.building import BatchOptions, Record
from frazil.wire.client import decode_response, encode_request
from frazil.wire.frame import FrameBuffer, RequestHeader, decode_response_header, encode_request_frame
from frazil.wire.layout import Message
from frazil.wire.messages.produce import PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData

M = TypeVar("M")
T = TypeVar("T")


class MemoryTransport(asyncio.Transport):
    """Carries a ``Connection`` without a socket. ``feed`` is the peer's sending side, ``written`` its receiving side."""

    def __init__(self, protocol: Connection) -> None:
        super().__init__()
        self.protocol = protocol
        self.written = bytearray()
        self.writes = 0
        self.closed = False
        self.paused = False
        self.inbox = bytearray()
        self._on_write: list[asyncio.Event] = []
        self._loop = asyncio.get_running_loop()
        protocol.connection_made(self)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("10.0.0.9", 5) if name == "peername" else default

    def feed(self, data: bytes, *, chunk: int = 1 << 20) -> None:
        self.inbox += data
        self._deliver(chunk)

    def _deliver(self, chunk: int = 1 << 20) -> None:
        while self.inbox and not self.paused and not self.closed:
            room = self.protocol.get_buffer(-1)
            n = min(len(room), len(self.inbox), chunk)
            assert n > 0, "get_buffer gave no room"
            room[:n] = self.inbox[:n]
            del self.inbox[:n]
            self.protocol.buffer_updated(n)

    def write(self, data: Any) -> None:
        if self.closed:
            return
        self.written += data
        self.writes += 1
        for event in self._on_write:
            event.set()

    def pause_reading(self) -> None:
        assert not self.paused
        self.paused = True

    def resume_reading(self) -> None:
        assert self.paused
        self.paused = False
        self._loop.call_soon(self._deliver)

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._loop.call_soon(self.protocol.connection_lost, None)
            for event in self._on_write:
                event.set()

    def abort(self) -> None:
        self.close()

    def listen(self) -> asyncio.Event:
        event = asyncio.Event()
        self._on_write.append(event)
        return event


class Client:
    """Requests out, responses in order."""

    def __init__(self, connection: Connection, *, client_id: str | None = "test") -> None:
        self.transport = MemoryTransport(connection)
        self._client_id = client_id
        self._correlation = 0
        self._frames = FrameBuffer()
        self._read = 0
        self._ready: list[memoryview] = []
        self._news = self.transport.listen()

    def send(self, key: int, version: int, message: Message) -> int:
        self._correlation += 1
        header = RequestHeader(key, version, self._correlation, self._client_id, 0)
        self.transport.feed(encode_request_frame(header, encode_request(key, version, message)))
        return self._correlation

    async def receive(self, key: int, version: int) -> tuple[int, Any]:
        while not self._ready:
            fresh = bytes(self.transport.written[self._read :])
            self._read += len(fresh)
            self._ready += self._frames.feed(fresh)
            if not self._ready:
                if self.transport.closed:
                    raise ConnectionError("closed by the broker")
                self._news.clear()
                await self._news.wait()
        frame = self._ready.pop(0)
        correlation, position = decode_response_header(key, version, frame)
        return correlation, decode_response(key, version, frame, position)

    async def call(self, key: int, version: int, message: Message) -> Any:
        sent = self.send(key, version, message)
        correlation, response = await self.receive(key, version)
        assert correlation == sent
        return response

    async def produce(self, topic: str, data: bytes, *, partition: int = 0, version: int = 9, acks: int = -1) -> PartitionProduceResponse:
        response = await self.call(0, version, produce_request(topic, {partition: data}, acks=acks))
        return response.responses[0].partition_responses[0]  # type: ignore[no-any-return]


def produce_request(topic: str, runs: dict[int, bytes], *, acks: int = -1) -> ProduceRequest:
    partitions = [PartitionProduceData(index=index, records=data) for index, data in runs.items()]
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name=topic, partition_data=partitions)])


def batch(count: int = 1, *, timestamp_ms: int = 1_700_000_000_000, value: bytes = b"v", options: BatchOptions | None = None) -> bytes:
    records = [Record(key=None, value=value, timestamp_ms=timestamp_ms + n) for n in range(count)]
    return build_batch(records, options=options or BatchOptions())


@dataclass
class Stage:
    """A running broker and a client on it."""

    world: World
    parts: Parts
    client: Client

    def another(self, **changes: Any) -> Client:
        return Client(self.parts.broker.connection(), **changes)

    async def topic(self, name: str = "t", partitions: int = 1, **configs: str) -> Any:
        topics = self.parts.broker._topics.topics
        return await topics.create(name, partitions, {key.replace("_", "."): value for key, value in configs.items()})


@contextlib.asynccontextmanager
async def stage(world: World | None = None, node_id: int = 0, **changes: Any) -> AsyncIterator[Stage]:
    world = world or World()
    async with running(world, settings_of(node_id, **changes), listen=False, clock=LoopClock()) as parts:
        yield Stage(world, parts, Client(parts.broker.connection()))


def play(scene: Callable[[Stage], Coroutine[Any, Any, T]], **changes: Any) -> T:
    """Runs ``scene`` against one broker in virtual time."""

    async def main() -> T:
        async with stage(**changes) as on:
            return await scene(on)

    return run_virtual(main())
