"""One connection with several requests in flight; answers come in the order of the requests, as Kafka promises per connection."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TypeVar

from frazil.kit.errors import Corrupt, FrazilError, RetryLater
from frazil.kit.tasks import spawn
from frazil.wire import Message, RequestHeader
from frazil.wire.client import decode_response, encode_request
from frazil.wire.frame import decode_response_header, encode_request_frame, frame_size

M = TypeVar("M", bound=Message)
_FRAME_BYTES_MAX = 256 * 1024 * 1024
_CLIENT = "frazil-bench"


class Pipe:
    """A pipelined client connection."""

    def __init__(self, host: str, port: int) -> None:
        self._where = f"{host}:{port}"
        self._host, self._port = host, port
        self._waiting: deque[tuple[int, int, int, asyncio.Future[Message]]] = deque()
        self._correlation = 0
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Connects. Raises RetryLater when nobody listens."""
        try:
            self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
        except OSError as error:
            raise RetryLater(f"no broker answers at {self._where} ({error})") from error
        self._task = spawn(f"answers of {self._where}", self._read())

    async def close(self) -> None:
        """Disconnects; requests without an answer fail."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._writer is not None:
            self._writer.close()
        self._fail(RetryLater(f"the connection to {self._where} was closed"))

    def send(self, api_key: int, version: int, request: Message) -> asyncio.Future[Message]:
        """Writes a request; the future is its answer."""
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting.append((self._write(api_key, version, request), api_key, version, answer))
        return answer

    def send_and_forget(self, api_key: int, version: int, request: Message) -> None:
        """Writes a request that has no answer (Produce with acks 0)."""
        self._write(api_key, version, request)

    async def drained(self) -> None:
        """Returns when the socket takes more."""
        if self._writer is not None:
            try:
                await self._writer.drain()
            except OSError as error:
                raise RetryLater(f"the broker at {self._where} closed the connection: {error}") from error

    def _write(self, api_key: int, version: int, request: Message) -> int:
        if self._writer is None or (self._task is not None and self._task.done()):
            raise RetryLater(f"no connection to {self._where}")
        self._correlation += 1
        header = RequestHeader(api_key, version, self._correlation, _CLIENT, 0)
        self._writer.write(encode_request_frame(header, encode_request(api_key, version, request)))
        return self._correlation

    async def _read(self) -> None:
        reader = self._reader
        assert reader is not None
        try:
            while True:
                prefix = await reader.readexactly(4)
                frame = memoryview(await reader.readexactly(frame_size(prefix, _FRAME_BYTES_MAX)))
                if not self._waiting:
                    raise Corrupt("an answer that nobody asked for", where=self._where)
                wanted, api_key, version, answer = self._waiting.popleft()
                correlation, position = decode_response_header(api_key, version, frame)
                if correlation != wanted:
                    raise Corrupt(f"answer to request {correlation}, expected {wanted}", where=self._where)
                if not answer.done():
                    answer.set_result(decode_response(api_key, version, frame, position))
        except (OSError, asyncio.IncompleteReadError) as error:
            self._fail(RetryLater(f"the broker at {self._where} ended the connection: {error!r}"))
        except FrazilError as error:
            self._fail(error)

    def _fail(self, error: FrazilError) -> None:
        while self._waiting:
            *_, answer = self._waiting.popleft()
            if not answer.done():
                answer.set_exception(error)
