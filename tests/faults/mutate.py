"""What hostile clients send: seeded damage to real frames, to the batches inside them, and to the stream around them."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from dataclasses import dataclass

import crc32c
from tests.faults import batches
from tests.faults.frames import Seed

INT32 = (-(2**31), -2, -1, 0, 1, 2, 127, 65535, 2**24, 2**30, 2**31 - 1)
VARINTS = (b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x07", b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", b"\x80\x80\x80\x80\x08", b"\0")
_BATCH = struct.Struct(">qiibIhiqqqhii")
FOREIGN = (
    b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),
    b"SSH-2.0-OpenSSH_9.2\r\n",
    b"\x00\x00\x00\x08\x04\xd2\x16\x2f",
    b"PING\r\n",
    b"\n" * 64,
)


@dataclass(frozen=True)
class Mutation:
    """Bytes to send as they are."""

    kind: str
    data: bytes
    whole: bool
    """False: the size field promises more than is sent, so no answer can come."""


def sized(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


class Mutator:
    """An endless seeded stream of mutations over ``seeds``."""

    def __init__(self, seeds: list[Seed], seed: int) -> None:
        self._seeds = seeds
        self._with_batches = [one for one in seeds if one.api_key == 0 and batch_at(one.frame) is not None]
        assert self._with_batches
        self.chance = random.Random(seed)
        self._kinds: list[tuple[Callable[[], Mutation], int]] = [
            (self._flip, 24), (self._numbers, 14), (self._varints, 8), (self._cut, 8), (self._extend, 5), (self._size_field, 4),
            (self._swap_api, 8), (self._swap_version, 5), (self._splice, 4), (self._garbage, 3), (self._half, 3), (self._batch_field, 12),
            (self._batch_cut, 4), (self._rotten, 3), (self._bomb, 1), (self._intact, 2), (self._many, 1),
        ]  # fmt: skip

    def next(self) -> Mutation:
        """One mutation."""
        (make,) = self.chance.choices([make for make, _ in self._kinds], [weight for _, weight in self._kinds])
        return make()

    def _seed(self) -> Seed:
        return self.chance.choice(self._seeds)

    def _body(self) -> bytearray:
        return bytearray(self._seed().frame[4:])

    def _flip(self) -> Mutation:
        body = self._body()
        for _ in range(self.chance.choice((1, 1, 1, 2, 3, 8))):
            body[self.chance.randrange(len(body))] ^= 1 << self.chance.randrange(8)
        return Mutation("bits flipped", sized(body), whole=True)

    def _numbers(self) -> Mutation:
        """Lengths, counts, ids: any four bytes at an edge."""
        body = self._body()
        at = self.chance.randrange(4, len(body) + 1)
        body[at : at + 4] = self.chance.choice(INT32).to_bytes(4, "big", signed=True)
        return Mutation("number at an edge", sized(body), whole=True)

    def _varints(self) -> Mutation:
        body = self._body()
        at = self.chance.randrange(8, len(body) + 1)
        body[at : at + self.chance.choice((0, 1))] = self.chance.choice(VARINTS)
        return Mutation("varint at an edge", sized(body), whole=True)

    def _cut(self) -> Mutation:
        body = self._body()
        return Mutation("frame cut", sized(body[: self.chance.randrange(len(body))]), whole=True)

    def _extend(self) -> Mutation:
        return Mutation("frame extended", sized(self._body() + self.chance.randbytes(self.chance.choice((1, 4, 50, 5000)))), whole=True)

    def _size_field(self) -> Mutation:
        body = self._body()
        size = self.chance.choice((-(2**31), -1, 0, 1, 7, len(body) - 1, len(body) + 1, 2**20, 99 * 2**20, 101 * 2**20, 2**31 - 1))
        return Mutation("size field wrong", size.to_bytes(4, "big", signed=True) + body, whole=0 <= size <= len(body))

    def _swap_api(self) -> Mutation:
        body = self._body()
        body[:2] = self.chance.choice((*range(95), 1000, 32767, -1)).to_bytes(2, "big", signed=True)
        return Mutation("API key swapped", sized(body), whole=True)

    def _swap_version(self) -> Mutation:
        body = self._body()
        body[2:4] = self.chance.choice((*range(20), 127, 32767, -1, -32768)).to_bytes(2, "big", signed=True)
        return Mutation("version swapped", sized(body), whole=True)

    def _splice(self) -> Mutation:
        """The head of one request, the tail of another."""
        one, other = self._body(), self._body()
        return Mutation("two frames spliced", sized(one[: self.chance.randrange(8, len(one) + 1)] + other[len(other) // 2 :]), whole=True)

    def _garbage(self) -> Mutation:
        if self.chance.random() < 0.3:
            return Mutation("another protocol", self.chance.choice(FOREIGN), whole=False)
        noise = self.chance.randbytes(self.chance.choice((1, 10, 200, 4000)))
        return Mutation("random bytes", sized(noise) if self.chance.random() < 0.7 else noise, whole=False)

    def _half(self) -> Mutation:
        frame = self._seed().frame
        return Mutation("half a frame", frame[: self.chance.randrange(1, len(frame))], whole=False)

    def _many(self) -> Mutation:
        """A hundred and more requests at once, of which the connection may handle only some at a time."""
        return Mutation("many at once", b"".join(self._seed().frame for _ in range(60)), whole=False)

    def _intact(self) -> Mutation:
        return Mutation("intact", self._seed().frame, whole=True)

    # ── batches ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _produce(self, replace: Callable[[bytearray, int], None]) -> bytes:
        """A Produce frame whose first batch was changed by ``replace`` and whose lengths may lie."""
        frame = bytearray(self.chance.choice(self._with_batches).frame)
        at = batch_at(frame)
        assert at is not None
        replace(frame, at)
        return sized(frame[4:])

    def _batch_field(self) -> Mutation:
        """One field of the batch header at an edge; the CRC made right in half of the cases, so that deeper checks are reached."""
        repair = self.chance.random() < 0.5

        def change(frame: bytearray, at: int) -> None:
            values = list(_BATCH.unpack_from(frame, at))
            bits = (64, 32, 32, 8, 32, 16, 32, 64, 64, 64, 16, 32, 32)
            field = self.chance.randrange(13)
            signed = field != 4
            if field == 3:
                values[field] = self.chance.choice((0, 1, 3, -1, 127))
            elif field == 5:
                values[field] = self.chance.choice((1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64, 0x7FFF, -1))
            else:
                high = 2 ** (bits[field] - signed) - 1
                edges = (0, 1, high, self.chance.randint(0, high), *((-1, -high - 1) if signed else ()))
                values[field] = self.chance.choice(edges)
            _BATCH.pack_into(frame, at, *values)
            if repair and field != 4:
                struct.pack_into(">I", frame, at + 17, crc32c.crc32c(bytes(frame[at + 21 : at + 12 + batch_length(frame, at)])))

        return Mutation("batch field at an edge" + (", CRC right" if repair else ""), self._produce(change), whole=True)

    def _batch_cut(self) -> Mutation:
        def change(frame: bytearray, at: int) -> None:
            del frame[self.chance.randrange(at, len(frame)) :]

        return Mutation("batch cut", self._produce(change), whole=True)

    def _rotten(self) -> Mutation:
        batch = batches.rotten(self.chance.choice(batches.ROTTEN), self.chance)
        return Mutation("rotten records, CRC right", produce_frame(batch), whole=True)

    def _bomb(self) -> Mutation:
        """A batch that unpacks to hundreds of megabytes, or a question by time that makes the broker look into one."""
        if self.chance.random() < 0.6:
            return Mutation("question into bombs", list_offsets_frame(BOMB_TOPIC, self.chance.getrandbits(40)), whole=True)
        codec = self.chance.choice((batches.GZIP, batches.LZ4, batches.ZSTD))
        return Mutation("bomb", produce_frame(batches.bomb(codec), BOMB_TOPIC), whole=True)


BOMB_TOPIC = "flow-bombs"


def batch_at(frame: bytes | bytearray) -> int | None:
    """Where the first batch of a recorded Produce frame begins: magic 2, leader epoch -1 or 0, a length that fits."""
    for at in range(20, len(frame) - 61):
        if frame[at + 16] == 2 and frame[at : at + 8] == bytes(8) and frame[at + 12 : at + 16] in (b"\xff\xff\xff\xff", bytes(4)):
            length = int.from_bytes(frame[at + 8 : at + 12], "big")
            if 49 <= length <= len(frame) - at - 12 and crc32c.crc32c(bytes(frame[at + 21 : at + 12 + length])) == int.from_bytes(
                frame[at + 17 : at + 21], "big"
            ):
                return at
    return None


def batch_length(frame: bytes | bytearray, at: int) -> int:
    """What the length field says, kept within the frame."""
    return min(max(int.from_bytes(frame[at + 8 : at + 12], "big", signed=True), 9), len(frame) - at - 12)


def text(value: str) -> bytes:
    return struct.pack(">h", len(value.encode())) + value.encode()


def produce_frame(batch: bytes, topic: str = "flow-hostile", partition: int = 0, *, correlation: int = 7, acks: int = -1) -> bytes:
    """Produce v7, by hand."""
    body = struct.pack(">hhi", 0, 7, correlation) + text("hostile") + struct.pack(">hhi", -1, acks, 30_000)
    body += struct.pack(">i", 1) + text(topic) + struct.pack(">iii", 1, partition, len(batch)) + batch
    return sized(body)


def list_offsets_frame(topic: str, timestamp_ms: int, *, correlation: int = 8) -> bytes:
    """ListOffsets v1, by hand: the first record of partition 0 at or after a time."""
    body = struct.pack(">hhi", 2, 1, correlation) + text("hostile") + struct.pack(">ii", -1, 1) + text(topic)
    return sized(body + struct.pack(">iiq", 1, 0, timestamp_ms))
