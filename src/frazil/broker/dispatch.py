"""From a frame to its handler and from the handler's response to the bytes of the answer.

One of the places where a broad ``except`` is right: whatever a handler dies of ends this request and its connection,
is logged with its traceback, and leaves every other connection alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from frazil.broker.codes import code_of
from frazil.broker.connection import Connection, Exchange
from frazil.broker.counters import ApiCounters
from frazil.broker.handlers.api_versions import api_versions_refusal
from frazil.broker.registry import Call, Handler
from frazil.broker.services import Services
from frazil.kit.errors import Corrupt, FrazilError, Refused
from frazil.wire.codec import encode_parts, layouts_of
from frazil.wire.errors import ErrorCode
from frazil.wire.frame import RequestHeader, response_parts
from frazil.wire.layout import Blob
from frazil.wire.messages.registry import APIS, ApiKey

log = logging.getLogger(__name__)


class Dispatcher:
    """The table of handlers, at work. Its tasks are the requests under way."""

    def __init__(self, services: Services, handlers: Sequence[Handler]) -> None:
        self._services = services
        self._table: Mapping[int, Handler] = MappingProxyType({handler.key: handler for handler in handlers})
        self._counters: Mapping[int, ApiCounters] = MappingProxyType({h.key: services.counters.api(h.key.name) for h in handlers})
        self._clock = services.clock
        self._loop = asyncio.get_running_loop()
        self._open: dict[Exchange, asyncio.Task[None]] = {}

    def serve(self, connection: Connection, exchange: Exchange, frame: memoryview) -> None:
        """Starts handling one request. Raises Corrupt when the frame is not a request."""
        header = RequestHeader.decode(frame)
        handler = self._table.get(header.api_key)
        if handler is None or not handler.first <= header.api_version <= handler.last:
            self._refuse(connection, exchange, header)
            return
        message = handler.decode(header.api_version, frame, header.position)
        counters = self._counters[header.api_key]
        counters.requests += 1
        counters.bytes_in += len(frame)
        call = Call(services=self._services, session=connection, header=header, message=message)
        task = self._loop.create_task(self._run(handler, call, exchange), name=handler.key.name)
        self._open[exchange] = task
        if handler.ends_with_connection:
            exchange.task = task

    async def _run(self, handler: Handler, call: Call[Any], exchange: Exchange) -> None:
        counters = self._counters[handler.key]
        began_ms = self._clock.monotonic_ms()
        parts: Sequence[Blob] = ()
        try:
            response = await handler.run(call)
            if response is not None:
                parts = response_parts(call.header, handler.encode(call.header.api_version, response))
                exchange.fault_point = handler.fault_point
        except FrazilError as error:
            counters.errors += 1
            parts = self._error_answer(call, error)
        except Exception as error:
            counters.errors += 1
            log.exception("%s v%d failed", handler.key.name, call.version)
            call.session.close(f"{handler.key.name} failed: {type(error).__name__}")
        finally:
            took_ms = self._clock.monotonic_ms() - began_ms
            counters.latency_ms_sum += took_ms
            counters.latency_ms_max = max(counters.latency_ms_max, took_ms)
            del self._open[exchange]
            counters.bytes_out += exchange.finish(parts)

    def _error_answer(self, call: Call[Any], error: FrazilError) -> Sequence[Blob]:
        """The answer to a request that failed as a whole, if its response has a place for a code; else the connection ends."""
        name = ApiKey(call.header.api_key).name
        layouts = layouts_of(call.header.api_key)[1]
        if "error_code" in layouts.kind.__slots__:
            response: Any = layouts.kind()
            says_nothing = b"".join(encode_parts(layouts, call.version, response))
            response.error_code = code_of(error)
            if "error_message" in layouts.kind.__slots__:
                response.error_message = str(error)
            parts = encode_parts(layouts, call.version, response)
            if b"".join(parts) != says_nothing:  # a version without the field would make the error look like an empty answer
                call.services.complaints.note(f"{name} v{call.version} from {call.session.client_host}: {error}")
                return response_parts(call.header, parts)
        call.session.close(f"{name} failed: {error}")
        return ()

    def _refuse(self, connection: Connection, exchange: Exchange, header: RequestHeader) -> None:
        """An API or version not served: ApiVersions falls back to v0 (KIP-511), others hear UNSUPPORTED_VERSION if that can be said."""
        if header.api_key == ApiKey.API_VERSIONS:
            exchange.finish(response_parts(header, api_versions_refusal(tuple(self._table.values()))))
            return
        api = APIS.get(header.api_key)
        what = f"{api.name} v{header.api_version}" if api else f"API key {header.api_key} v{header.api_version}"
        handler = self._table.get(header.api_key)
        served = f"served are v{handler.first} to v{handler.last}" if handler else "not served"
        if api is None or not api.version_min <= header.api_version <= api.version_max:
            raise Corrupt(f"{what} is unknown; {served}", where="RequestHeader")
        layouts = layouts_of(header.api_key)[1]
        if "error_code" not in layouts.kind.__slots__:
            raise Corrupt(f"{what}: {served}", where="RequestHeader")
        response: Any = layouts.kind()
        response.error_code = ErrorCode.UNSUPPORTED_VERSION
        try:
            exchange.finish(response_parts(header, encode_parts(layouts, header.api_version, response)))
        except Refused as error:
            raise Corrupt(str(error), where="RequestHeader") from error

    async def drain(self, timeout_ms: int) -> bool:
        """Waits for the requests under way; False when some are not done after ``timeout_ms``, which are then cancelled."""
        tasks = list(self._open.values())
        if not tasks:
            return True
        _, late = await asyncio.wait(tasks, timeout=timeout_ms / 1000)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)
        return not late
