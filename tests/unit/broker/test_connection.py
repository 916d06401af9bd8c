"""The connection: frames in any pieces, answers in order, back-pressure, hostile bytes, time-outs."""

from __future__ import annotations

import asyncio
import logging
import random
import struct

import pytest
from tests.simulation.loop import run_virtual
from tests.unit.broker.harness import MemoryTransport, Stage, batch, play, produce_request

from frazil.broker.budget import ByteBudget
from frazil.broker.complaints import Complaints
from frazil.broker.connection import Connection, Exchange, House
from frazil.broker.counters import BrokerCounters
from frazil.broker.settings import BrokerSettings
from frazil.kit.clock import LoopClock
from frazil.kit.errors import Refused
from frazil.kit.faultpoints import FaultPoints
from frazil.wire.client import encode_request
from frazil.wire.errors import ErrorCode
from frazil.wire.frame import RequestHeader, decode_response_header, encode_request_frame
from frazil.wire.messages.api_versions import ApiVersionsRequest
from frazil.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from frazil.wire.messages.registry import APIS, ApiKey

MIB = 1024 * 1024


class Echo:
    """A house whose server keeps exchanges until the test answers them."""

    def __init__(self, **changes: object) -> None:
        self.frames: list[bytes] = []
        self.exchanges: list[Exchange] = []
        self.settings = BrokerSettings(**changes)  # type: ignore[arg-type]
        self.reached: list[str] = []
        self.house = House(
            settings=self.settings,
            serve=self.serve,
            budget=ByteBudget(self.settings.buffered_bytes_max),
            counters=BrokerCounters(),
            faults=FaultPoints(self.reached.append),
            complaints=Complaints(LoopClock()),
        )

    def serve(self, connection: Connection, exchange: Exchange, frame: memoryview) -> None:
        self.frames.append(bytes(frame))
        self.exchanges.append(exchange)

    def connect(self) -> MemoryTransport:
        return MemoryTransport(Connection(self.house))


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize("chunk", [1, 3, 1000, 65_536, 1 << 20])
def test_frames_come_whole_whatever_the_pieces(chunk: int) -> None:
    async def main() -> None:
        echo = Echo()
        rng = random.Random(chunk)
        sizes = [0, 1, 5, 16_383, 16_384, 65_531, 65_532, 65_533, 70_000, 200_000, 3, 2]
        if chunk == 1:
            sizes = [0, 1, 5, 16_384, 3]
        bodies = [b"\0\0" + rng.randbytes(size) for size in sizes]
        transport = echo.connect()
        transport.feed(b"".join(map(framed, bodies)), chunk=chunk)
        assert echo.frames == bodies
        assert echo.house.budget.used == sum(map(len, bodies))

    run_virtual(main())


def test_answers_leave_in_the_order_of_the_requests() -> None:
    async def main() -> None:
        echo = Echo()
        transport = echo.connect()
        transport.feed(b"".join(framed(b"\0\0%d" % n) for n in range(4)))
        echo.exchanges[2].finish([b"2"])
        echo.exchanges[1].finish([b"1"])
        await asyncio.sleep(0.1)
        assert transport.written == b""
        echo.exchanges[0].fault_point = "B5"
        echo.exchanges[0].finish([b"0"])
        assert echo.reached == []
        await asyncio.sleep(0.1)
        assert transport.written == b"012"
        assert transport.writes == 1, "what can leave together leaves in one write"
        assert echo.reached == ["B5"]
        echo.exchanges[3].finish(())
        await asyncio.sleep(0.1)
        assert transport.written == b"012"
        assert echo.house.budget.used == 0

    run_virtual(main())


def test_answers_that_cannot_leave_yet_count() -> None:
    async def main() -> None:
        echo = Echo()
        transport = echo.connect()
        transport.feed(framed(b"\0\0a") + framed(b"\0\0b"))
        echo.exchanges[1].finish([b"x" * 1000])
        await asyncio.sleep(0.1)
        assert echo.house.budget.used == 6 + 1000
        echo.exchanges[0].finish([b"y" * 500])
        await asyncio.sleep(0.1)
        assert echo.house.budget.used == 0
        transport.feed(framed(b"\0\0c"))
        transport.close()
        echo.exchanges[2].finish([b"z" * 70])
        await asyncio.sleep(0.1)
        assert echo.house.budget.used == 0

    run_virtual(main())


