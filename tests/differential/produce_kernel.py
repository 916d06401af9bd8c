"""The kernel's cut of pipelined Produce requests against its Python twin, over generated and mutated receive buffers.

python -m tests.differential.produce_kernel --count 1000000

Equal means: the same answer, field by field, or both None. It may be stopped: what was done for the same sources is kept in
docs/results/kernel-produce.json.
"""

from __future__ import annotations

import random
import sys
from collections import Counter

from crc32c import crc32c
from tests.differential import resumable

from frazil.broker.bursts import REQUESTS_MAX, scan_burst
from frazil.kit.kernel import kernel
from frazil.records import Codec, build_batch
from frazil.records.building import BatchOptions, Record
from frazil.wire.client import encode_request
from frazil.wire.frame import RequestHeader, encode_request_frame
from frazil.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

RESULT = resumable.RESULTS / "kernel-produce.json"
SOURCES = ("src/frazil/broker/bursts.py", "native/src/produce")
CHUNK = 10_000


class Differ(AssertionError):
    """The two do not answer the same."""


def random_batch(chance: random.Random) -> bytes:
    options = BatchOptions(
        codec=chance.choice([Codec.NONE] * 6 + list(Codec)),
        producer_id=chance.choice([-1, 0, 7, 1 << 40]),
        producer_epoch=chance.choice([-1, 0, 3]),
        base_sequence=chance.choice([-1, 0, 2**31 - 1, chance.getrandbits(31)]),
        transactional=chance.random() < 0.03,
    )
    record = Record(value=chance.randbytes(chance.choice((0, 3, 100, 300))), timestamp_ms=chance.getrandbits(41))
    records = [record] * chance.choice((1, 1, 1, 4))
    batch = bytearray(build_batch(records, options=options))
    if chance.random() < 0.1:  # a field under the CRC, and the CRC made right again
        at = chance.choice((21, 22, 23, 26, 57, 60, *range(27, 57)))
        batch[at] = chance.choice((0, 1, 4, 0x10, 0x7F, 0x80, 0xFF))
        batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    return bytes(batch)


def random_request(chance: random.Random, common: tuple[int, str, int]) -> bytes:
    version, name, index = common
    if chance.random() < 0.05:
        version, name, index = chance.choice((3, 7, 8, 9, 10, 11, 12)), chance.choice(("t", "ü", "other")), chance.choice((0, 1, -1))
    runs = [b"".join(random_batch(chance) for _ in range(chance.choice((1,) * 30 + (0, 2))))]
    runs += [random_batch(chance)] * (chance.random() < 0.02)
    partitions = [PartitionProduceData(index=index, records=run) for run in runs]
    topics = [TopicProduceData(name=name, partition_data=partitions)] * chance.choice((1,) * 40 + (0, 2))
    message = ProduceRequest(acks=chance.choice((-1,) * 20 + (0, 1, 2)), timeout_ms=chance.getrandbits(20), topic_data=topics)
    if chance.random() < 0.02:
        message.transactional_id = chance.choice(("", "tx"))
    client = chance.choice((None, "", "c", "ä" * 70))
    body = encode_request(0, version, message)
    return encode_request_frame(RequestHeader(chance.choice((0,) * 40 + (1,)), version, chance.getrandbits(31), client, 0), body)


def random_buffer(chance: random.Random) -> tuple[bytes, int, int, int]:
    """Bytes, start, end and the most requests."""
    common = (chance.choice((3, 7, 9, 9, 9, 11)), chance.choice(("t", "topic-" + "x" * 120)), chance.choice((0, 5)))
    front = chance.randbytes(chance.choice((0, 0, 13)))
    made = bytearray(front + b"".join(random_request(chance, common) for _ in range(chance.choice((1, 1, 2, 5)))))
    if chance.random() < 0.6:
        for _ in range(chance.choice((1, 1, 2, 5))):
            # Mostly in the part that is parsed: size, header, lengths, the batch's header.
            at = min(len(front) + chance.randrange(140), len(made) - 1) if chance.random() < 0.8 else chance.randrange(len(made))
            made[at] = chance.choice((0, 1, 2, 0x7F, 0x80, 0xFF, chance.getrandbits(8)))
    end = len(made) - (chance.randrange(len(made) - len(front)) if chance.random() < 0.2 else 0)
    return bytes(made), len(front), end, chance.choice((REQUESTS_MAX, 1, 2))


def run_chunk(seed: int, count: int) -> Counter[str]:
    """``count`` inputs of one seed; what came of them."""
    scan = getattr(kernel(), "scan_produce")  # noqa: B009 - the module has no types
    found: Counter[str] = Counter()
    for number in range(count):
        made, start, end, most = random_buffer(random.Random(f"{seed}/{number}"))
        view = memoryview(bytearray(made))
        ours, theirs = scan(view, start, end, most), scan_burst(view, start, end, most)
        if ours != theirs:
            raise Differ(f"seed {seed}, input {number}:\n{ours}\n{theirs}")
        found["none" if ours is None else "burst"] += 1
        found["requests"] += 0 if ours is None else len(ours[5])
    return found


def main() -> int:
    return resumable.compare("tests.differential.produce_kernel", RESULT, {path: path for path in SOURCES}, run_chunk, chunk=CHUNK)


if __name__ == "__main__":
    sys.exit(main())
