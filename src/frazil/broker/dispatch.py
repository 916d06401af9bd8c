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

from frazil.broker.bursts import Bursts
from frazil.broker.codes import code_of
from frazil.broker.connection import Connection, Exchange
from frazil.broker.counters import ApiCounters
from frazil.broker.handlers.api_versions import api_versions_refusal
from frazil.broker.registry import AtOnce, Call, Handler
from frazil.broker.services import Services
from frazil.broker.underway import Underway
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
        self._underway = Underway()
        self._bursts = Bursts(services, self._underway)

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
        if handler.at_once is not None and self._serve_at_once(handler.at_once, _Pending(self, handler, call, exchange)):
            return
        task = self._loop.create_task(self._run(handler, call, exchange), name=handler.key.name)
        self._open[exchange] = task
        if handler.ends_with_connection:
            exchange.task = task

    def serve_burst(self, connection: Connection, view: memoryview, start: int, end: int) -> int:
        """Serves the pipelined Produce requests at the front of ``view[start:end]``; where they end, or ``start``: none was taken."""
        return self._bursts.take(connection, view, start, end)

    def _serve_at_once(self, at_once: AtOnce, pending: _Pending) -> bool:
        """True when the request is, or will be, answered without a task."""
        self._underway.begin(pending.exchange)
        try:
            taken = at_once(pending.call, pending)
        except FrazilError as error:
            pending.fail(error)
            return True
        except Exception as error:  # noqa: BLE001 - `die` logs it with its traceback
            pending.die(error)
            return True
        if not taken:
            self._underway.end(pending.exchange)
        return taken

    async def _run(self, handler: Handler, call: Call[Any], exchange: Exchange) -> None:
        pending = _Pending(self, handler, call, exchange)
        try:
            response = await handler.run(call)
        except FrazilError as error:
            pending.fail(error)
        except Exception as error:  # noqa: BLE001 - `die` logs it with its traceback
            pending.die(error)
        except BaseException:
            pending.finish(())
            raise
        else:
            pending.give(response)

    def answer(self, handler: Handler, call: Call[Any], response: object) -> Sequence[Blob]:
        """The bytes of a response; of an error answer when it cannot be written."""
        try:
            return response_parts(call.header, handler.encode(call.header.api_version, response))
        except FrazilError as error:
            return self.error_answer(handler, call, error)
        except Exception as error:  # noqa: BLE001 - `died` logs it with its traceback
            self.died(handler, call, error)
            return ()

    def error_answer(self, handler: Handler, call: Call[Any], error: FrazilError) -> Sequence[Blob]:
        """The answer to a request that failed as a whole."""
        self._counters[handler.key].errors += 1
        return self._error_answer(call, error)

    def died(self, handler: Handler, call: Call[Any], error: Exception) -> None:
        """A handler met something nobody foresaw: its traceback goes to the log, its connection ends."""
        self._counters[handler.key].errors += 1
        log.error("%s v%d failed", handler.key.name, call.version, exc_info=error)
        call.session.close(f"{handler.key.name} failed: {type(error).__name__}")

    def finish(self, handler: Handler, exchange: Exchange, parts: Sequence[Blob], began_ms: float) -> None:
        """Hands the answer to the connection and counts."""
        counters = self._counters[handler.key]
        took_ms = self._clock.monotonic_ms() - began_ms
        counters.latency_ms_sum += took_ms
        counters.latency_ms_max = max(counters.latency_ms_max, took_ms)
        self._open.pop(exchange, None)
        self._underway.end(exchange)
        counters.bytes_out += exchange.finish(parts)

    def now_ms(self) -> float:
        """Monotonic."""
        return self._clock.monotonic_ms()

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
        """Waits for the requests under way; False when some are not done after ``timeout_ms``; tasks among them are then cancelled."""
        tasks: list[asyncio.Task[None]] = list(self._open.values())
        if self._underway.busy:
            tasks.append(self._loop.create_task(self._underway.idle(), name="requests under way"))
        if not tasks:
            return True
        _, late = await asyncio.wait(tasks, timeout=timeout_ms / 1000)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)
        return not late


class _Pending:
    """One request under way; a ``Reply``. Whatever goes wrong with its answer ends its connection, never its caller."""

    __slots__ = ("_began_ms", "_dispatcher", "_handler", "call", "exchange")

    def __init__(self, dispatcher: Dispatcher, handler: Handler, call: Call[Any], exchange: Exchange) -> None:
        self._dispatcher = dispatcher
        self._handler = handler
        self._began_ms = dispatcher.now_ms()
        self.call = call
        self.exchange = exchange

    def give(self, response: object) -> None:
        """See ``Reply``."""
        if response is None:
            self.finish(())
            return
        self.exchange.fault_point = self._handler.fault_point
        self.finish(self._dispatcher.answer(self._handler, self.call, response))

    def fail(self, error: FrazilError) -> None:
        """See ``Reply``."""
        self.finish(self._dispatcher.error_answer(self._handler, self.call, error))

    def die(self, error: Exception) -> None:
        """The handler met something nobody foresaw."""
        self._dispatcher.died(self._handler, self.call, error)
        self.finish(())

    def finish(self, parts: Sequence[Blob]) -> None:
        """Hands over the bytes of the answer; none: there is no answer."""
        self._dispatcher.finish(self._handler, self.exchange, parts, self._began_ms)