def test_open_requests_of_one_connection_are_bounded() -> None:
    async def main() -> None:
        echo = Echo(connection_inflight_max=3)
        transport = echo.connect()
        transport.feed(framed(b"\0\0") * 10)
        assert len(echo.frames) == 3
        assert transport.paused
        echo.exchanges[0].finish([b"a"])
        await asyncio.sleep(0.1)
        assert len(echo.frames) == 4
        for _ in range(10):
            for exchange in echo.exchanges:
                if not exchange.done:
                    exchange.finish([b"a"])
            await asyncio.sleep(0.1)
        assert len(echo.frames) == 10
        assert not transport.paused
        assert transport.written == b"a" * 10

    run_virtual(main())


def test_bytes_of_all_connections_are_bounded_and_waiters_are_served_in_turn() -> None:
    async def main() -> None:
        echo = Echo(request_bytes_max=1 * MIB, buffered_bytes_max=2 * MIB)
        big = framed(b"\0\0" + bytes(900_000))
        first, second, third, fourth = (echo.connect() for _ in range(4))
        for transport in (first, second, third, fourth):
            transport.feed(big)
        assert len(echo.frames) == 2
        assert (first.paused, second.paused, third.paused, fourth.paused) == (False, False, True, True)
        echo.exchanges[0].finish([b"x"])
        await asyncio.sleep(0.1)
        assert len(echo.frames) == 3
        assert (third.paused, fourth.paused) == (False, True)
        assert echo.house.budget.used <= 2 * MIB
        third.close()
        fourth.close()
        for exchange in echo.exchanges:
            if not exchange.done:
                exchange.finish([b"x"])
        await asyncio.sleep(0.1)
        assert echo.house.budget.used == 0

    run_virtual(main())


def test_a_peer_that_leaves_while_it_waits_for_bytes_takes_none_away() -> None:
    async def main() -> None:
        echo = Echo(request_bytes_max=1 * MIB, buffered_bytes_max=2 * MIB)
        big = framed(b"\0\0" + bytes(900_000))
        transports = [echo.connect() for _ in range(4)]
        for transport in transports:
            transport.feed(big)
        transports[2].close()
        await asyncio.sleep(0.1)
        for exchange in echo.exchanges:
            exchange.finish([b"x"])
        await asyncio.sleep(0.1)
        assert len(echo.frames) == 3, "the fourth got its turn"
        echo.exchanges[2].finish([b"x"])
        await asyncio.sleep(0.1)
        assert echo.house.budget.used == 0

    run_virtual(main())


def test_a_peer_that_leaves_in_the_middle_of_a_frame_gives_its_bytes_back() -> None:
    async def main() -> None:
        echo = Echo()
        transport = echo.connect()
        transport.feed(framed(b"\0\0" + bytes(900_000))[:100_000])
        assert echo.house.budget.used == 131_072, "what has come, rounded up to a buffer; not what the frame claims"
        transport.close()
        await asyncio.sleep(0.1)
        assert echo.house.budget.used == 0
        assert not echo.house.connections

    run_virtual(main())


def test_a_peer_that_does_not_read_is_not_read_from() -> None:
    async def main() -> None:
        echo = Echo()
        transport = echo.connect()
        transport.feed(framed(b"\0\0"))
        transport.protocol.pause_writing()
        assert transport.paused
        transport.feed(framed(b"\0\0"))
        echo.exchanges[0].finish([b"x" * 1000])
        await asyncio.sleep(0.1)
        assert len(echo.frames) == 1
        assert echo.house.budget.used == 1000, "an answer that is not taken counts"
        transport.protocol.resume_writing()
        await asyncio.sleep(0.1)
        assert len(echo.frames) == 2
        assert echo.house.budget.used == 2

    run_virtual(main())


