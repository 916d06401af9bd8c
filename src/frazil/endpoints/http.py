"""A small HTTP/1.1 server for our own endpoints, on h11's state machine: bounded in every direction, for loopback or behind a proxy."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

import h11

_LOG = logging.getLogger("frazil.http")
_READ_BYTES: Final = 64 * 1024
_HEAD_BYTES_MAX: Final = 16 * 1024
JSON: Final = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """One request. ``path``: its parts, each unquoted. ``headers``: by lower-case name."""

    method: str
    path: tuple[str, ...]
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """One answer."""

    status: int
    body: bytes
    content_type: str = JSON


def json_response(status: int, value: object, content_type: str = JSON) -> HttpResponse:
    """``value`` as JSON."""
    text = json.dumps(value, ensure_ascii=False)  # half a surrogate pair has no UTF-8: it goes out as JSON's own escape
    return HttpResponse(status=status, body=text.encode(errors="backslashreplace"), content_type=content_type)


Answer = Callable[[HttpRequest], Awaitable[HttpResponse]]
"""Answers one request. What it raises becomes a 500 without details, and a line in the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """Bounds: bytes of a body, open connections, and how long a client may take to send a request or leave a connection idle."""

    body_bytes_max: int = 4 * 1024 * 1024
    connections_max: int = 200
    patience_ms: int = 30_000


class HttpServer:
    """Serves ``answer`` from ``start`` to ``close``."""

    def __init__(self, answer: Answer, limits: HttpLimits | None = None) -> None:
        self._answer = answer
        self._limits = limits or HttpLimits()
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.port = 0
        """The bound port, after ``start``."""

    async def start(self, host: str, port: int) -> None:
        """Binds and accepts. Raises OSError."""
        self._server = await asyncio.start_server(self._accepted, host, port, limit=_READ_BYTES)
        self.port = int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Accepts no more and ends what is open."""
        if self._server is not None:
            self._server.close()
        for task in tuple(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or len(self._connections) >= self._limits.connections_max:
            writer.close()
            return
        self._connections.add(task)
        try:
            await _Conversation(reader, writer, self._answer, self._limits).run()
        except (OSError, TimeoutError, h11.LocalProtocolError):
            return  # the client is gone, or too slow to be waited for
        finally:
            self._connections.discard(task)
            writer.close()


class _Conversation:
    """One connection: request after request."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: Answer, limits: HttpLimits) -> None:
        self._reader = reader
        self._writer = writer
        self._answer = answer
        self._limits = limits
        self._state = h11.Connection(h11.SERVER, max_incomplete_event_size=_HEAD_BYTES_MAX)

    async def run(self) -> None:
        """Until the client or the protocol ends it."""
        while True:
            try:
                async with asyncio.timeout(self._limits.patience_ms / 1000):
                    request = await self._request()
            except h11.RemoteProtocolError as error:
                await self._send(json_response(error.error_status_hint, {"message": str(error)}))
                return
            if request is None:
                return
            await self._send(request if isinstance(request, HttpResponse) else await self._answered(request))
            if self._state.our_state is not h11.DONE or self._state.their_state is not h11.DONE:
                return
            self._state.start_next_cycle()

    async def _request(self) -> HttpRequest | HttpResponse | None:
        """The next request; an answer to one that is too large; None at the end."""
        head = await self._event()
        if not isinstance(head, h11.Request):
            return None
        body = bytearray()
        while isinstance(event := await self._event(), h11.Data):
            body += event.data
            if len(body) > self._limits.body_bytes_max:
                return json_response(413, {"message": f"a body of more than {self._limits.body_bytes_max} bytes"})
        if not isinstance(event, h11.EndOfMessage):
            return None
        try:
            target = urlsplit(head.target.decode("ascii"))
        except ValueError:
            return json_response(400, {"message": "the request's target is no path"})
        return HttpRequest(
            method=head.method.decode("ascii"),
            path=tuple(unquote(part) for part in target.path.strip("/").split("/")),
            query=dict(parse_qsl(target.query, keep_blank_values=True)),
            headers={name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers},
            body=bytes(body),
        )

    async def _event(self) -> object:
        while True:
            event = self._state.next_event()
            if event is not h11.NEED_DATA:
                return event
            if self._state.they_are_waiting_for_100_continue:
                await self._write(self._state.send(h11.InformationalResponse(status_code=100, headers=[])))
            self._state.receive_data(await self._reader.read(_READ_BYTES))

    async def _answered(self, request: HttpRequest) -> HttpResponse:
        try:
            return await self._answer(request)
        except Exception:  # noqa: BLE001 - the seam to the handlers: a bug in one is logged, and the server goes on
            _LOG.exception("%s /%s", request.method, "/".join(request.path)[:200])
            return json_response(500, {"error_code": 500, "message": "internal error; the server's log says more"})

    async def _send(self, response: HttpResponse) -> None:
        headers = [("content-type", response.content_type), ("content-length", str(len(response.body)))]
        if self._state.our_state is h11.ERROR:
            return
        data = self._state.send(h11.Response(status_code=response.status, headers=headers)) or b""
        data += self._state.send(h11.Data(data=response.body)) or b""
        data += self._state.send(h11.EndOfMessage()) or b""
        await self._write(data)

    async def _write(self, data: bytes | None) -> None:
        if data:
            self._writer.write(data)
            async with asyncio.timeout(self._limits.patience_ms / 1000):
                await self._writer.drain()
