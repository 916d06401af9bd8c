"""The small HTTP server, by raw bytes over loopback: what is odd, huge, cut or slow gets an answer or its end, and the server goes on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from frazil.endpoints.http import HttpLimits, HttpRequest, HttpResponse, HttpServer, json_response


async def echo(request: HttpRequest) -> HttpResponse:
    if request.path == ("broken",):
        raise ValueError("a bug")
    return json_response(200, [request.method, list(request.path), dict(request.query), request.body.decode()])


def served(story: Callable[[int], Awaitable[None]], limits: HttpLimits | None = None) -> None:
    async def run() -> None:
        server = HttpServer(echo, limits or HttpLimits(body_bytes_max=1000, connections_max=3, patience_ms=300))
        await server.start("127.0.0.1", 0)
        try:
            await story(server.port)
        finally:
            await server.close()

    asyncio.run(run())


async def say(port: int, data: bytes, *, end: bool = True) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    if end:
        writer.write_eof()
    answer = await reader.read()
    writer.close()
    return answer


def test_requests_of_one_connection_are_answered_in_order() -> None:
    async def story(port: int) -> None:
        answer = await say(
            port, b"GET /a/b%2Fc?x=1&y HTTP/1.1\r\nhost: x\r\n\r\nPOST /d HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\nxyz"
        )
        bodies = [part.split(b"\r\n\r\n")[1] for part in answer.split(b"HTTP/1.1 200")[1:]]
        assert [json.loads(body) for body in bodies] == [["GET", ["a", "b/c"], {"x": "1", "y": ""}, ""], ["POST", ["d"], {}, "xyz"]]

    served(story)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x16\x03\x01\x02\x00hello TLS\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n" + b"a: " + b"x" * 40_000, b"431"),
        (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2000\r\n\r\n" + b"x" * 2000, b"413"),
        (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: -5\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", b"400"),
        (b"GET /broken HTTP/1.1\r\nhost: x\r\n\r\n", b"500"),
        (b"GET / HTTP/1.1\r\n\r\n", b"400"),
    ],
)
def test_what_is_wrong_is_answered_and_the_next_client_served(data: bytes, status: bytes) -> None:
    async def story(port: int) -> None:
        assert (await say(port, data)).split(b" ")[1] == status
        assert b"200" in await say(port, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")

    served(story)


def test_a_cut_request_is_told_and_one_that_never_comes_is_left() -> None:
    async def story(port: int) -> None:
        assert b" 400 " in await say(port, b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nxy")
        assert await say(port, b"GET / HT", end=False) == b"", "nobody waits for ever"

    served(story)


def test_more_clients_than_are_allowed_are_turned_away_and_those_there_go_on() -> None:
    async def story(port: int) -> None:
        kept = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        for _, writer in kept:
            writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        heads = [await reader.readuntil(b"\r\n") for reader, _ in kept]
        assert all(b"200" in head for head in heads)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await reader.read() == b""
        for _, open_writer in (*kept, (reader, writer)):
            open_writer.close()

    served(story, HttpLimits(connections_max=3, patience_ms=5_000))