@pytest.mark.parametrize(
    "garbage",
    [b"GET / HTTP/1.1\r\n\r\n", struct.pack(">i", -1), struct.pack(">i", 200 * MIB), struct.pack(">ihh", 9 * MIB, 3, 0)],
    ids=["http", "negative", "giant", "large frame that is no produce"],
)
def test_a_size_that_cannot_be_closes_only_this_connection(garbage: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        echo = Echo()
        bad, good = echo.connect(), echo.connect()
        with caplog.at_level(logging.WARNING):
            bad.feed(garbage)
        assert bad.closed
        assert not good.closed
        assert echo.house.counters.frames_malformed == 1
        assert "10.0.0.9" in caplog.text
        assert "malformed" in caplog.text

    run_virtual(main())


def test_idle_connections_are_closed_busy_ones_are_not() -> None:
    async def main() -> None:
        echo = Echo(idle_timeout_ms=10_000)
        idle, busy = echo.connect(), echo.connect()
        await asyncio.sleep(5)
        busy.feed(framed(b"\0\0"))
        await asyncio.sleep(30)
        assert idle.closed
        assert not busy.closed
        echo.exchanges[0].finish([b"x"])
        await asyncio.sleep(30)
        assert busy.closed

    run_virtual(main())


def test_a_frame_that_does_not_end_closes_its_connection() -> None:
    async def main() -> None:
        echo = Echo(frame_timeout_ms=2_000)
        small, large = echo.connect(), echo.connect()
        small.feed(framed(b"\0\0abc")[:-1])
        large.feed(framed(b"\0\0" + bytes(5 * MIB))[:-1])
        await asyncio.sleep(4)
        assert small.closed
        assert not large.closed, "large frames get a second per MiB more"
        await asyncio.sleep(6)
        assert large.closed
        assert echo.house.budget.used == 0

    run_virtual(main())


def test_connections_are_bounded() -> None:
    async def main() -> None:
        echo = Echo(connections_max=2)
        transports = [echo.connect() for _ in range(3)]
        assert [t.closed for t in transports] == [False, False, True]
        assert echo.house.counters.connections_refused == 1

    run_virtual(main())


def test_settings_that_cannot_work_are_refused() -> None:
    with pytest.raises(Refused, match="twice the largest request"):
        BrokerSettings(request_bytes_max=100, buffered_bytes_max=150)
    with pytest.raises(Refused, match="advertised host"):
        BrokerSettings(host="0.0.0.0")
    assert BrokerSettings(host="0.0.0.0", advertised_host="kafka.example").host == "0.0.0.0"


# ── against the real dispatcher ─────────────────────────────────────────────────────────────────────────────────────────


def captured() -> list[bytes]:
    """One good frame of several kinds, as a client would send it."""
    frames = [
        encode_request_frame(RequestHeader(18, 3, 1, "c", 0), encode_request(18, 3, ApiVersionsRequest(client_software_name="x"))),
        encode_request_frame(
            RequestHeader(3, 12, 2, "c", 0), encode_request(3, 12, MetadataRequest(topics=[MetadataRequestTopic(name="t")]))
        ),
        encode_request_frame(RequestHeader(0, 9, 3, "c", 0), encode_request(0, 9, produce_request("t", {0: batch(2)}))),
    ]
    for api in APIS.values():
        if api.key in (0, 3, 18):
            continue
        kind = api.load()[0].kind
        version = min(api.version_max, 3) if api.key != 1 else 12
        if version >= api.version_min:
            frames.append(encode_request_frame(RequestHeader(api.key, version, 4, None, 0), encode_request(api.key, version, kind())))
    return frames


@pytest.mark.parametrize("seed", range(6))
def test_mutated_frames_close_at_most_their_own_connection(seed: int) -> None:
    async def scene(on: Stage) -> None:
        await on.topic()
        rng = random.Random(seed)
        frames = captured()
        for _ in range(150):
            frame = bytearray(rng.choice(frames))
            for _ in range(rng.randint(1, 4)):
                kind = rng.random()
                at = rng.randrange(4, len(frame))
                if kind < 0.6:
                    frame[at] = rng.randrange(256)
                elif kind < 0.8 and len(frame) > 12:
                    del frame[at:]
                    frame[:4] = struct.pack(">i", len(frame) - 4)
                    break
                else:
                    frame[at:at] = rng.randbytes(rng.randint(1, 9))
                    frame[:4] = struct.pack(">i", len(frame) - 4)
            hostile = on.another()
            hostile.transport.feed(bytes(frame), chunk=rng.choice((1, 7, 1 << 20)))
            await asyncio.sleep(0.01)
            hostile.transport.close()
        answer = await on.client.call(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())
        assert answer.error_code == 0
        await asyncio.sleep(700)
        assert on.parts.broker._house.budget.used == 0
        assert len(on.parts.broker._house.connections) <= 1

    logging.getLogger("frazil").setLevel(logging.CRITICAL)
    try:
        play(scene)
    finally:
        logging.getLogger("frazil").setLevel(logging.NOTSET)


def test_api_versions_falls_back_to_v0_for_versions_of_the_future() -> None:
    async def scene(on: Stage) -> None:
        header = RequestHeader(18, 99, 7, "c", 0)
        on.client.transport.feed(encode_request_frame(header, b"whatever the future holds"))
        correlation, answer = await on.client.receive(18, 0)
        assert correlation == 7
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert {a.api_key for a in answer.api_keys} >= {0, 1, 3, 18}

    play(scene)


def test_api_versions_lists_what_is_served_and_produce_from_zero() -> None:
    async def scene(on: Stage) -> None:
        answer = await on.client.call(18, 4, ApiVersionsRequest(client_software_name="a", client_software_version="1"))
        ranges = {a.api_key: (a.min_version, a.max_version) for a in answer.api_keys}
        assert ranges[0] == (0, 11)
        assert ranges[1] == (4, 12)
        assert ranges[3] == (0, 12)
        assert on.client.transport.written[8:] == on.client.transport.written[8:]
        assert bytes(on.client.transport.written[-1:]) == b"\0", "no tagged fields are sent: old librdkafka mis-skips them"

    play(scene)


def test_unsupported_versions_are_told_where_the_answer_has_room() -> None:
    async def scene(on: Stage) -> None:
        answer = await on.client.call(ApiKey.FETCH, 13, APIS[1].load()[0].kind())
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        other = on.another()
        other.send(ApiKey.LIST_OFFSETS, 8, APIS[2].load()[0].kind())
        with pytest.raises(ConnectionError):
            await other.receive(ApiKey.LIST_OFFSETS, 8)
        unknown = on.another()
        unknown.transport.feed(encode_request_frame(RequestHeader(999, 0, 1, "c", 0), b""))
        await asyncio.sleep(0.1)
        assert unknown.transport.closed
        assert not on.client.transport.closed

    play(scene)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_produce_below_v3_is_answered_in_its_own_version(version: int) -> None:
    async def scene(on: Stage) -> None:
        await on.topic()
        body = struct.pack(">hi", 1, 1000) + struct.pack(">i", 1) + b"\0\1t" + struct.pack(">iii", 1, 0, 3) + b"old"
        on.client.transport.feed(encode_request_frame(RequestHeader(0, version, 5, "c", 0), body))
        await asyncio.sleep(0.1)
        frame = memoryview(bytes(on.client.transport.written))[4:]
        correlation, position = decode_response_header(0, 3, frame)
        assert correlation == 5
        topics, name, partitions, index, code, offset = struct.unpack_from(">i3siihq", frame, position)
        assert (topics, name, partitions, index, offset) == (1, b"\0\1t", 1, 0, -1)
        assert code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
        assert len(frame) - position == struct.calcsize(">i3siihq") + (8 if version == 2 else 0) + (4 if version >= 1 else 0)

    play(scene)


def test_stop_finishes_what_is_under_way() -> None:
    async def scene(on: Stage) -> None:
        await on.topic()
        on.client.send(0, 9, produce_request("t", {0: batch(2)}))
        waiting = on.another()
        waiting.send(ApiKey.FETCH, 12, APIS[1].load()[0].kind(max_wait_ms=60_000, min_bytes=1))
        began = asyncio.get_running_loop().time()
        await on.parts.broker.stop()
        assert asyncio.get_running_loop().time() - began < 1
        _, response = await on.client.receive(0, 9)
        assert response.responses[0].partition_responses[0].error_code == 0
        assert waiting.transport.closed

    play(scene)


def test_answers_of_a_peer_that_left_are_let_go_while_an_earlier_request_still_runs() -> None:
    async def main() -> None:
        echo = Echo()
        transport = echo.connect()
        transport.feed(b"".join(framed(b"\0\0%02d" % n) for n in range(10)))
        for exchange in echo.exchanges[1:9]:
            exchange.finish([bytes(MIB)])
        assert echo.house.budget.used == 8 * MIB + 10 * 4
        transport.close()
        await asyncio.sleep(0.1)
        assert echo.house.budget.used == 2 * 4, "the first and the last are still being handled"
        echo.exchanges[9].finish([bytes(MIB)])
        assert echo.house.budget.used == 4
        assert all(not exchange.parts for exchange in echo.exchanges)
        echo.exchanges[0].finish([b"late"])
        assert echo.house.budget.used == 0
        assert transport.written == b""

    run_virtual(main())


def test_a_connection_does_not_pile_up_answers_behind_an_unanswered_request() -> None:
    async def main() -> None:
        echo = Echo()
        transport = echo.connect()
        transport.feed(framed(b"\0\0") * 3)
        for exchange in echo.exchanges[1:3]:
            exchange.finish([bytes(9 * MIB)])
        transport.feed(framed(b"\0\0") * 100)
        assert len(echo.frames) == 3
        assert transport.paused
        echo.exchanges[0].finish([b"x"])
        await asyncio.sleep(0.1)
        assert len(echo.frames) == 103
        assert len(transport.written) == 18 * MIB + 1

    run_virtual(main())
