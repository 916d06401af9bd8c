"""One connection to a broker: requests out, answers in, in order."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import TypeVar

from frazil.kit.errors import Corrupt, Refused, RetryLater
from frazil.wire import Message, RequestHeader
from frazil.wire.client import decode_response, encode_request
from frazil.wire.errors import ErrorCode
from frazil.wire.frame import decode_response_header, encode_request_frame, frame_size

M = TypeVar("M", bound=Message)

_FRAME_BYTES_MAX = 256 * 1024 * 1024
_CONNECT_TIMEOUT_S = 10.0
_ANSWER_TIMEOUT_S = 60.0
_RETRY_S = 0.2
_MEANINGS = {
    ErrorCode.INVALID_TOPIC_EXCEPTION: "no topic can have this name; use 1 to 249 of A-Z a-z 0-9 . _ - and not '.' or '..'",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "there is no such topic or partition",
    ErrorCode.OFFSET_OUT_OF_RANGE: "the log does not hold this offset",
    ErrorCode.GROUP_ID_NOT_FOUND: "there is no such group",
    ErrorCode.NON_EMPTY_GROUP: "it has members; stop them first",
}
"""What to say when a broker sends a code without words."""


class BrokerConnection:
    """A client connection; one request at a time."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._correlation = 0

    async def open(self, *, patience_s: float = 0.0, notice: Callable[[str], None] | None = None) -> None:
        """Connects; for ``patience_s`` seconds it tries again while nobody listens, and says so once through ``notice``.

        Raises RetryLater with the address when nobody listens at the end.
        """
        loop = asyncio.get_running_loop()
        give_up = loop.time() + patience_s
        while True:
            try:
                return await self._connect()
            except RetryLater as error:
                # A broker that starts refuses connections; a name nobody knows will not become known by waiting.
                if isinstance(error.__cause__, socket.gaierror) or loop.time() >= give_up:
                    raise
            if notice is not None:
                notice(f"waiting up to {patience_s:g} s for a broker at {self._host}:{self._port}")
                notice = None
            await asyncio.sleep(_RETRY_S)

    async def _connect(self) -> None:
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
        except (OSError, TimeoutError) as error:
            raise RetryLater(f"no broker answers at {self._host}:{self._port} ({error}); is `frazil dev` running?") from error

    async def close(self) -> None:
        """Closes the connection."""
        if self._writer is not None:
            self._writer.close()
            try:
                await self._writer.wait_closed()
            except OSError:
                self._writer = None

    async def ask(self, api_key: int, version: int, request: Message, want: type[M]) -> M:
        """Sends one request and returns its answer, which must be a ``want``."""
        if self._reader is None or self._writer is None:
            await self.open()
        reader, writer = self._reader, self._writer
        if reader is None or writer is None:
            raise RetryLater(f"no connection to {self._host}:{self._port}")
        self._correlation += 1
        header = RequestHeader(api_key, version, self._correlation, "frazil-admin", 0)
        try:
            writer.write(encode_request_frame(header, encode_request(api_key, version, request)))
            await writer.drain()
            async with asyncio.timeout(_ANSWER_TIMEOUT_S):
                prefix = await reader.readexactly(4)
                frame = memoryview(await reader.readexactly(frame_size(prefix, _FRAME_BYTES_MAX)))
        except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
            raise RetryLater(f"the broker at {self._host}:{self._port} did not answer: {error!r}") from error
        correlation, position = decode_response_header(api_key, version, frame)
        if correlation != self._correlation:
            raise Corrupt(f"answer to request {correlation}, expected {self._correlation}", where=f"{self._host}:{self._port}")
        answer = decode_response(api_key, version, frame, position)
        if not isinstance(answer, want):
            raise Corrupt(f"answer is {type(answer).__name__}", where=f"{self._host}:{self._port}")
        return answer


def check(code: int, about: str, message: str | None = None) -> None:
    """Raises Refused with what is wrong and the Kafka error's name unless ``code`` is 0."""
    if not code:
        return
    try:
        known = ErrorCode(code)
    except ValueError:
        raise Refused(f"{about}: {message or 'refused'} (error {code})") from None
    text = message or _MEANINGS.get(known, "refused")
    raise Refused(f"{text} ({known.name})" if about in text else f"{about}: {text} ({known.name})")
