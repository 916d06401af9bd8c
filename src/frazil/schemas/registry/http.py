"""GET requests to a registry over httpx."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass, field
from typing import Final, Protocol
from urllib.parse import urlsplit

import httpx

from frazil.kit.errors import Refused, RetryLater
from frazil.kit.settings import without_user
from frazil.schemas.registry.answers import Answer

ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
_ACCEPT: Final = "application/vnd.schemaregistry.v1+json, application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Where the registry is and who asks. ``basic_auth``: user:password; ``ca_file``: PEM, empty for the system's authorities."""

    url: str
    basic_auth: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    ca_file: str = ""
    timeout_ms: int = 10_000


class Fetch(Protocol):
    """Gets a path below the registry's address."""

    async def get(self, path: str) -> Answer:
        """The answer, whatever its status. Raises RetryLater when there was none."""
        ...

    async def close(self) -> None:
        """Ends all connections."""
        ...


class HttpxFetch:
    """Kept-alive connections with a deadline per request. Redirects are not followed: they would carry the password elsewhere."""

    def __init__(self, access: Access) -> None:
        """Raises Refused for settings that can never work."""
        _check(access.url)
        if access.basic_auth and (access.token or ":" not in access.basic_auth):
            raise Refused("registry: give basic_auth as user:password, or token, and not both")
        self._url = access.url.rstrip("/")
        self._timeout_s = access.timeout_ms / 1000
        headers = {"accept": _ACCEPT} | ({"authorization": f"Bearer {access.token}"} if access.token else {})
        user, _, password = access.basic_auth.partition(":")
        self._client = httpx.AsyncClient(
            headers=headers,
            auth=httpx.BasicAuth(user, password) if access.basic_auth else None,
            verify=_trust(access.ca_file),
            timeout=httpx.Timeout(None),  # the whole request has a deadline: an answer that drips would never end by pauses between bytes
            follow_redirects=False,
        )

    async def get(self, path: str) -> Answer:
        """See ``Fetch.get``."""
        try:
            async with asyncio.timeout(self._timeout_s), self._client.stream("GET", f"{self._url}/{path}") as response:
                body = bytearray()
                async for part in response.aiter_bytes():
                    body += part
                    if len(body) > ANSWER_BYTES_MAX:
                        raise Refused(f"schema registry {path}: the answer has more than {ANSWER_BYTES_MAX} bytes")
        except TimeoutError:
            raise RetryLater(f"schema registry {self._url}: no answer within {self._timeout_s} s", after_ms=500) from None
        except (httpx.UnsupportedProtocol, httpx.InvalidURL, httpx.LocalProtocolError) as error:
            raise Refused(f"schema registry {self._url}: {type(error).__name__} ({error})") from None
        except httpx.HTTPError as error:
            text = f" ({error})" if str(error) else ""
            raise RetryLater(f"schema registry {self._url} does not answer: {type(error).__name__}{text}", after_ms=500) from None
        return Answer(status=response.status_code, body=bytes(body), retry_after=response.headers.get("retry-after", ""))

    async def close(self) -> None:
        """See ``Fetch.close``."""
        await self._client.aclose()


def _check(url: str) -> None:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise Refused(f"registry.url: it is no address: {error}") from None
    if parts.username is not None:
        raise Refused("registry.url: it holds a user or password; use registry.basic_auth")
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise Refused(f"registry.url {without_user(url)!r}: write http://host:port or https://host/path")


def _trust(ca_file: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file or None)
    except (OSError, ssl.SSLError) as error:
        raise Refused(f"registry.ca_file {ca_file}: {error}") from error
