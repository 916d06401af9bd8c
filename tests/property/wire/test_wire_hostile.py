"""Hostile bytes: whatever arrives, readers answer with a message or with Corrupt, and never make more than the bytes can justify."""

from __future__ import annotations

import random
import tracemalloc

import pytest
from tests.property.wire.instances import all_layouts, random_bytes_of

from frazil.kit.errors import Corrupt
from frazil.wire import APIS, FrameBuffer, RequestHeader
from frazil.wire.codec import decode
from frazil.wire.fetch import FETCH_VERSIONS, decode_fetch
from frazil.wire.messages import fetch, produce
from frazil.wire.produce import PRODUCE_VERSIONS, decode_produce

MUTATIONS = 20_000
_EDGES = (0, 1, 2, 0x7F, 0x80, 0x81, 0xFE, 0xFF)


def mutate(data: bytes, chance: random.Random) -> bytes:
    """One to three of: a byte flipped, a length blown up, bytes cut, inserted, repeated or appended."""
    bad = bytearray(data)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(bad) + 1)
        match chance.randrange(6):
            case 0 if at < len(bad):
                bad[at] = chance.choice(_EDGES)
            case 1:
                bad[at : at + 4] = chance.choice((b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\x00\x00\x00", b"\x00\xff\xff\xff"))
            case 2:
                del bad[at:]
            case 3:
                bad[at:at] = chance.choice((b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\xff\xff", b"\x80\x80\x80\x80\x08"))
            case 4:
                bad[at:at] = bad[at // 2 : at]
            case _:
                bad += chance.randbytes(chance.randint(1, 9))
    return bytes(bad)


def test_mutated_messages_raise_nothing_but_corrupt():
    chance = random.Random(20261)
    cases = list(all_layouts())
    refused = 0
    for number in range(MUTATIONS):
        layouts, version = cases[number % len(cases)]
        if number < len(cases) or chance.random() < 0.2:
            seed = random_bytes_of(layouts, version, chance)[1]
        else:
            seed = random_bytes_of(layouts, version, random.Random(number % 7))[1]
        try:
            decode(layouts, version, memoryview(mutate(seed[:4000], chance)), 0)
        except Corrupt as fault:
            refused += 1
            assert fault.where.startswith(f"{layouts.name} v{version}, ")
            assert "byte" in fault.where
    assert refused > MUTATIONS // 2


def test_mutated_produce_and_fetch_by_hand():
    chance = random.Random(77)
    for number in range(3000):
        for layouts, read, versions in ((produce.REQUEST, decode_produce, PRODUCE_VERSIONS), (fetch.REQUEST, decode_fetch, FETCH_VERSIONS)):
            version = versions[number % len(versions)]
            data = mutate(random_bytes_of(layouts, version, chance)[1][:3000], chance)
            try:
                read(version, memoryview(data), 0)
            except Corrupt as fault:
                assert fault.where.startswith(f"{layouts.name} v{version}, ")


def test_random_headers_and_streams():
    chance = random.Random(5)
    for _ in range(3000):
        head = chance.choice(list(APIS)).to_bytes(2, "big") + chance.randrange(15).to_bytes(2, "big")
        try:
            header = RequestHeader.decode(memoryview(head + chance.randbytes(chance.randrange(20))))
            assert header.position <= 4 + 20
        except Corrupt as fault:
            assert "RequestHeader." in fault.where
    for _ in range(300):
        buffer = FrameBuffer(1000)
        try:
            for _ in range(20):
                assert all(len(frame) <= 1000 for frame in buffer.feed(chance.randbytes(3)))
        except Corrupt:
            continue


@pytest.mark.parametrize("seed", range(4))
def test_every_prefix_of_a_message_is_corrupt(seed):
    chance = random.Random(seed)
    for layouts, version in chance.sample(list(all_layouts()), 40):
        data = random_bytes_of(layouts, version, random.Random(seed))[1][:600]
        whole = memoryview(data)
        for cut in range(0, len(data), max(1, len(data) // 30)):
            with pytest.raises(Corrupt):
                decode(layouts, version, whole[:cut], 0)


def test_claimed_giants_cost_nothing():
    """Arrays, strings and tag sections that claim 2^31 elements are refused before anything of that size is made."""
    giants = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f")
    tracemalloc.start()
    try:
        for layouts, version in all_layouts():
            plain = random_bytes_of(layouts, version, random.Random(1))[1][:200]
            for giant in giants:
                for at in range(0, len(plain), 7):
                    tracemalloc.reset_peak()
                    before = tracemalloc.get_traced_memory()[0]
                    try:
                        decode(layouts, version, memoryview(plain[:at] + giant + plain[at:]), 0)
                    except Corrupt:
                        assert tracemalloc.get_traced_memory()[1] - before < 64 * 1024
    finally:
        tracemalloc.stop()


def test_memory_is_bounded_by_the_frame():
    """The worst a frame can claim honestly: as many smallest elements as fit. Objects made stay below 64 times its size."""
    layouts = APIS[3].load()[0]
    count = 20_000
    frame = bytearray()
    frame += (
        bytes([(count + 1) & 0x7F | 0x80, (count + 1) >> 7 & 0x7F | 0x80, (count + 1) >> 14]) + b"\x01\x00" * count + b"\x01\x00\x00\x00"
    )
    tracemalloc.start()
    try:
        message = decode(layouts, 9, memoryview(frame), 0)
        assert len(message.topics) == count
        assert tracemalloc.get_traced_memory()[1] < 64 * len(frame)
    finally:
        tracemalloc.stop()
