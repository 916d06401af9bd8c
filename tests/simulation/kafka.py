"""A Kafka client in two hundred lines, from the protocol's documentation alone: nothing of the product is imported here.

Old, inflexible versions throughout: Produce 7, Fetch 5, ListOffsets 1, InitProducerId 0, OffsetCommit 2, OffsetFetch 1,
FindCoordinator 0, DeleteRecords 0.
"""

from __future__ import annotations

import asyncio
import struct
import zlib
from dataclasses import dataclass

from crc32c import crc32c

PRODUCE, FETCH, LIST_OFFSETS, OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, DELETE_RECORDS, INIT_PRODUCER_ID = 0, 1, 2, 8, 9, 10, 21, 22
OUT_OF_RANGE, UNKNOWN_TOPIC, NOT_COORDINATOR, DUPLICATE_SEQUENCE = 1, 3, 16, 46
_HEAD = struct.Struct(">qiibIhiqqqhii")


class Broken(Exception):
    """The connection ended, or no answer came in time; whether the request was carried out is not known."""


# --- record batches ---------------------------------------------------------------------------------------------------


def _varint(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    shift = number = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return (number >> 1) ^ -(number & 1), at
        shift += 7


def batch(values: list[bytes], *, at_ms: int, pid: int = -1, epoch: int = -1, sequence: int = -1, gzip: bool = False) -> bytes:
    """One v2 batch; keys and headers are null."""
    records = bytearray()
    for number, value in enumerate(values):
        body = b"\0" + _varint(number) + _varint(number) + _varint(-1) + _varint(len(value)) + value + b"\0"
        records += _varint(len(body)) + body
    payload = bytes(records)
    if gzip:
        packer = zlib.compressobj(6, zlib.DEFLATED, 31)
        payload = packer.compress(payload) + packer.flush()
    last = len(values) - 1
    covered = struct.pack(">hiqqqhii", 1 if gzip else 0, last, at_ms, at_ms + last, pid, epoch, sequence, last + 1) + payload
    return struct.pack(">qiibI", 0, 9 + len(covered), -1, 2, crc32c(covered)) + covered


@dataclass(frozen=True, slots=True)
class Seen:
    """One record as read."""

    offset: int
    value: bytes
    pid: int
    sequence: int
    at_ms: int = 0


def records(data: bytes) -> list[Seen]:
    """Every record of whole batches; a batch cut off at the end is ignored, as Kafka allows. AssertionError on damage."""
    found = []
    at = 0
    while at + 12 <= len(data):
        size = struct.unpack_from(">i", data, at + 8)[0] + 12
        if at + size > len(data):
            break
        base, _, _, magic, crc, flags, last, base_ms, _, pid, _, sequence, count = _HEAD.unpack_from(data, at)
        frame = bytes(data[at : at + size])
        assert magic == 2, f"magic {magic}"
        assert crc32c(frame[21:]) == crc, f"checksum of the batch at offset {base}"
        payload = frame[61:]
        if flags & 7 == 1:
            payload = zlib.decompress(payload, 31)
        place = 0
        for number in range(count):
            length, place = _read_varint(payload, place)
            end = place + length
            later_ms, place = _read_varint(payload, place + 1)
            delta, place = _read_varint(payload, place)
            size_key, place = _read_varint(payload, place)
            place += max(size_key, 0)
            size_value, place = _read_varint(payload, place)
            value = payload[place : place + size_value]
            found.append(Seen(base + delta, value, pid, sequence + number if sequence >= 0 else -1, base_ms + later_ms))
            place = end
        assert last + 1 == count == number + 1, f"counts of the batch at offset {base}"
        at += size
    return found


# --- requests ---------------------------------------------------------------------------------------------------------


def _text(text: str | None) -> bytes:
    return struct.pack(">h", -1) if text is None else struct.pack(">h", len(text.encode())) + text.encode()


class Reader:
    """Reads an answer from its front."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, layout: str) -> tuple[int, ...]:
        found = struct.unpack_from(">" + layout, self._data, self._at)
        self._at += struct.calcsize(">" + layout)
        return found

    def number(self, layout: str = "i") -> int:
        return self.take(layout)[0]

    def bytes(self) -> bytes:
        size = max(self.number(), 0)
        self._at += size
        return self._data[self._at - size : self._at]

    def text(self) -> str:
        size = max(self.number("h"), 0)
        self._at += size
        return self._data[self._at - size : self._at].decode()


def produce_request(topic: str, partition: int, data: bytes, *, acks: int) -> bytes:
    head = struct.pack(">hhii", -1, acks, 30_000, 1)
    return head + _text(topic) + struct.pack(">iii", 1, partition, len(data)) + data


@dataclass(frozen=True, slots=True)
class Produced:
    error: int
    base: int
    log_start: int


def read_produce(answer: Reader) -> Produced:
    answer.number()
    answer.text()
    answer.take("ii")
    error, base, _, start = answer.take("hqqq")
    return Produced(error, base, start)


def fetch_request(topic: str, offsets: dict[int, int], *, wait_ms: int, bytes_max: int, partition_bytes_max: int) -> bytes:
    head = struct.pack(">iiiibi", -1, wait_ms, 1, bytes_max, 0, 1)
    parts = [struct.pack(">iqqi", partition, offset, -1, partition_bytes_max) for partition, offset in offsets.items()]
    return head + _text(topic) + struct.pack(">i", len(parts)) + b"".join(parts)


@dataclass(frozen=True, slots=True)
class Fetched:
    partition: int
    error: int
    end: int
    log_start: int
    data: bytes


def read_fetch(answer: Reader) -> list[Fetched]:
    answer.number()
    found = []
    for _ in range(answer.number()):
        answer.text()
        for _ in range(answer.number()):
            partition, error, end, _, start, aborted = answer.take("ihqqqi")
            assert aborted <= 0
            found.append(Fetched(partition, error, end, start, answer.bytes()))
    return found


def list_offsets_request(topic: str, partitions: list[int], time: int) -> bytes:
    parts = b"".join(struct.pack(">iq", partition, time) for partition in partitions)
    return struct.pack(">ii", -1, 1) + _text(topic) + struct.pack(">i", len(partitions)) + parts


def read_list_offsets(answer: Reader) -> dict[int, tuple[int, int]]:
    """Partition → (error, offset)."""
    answer.number()
    answer.text()
    found = {}
    for _ in range(answer.number()):
        partition, error, _, offset = answer.take("ihqq")
        found[partition] = (error, offset)
    return found


def delete_records_request(topic: str, partition: int, before: int) -> bytes:
    return struct.pack(">i", 1) + _text(topic) + struct.pack(">iiqi", 1, partition, before, 5_000)


def read_delete_records(answer: Reader) -> tuple[int, int]:
    """(error, log start)."""
    answer.take("ii")
    answer.text()
    _, _, start, error = answer.take("iiqh")
    return error, start


def init_producer_request() -> bytes:
    return struct.pack(">hi", -1, 60_000)


def read_init_producer(answer: Reader) -> tuple[int, int, int]:
    """(error, producer id, epoch)."""
    _, error, pid, epoch = answer.take("ihqh")
    return error, pid, epoch


def find_coordinator_request(group: str) -> bytes:
    return _text(group)


def read_find_coordinator(answer: Reader) -> tuple[int, int]:
    """(error, node id)."""
    error, node = answer.take("hi")
    return error, node


def offset_commit_request(group: str, topic: str, offsets: dict[int, int]) -> bytes:
    parts = b"".join(struct.pack(">iq", partition, offset) + _text("") for partition, offset in offsets.items())
    return (
        _text(group)
        + struct.pack(">i", -1)
        + _text("")
        + struct.pack(">qi", -1, 1)
        + _text(topic)
        + struct.pack(">i", len(offsets))
        + parts
    )


def read_offset_commit(answer: Reader) -> dict[int, int]:
    answer.number()
    answer.text()
    return dict(answer.take("ih") for _ in range(answer.number()))  # type: ignore[misc]


def offset_fetch_request(group: str, topic: str, partitions: list[int]) -> bytes:
    return _text(group) + struct.pack(">i", 1) + _text(topic) + struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)


def read_offset_fetch(answer: Reader) -> dict[int, tuple[int, int]]:
    """Partition → (error, offset)."""
    answer.number()
    answer.text()
    found = {}
    for _ in range(answer.number()):
        partition, offset = answer.take("iq")
        answer.text()
        found[partition] = (answer.number("h"), offset)
    return found


class Connection(asyncio.Protocol):
    """Requests go out in the order of ``send``; answers come in that order."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._waiting: dict[int, asyncio.Future[Reader]] = {}
        self._last = 0
        self.lost = False
        self._early: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        for frame in self._early:
            self._transport.write(frame)  # type: ignore[union-attr]

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= 8:
            size = struct.unpack_from(">i", self._buffer)[0]
            if len(self._buffer) < 4 + size:
                return
            number = struct.unpack_from(">i", self._buffer, 4)[0]
            answer = Reader(bytes(self._buffer[8 : 4 + size]))
            del self._buffer[: 4 + size]
            waiting = self._waiting.pop(number, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(Broken("connection lost"))
                waiting.exception()
        self._waiting.clear()

    def send(self, api: int, version: int, body: bytes, *, answered: bool = True) -> asyncio.Future[Reader]:
        """Sends now; the future gets the answer, or Broken."""
        self._last += 1
        future: asyncio.Future[Reader] = asyncio.get_running_loop().create_future()
        if self.lost:
            future.set_exception(Broken("connection lost"))
            future.exception()
            return future
        frame = struct.pack(">hhi", api, version, self._last) + _text("sim") + body
        if answered:
            self._waiting[self._last] = future
        frame = struct.pack(">i", len(frame)) + frame
        if self._transport is None:
            self._early.append(frame)
        else:
            self._transport.write(frame)
        return future

    async def ask(self, api: int, version: int, body: bytes, *, timeout_s: float) -> Reader:
        """One request and its answer. Raises Broken, and then closes the connection."""
        return await self.answer(self.send(api, version, body), timeout_s=timeout_s)

    async def answer(self, future: asyncio.Future[Reader], *, timeout_s: float) -> Reader:
        """Waits for what ``send`` gave. Raises Broken, and then closes the connection."""
        try:
            return await asyncio.wait_for(future, timeout_s)
        except TimeoutError:
            self.close()
            raise Broken("no answer in time") from None

    def close(self) -> None:
        self.lost = True
        if self._transport is not None:
            self._transport.close()
