"""What a handler is: an API key, the versions served, and one coroutine function from call to response.

``@handles`` makes the value; ``handlers.HANDLERS`` lists them all, and from that list come dispatch, the ApiVersions answer
and docs/protocol-support.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from frazil.broker.services import Services
from frazil.broker.turns import Turns
from frazil.kit.errors import FrazilError
from frazil.wire.codec import encode_parts, layouts_of
from frazil.wire.frame import RequestHeader
from frazil.wire.layout import Blob, Message
from frazil.wire.messages.registry import ApiKey

M = TypeVar("M")


class Session(Protocol):
    """What a handler may know of the connection its request came by."""

    client_host: str
    produce_gate: Turns

    def close(self, why: str) -> None:
        """Closes the connection; ``why`` goes to the log."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[M]):
    """One decoded request with everything its handler may use."""

    services: Services
    session: Session
    header: RequestHeader
    message: M

    @property
    def version(self) -> int:
        """The API version the client chose."""
        return self.header.api_version


class Reply(Protocol):
    """Where a request that is served without a task leaves its response, once. Neither method raises."""

    def give(self, response: object) -> None:
        """The response; None when the request is not to be answered (acks=0)."""
        ...

    def fail(self, error: FrazilError) -> None:
        """The request failed as a whole."""
        ...


AtOnce: TypeAlias = Callable[[Call[Any], Reply], bool]
"""Serves a request that needs not wait before it has its place, or returns False: then ``run`` does."""
Run: TypeAlias = Callable[[Call[Any]], Awaitable[Any]]
Decode: TypeAlias = Callable[[int, memoryview, int], Any]
Encode: TypeAlias = Callable[[int, Any], Sequence[Blob]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """One API. ``run`` returns the response, or None when the request is not to be answered (acks=0)."""

    key: ApiKey
    first: int
    last: int
    advertised_first: int
    """Lower end in the ApiVersions answer; below ``first`` only for Produce (KAFKA-18659)."""
    run: Run
    decode: Decode
    encode: Encode
    ends_with_connection: bool
    """A long poll: cancelled when its connection is gone."""
    fault_point: str
    at_once: AtOnce | None
    doc: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How a handler departs from the ordinary: own codec, long poll, fault point, a way without a task, a wider range in ApiVersions."""

    advertised_first: int | None = None
    decode: Decode | None = None
    encode: Encode | None = None
    ends_with_connection: bool = False
    fault_point: str = ""
    at_once: AtOnce | None = None


_ORDINARY = Shape()


def handles(key: ApiKey, first: int, last: int, *, shape: Shape = _ORDINARY) -> Callable[[Run], Handler]:
    """Declares the decorated coroutine function as the handler of ``key`` in versions ``first`` to ``last``."""

    def plain_decode(version: int, frame: memoryview, position: int) -> Message:
        # What follows the message is not looked at, as in Kafka: librdkafka sends Metadata v12 for all topics with three
        # bytes too many (an array count of four bytes where a varint is meant).
        return layouts_of(key)[0].readers[version](frame, position, len(frame))[0]

    def plain_encode(version: int, response: Message) -> Sequence[Blob]:
        # Joined at once: an answer may wait for the one before it, and thousands of small parts take many times their bytes.
        return [b"".join(encode_parts(layouts_of(key)[1], version, response))]

    def declare(run: Run) -> Handler:
        return Handler(
            key=key,
            first=first,
            last=last,
            advertised_first=first if shape.advertised_first is None else shape.advertised_first,
            run=run,
            decode=shape.decode or plain_decode,
            encode=shape.encode or plain_encode,
            ends_with_connection=shape.ends_with_connection,
            fault_point=shape.fault_point,
            at_once=shape.at_once,
            doc=getattr(run, "__globals__", {}).get("__doc__") or "",
        )

    return declare
