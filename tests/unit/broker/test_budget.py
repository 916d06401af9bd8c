"""The byte budget: unfinished frames cannot keep whole requests out, nor each other; nothing is charged for a claim."""

from __future__ import annotations

import asyncio
import logging
import random
import struct

import pytest
from tests.simulation.loop import run_virtual
from tests.unit.broker.test_connection import Echo, framed

from frazil.broker.budget import Arrival, ByteBudget
from frazil.broker.complaints import Complaints
from frazil.broker.incoming import Incoming
from frazil.kit.clock import LoopClock

MIB = 1024 * 1024


def never() -> None:
    raise AssertionError("resumed although nothing fits")


def test_unfinished_frames_take_half_and_one_of_them_more():
    budget = ByteBudget(100)
    first, second = Arrival(), Arrival()
    assert budget.grow(first, 30, never)
    assert budget.grow(second, 20, never)
    assert budget.admit(40, never), "whole requests have the other half"
    resumed: list[str] = []
    assert not budget.grow(first, 30, lambda: resumed.append("first")), "40 bytes will be given back; until then there is no room"
    assert not budget.grow(second, 20, lambda: resumed.append("second"))
    budget.release(40)
    assert resumed == ["first"]
    assert budget.used == 80
    assert budget.arrived(first) == 60
    assert resumed == ["first", "second"]
    budget.release(60)
    budget.leave(second)
    assert budget.used == 0


def test_unfinished_frames_never_wait_for_each_other_only():
    budget = ByteBudget(100)
    arrivals = [Arrival() for _ in range(4)]
    admitted = [n for n, arrival in enumerate(arrivals) if budget.grow(arrival, 25, lambda n=n: admitted.append(n))]  # type: ignore[misc]
    while len(admitted) < 4:
        budget.release(budget.arrived(arrivals[admitted[-1]]))
    assert sorted(admitted) == [0, 1, 2, 3]


def test_who_leaves_gives_up_its_place_in_line():
    budget = ByteBudget(10)
    big, waiting = Arrival(), Arrival()
    assert budget.grow(big, 10, never)
    assert not budget.grow(waiting, 5, never)
    budget.leave(waiting)
    budget.leave(big)
    assert budget.used == 0


@pytest.mark.parametrize("seed", range(20))
def test_any_order_of_events_gives_everything_back_and_stays_in_bounds(seed: int):
    chance = random.Random(seed)
    budget = ByteBudget(1000)
    frame_max = 400
    live: dict[Arrival, int] = {}
    """Arrival → size of its frame."""
    blocked: set[Arrival] = set()
    whole: list[int] = []
    for _ in range(3000):
        free = [arrival for arrival in live if arrival not in blocked]
        match chance.randrange(5):
            case 0 if len(live) < 20:
                live[Arrival()] = chance.randint(10, frame_max)
            case 1 | 2 if free:
                arrival = chance.choice(free)
                if arrival.held == live[arrival]:
                    whole.append(budget.arrived(arrival))
                    del live[arrival]
                else:
                    more = min(live[arrival] - arrival.held, max(10, 3 * arrival.held))
                    if not budget.grow(arrival, more, lambda a=arrival: blocked.discard(a)):
                        blocked.add(arrival)
            case 3 if whole:
                budget.release(whole.pop(chance.randrange(len(whole))))
            case 4 if live and chance.random() < 0.2:
                gone = chance.choice(list(live))
                del live[gone]
                blocked.discard(gone)
                budget.leave(gone)
            case _:
                continue
        assert budget.used == sum(whole) + sum(arrival.held for arrival in live)
        assert budget.used <= 1000 + frame_max
        assert len(blocked) < len(live) or whole or not live, "every unfinished frame waits and nothing will be given back"


def test_a_crowd_that_claims_giants_does_not_stop_a_small_request():
    async def main() -> None:
        echo = Echo(request_bytes_max=100 * MIB, buffered_bytes_max=200 * MIB)
        for _ in range(300):
            echo.connect().feed(struct.pack(">i", 99 * MIB) + b"\0\0" + bytes(20_000))
        assert echo.house.budget.used == 300 * 32 * 1024
        small = echo.connect()
        small.feed(framed(b"\0\0 small"))
        assert echo.frames == [b"\0\0 small"]

    run_virtual(main())


def test_large_frames_come_whole_through_a_tight_budget():
    async def main() -> None:
        echo = Echo(request_bytes_max=3 * MIB, buffered_bytes_max=6 * MIB)
        bodies = [b"\0\0" + random.Random(n).randbytes(3 * MIB - 2 - n) for n in range(8)]
        transports = [echo.connect() for _ in bodies]
        for transport, body in zip(transports, bodies, strict=True):
            transport.feed(framed(body), chunk=100_000)
        seen: list[bytes] = []
        for _ in range(200):
            await asyncio.sleep(0.01)
            seen += echo.frames
            echo.frames.clear()
            for exchange in echo.exchanges:
                exchange.finish([b"done"])
            echo.exchanges.clear()
            assert echo.house.budget.used <= 9 * MIB
        assert sorted(seen) == sorted(bodies)
        assert echo.house.budget.used == 0

    run_virtual(main())


def test_a_buffer_grows_with_what_has_come():
    head = memoryview(b"ab")
    incoming = Incoming(3 * MIB, head)
    data = random.Random(1).randbytes(3 * MIB - 2)
    sent = 0
    while not incoming.whole:
        if incoming.more:
            incoming.grow()
        room = incoming.room()
        assert len(room) <= 4 * max(incoming.filled, 32 * 1024)
        take = min(len(room), 70_000)
        room[:take] = data[sent : sent + take]
        incoming.filled += take
        sent += take
    assert bytes(incoming.frame()) == b"ab" + data


def test_complaints_are_few_and_counted_and_one_line_each(caplog: pytest.LogCaptureFixture):
    async def main() -> None:
        complaints = Complaints(LoopClock())
        for number in range(1000):
            complaints.warn(f"peer {number} did\nwrong \x1b[31m" + "x" * 5000)
        assert len(caplog.records) == 20
        await asyncio.sleep(11)
        complaints.warn("again")

    with caplog.at_level(logging.INFO):
        run_virtual(main())
    assert len(caplog.records) == 21
    assert "980 more" in caplog.records[-1].getMessage()
    for record in caplog.records:
        assert record.getMessage().isprintable()
        assert len(record.getMessage()) < 600
