"""One HTTP exchange, and what is known when it fails: surely not sent, or perhaps applied."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

import httpx

from frazil.kit.errors import OutcomeUnknown, Refused, RetryLater

ANSWER_BYTES_MAX: Final = 256 * 1024 * 1024
"""Table metadata grows with its history; a larger answer is not read."""
_CONNECT_S: Final = 10.0
_CONNECTIONS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is sent. ``url`` is complete."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


class Http(Protocol):
    """Sends requests."""

    async def send(self, request: Request) -> Answer:
        """The answer, whatever its status.

        Raises OutcomeUnknown when the request may have arrived, RetryLater when it surely did not, Refused when it cannot be sent.
        """
        ...

    async def close(self) -> None:
        """Ends all connections."""
        ...


class HttpxHttp(Http):
    """Over httpx: kept-alive connections, proxies of the environment (HTTPS_PROXY, NO_PROXY), own certificate authority.

    No time limit on answers: who calls has a deadline. Redirects are not followed: a commit must not be sent on to somebody else.
    """

    def __init__(self, *, ca_file: str = "", proxy: str = "") -> None:
        limits = httpx.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=_CONNECTIONS, keepalive_expiry=20.0)
        timeout = httpx.Timeout(None, connect=_CONNECT_S)
        try:
            self._client = httpx.AsyncClient(
                verify=_trust(ca_file), proxy=proxy or None, limits=limits, timeout=timeout, follow_redirects=False, trust_env=not proxy
            )
        except (ValueError, httpx.InvalidURL):
            raise Refused("catalog property proxy is not the address of a proxy: write http://host:port") from None

    async def send(self, request: Request) -> Answer:
        """See ``Http.send``."""
        try:
            async with self._client.stream(
                request.method, request.url, headers=dict(request.headers), content=request.body or None
            ) as response:
                body = bytearray()
                async for part in response.aiter_bytes():
                    body += part
                    if len(body) > ANSWER_BYTES_MAX:
                        raise Refused(f"{_place(request)}: the answer has more than {ANSWER_BYTES_MAX} bytes")
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError) as error:
            raise RetryLater(f"{_place(request)} cannot be reached: {_why(error)}", after_ms=500) from None
        except (httpx.UnsupportedProtocol, httpx.InvalidURL, httpx.LocalProtocolError) as error:
            raise Refused(f"{_place(request)}: {_why(error)}") from None
        except httpx.HTTPError as error:
            raise OutcomeUnknown(f"{_place(request)}: the connection broke: {_why(error)}") from None
        return Answer(status=response.status_code, headers=dict(response.headers), body=bytes(body))

    async def close(self) -> None:
        """See ``Http.close``."""
        await self._client.aclose()


def _trust(ca_file: str) -> ssl.SSLContext:
    """The system's authorities, or those of ``ca_file`` alone."""
    try:
        return ssl.create_default_context(cafile=ca_file or None)
    except (OSError, ssl.SSLError) as error:
        raise Refused(f"catalog property ssl.cabundle: {ca_file}: {error}") from error


def _place(request: Request) -> str:
    """Method and address without the query, which may hold anything."""
    return f"{request.method} {request.url.split('?')[0]}"


def _why(error: Exception) -> str:
    """Never more than kind and text: request and headers stay out of messages."""
    return f"{type(error).__name__}{f' ({error})' if str(error) else ''}"
