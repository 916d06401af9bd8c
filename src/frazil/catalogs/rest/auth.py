"""Signing in to a catalog: not at all, with a given token, with OAuth2 client credentials, with AWS signatures.

An OAuth2 token is renewed before it ends and after the catalog refused it; of many callers one asks, the others wait.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final, Protocol
from urllib.parse import urlencode

from frazil.catalogs.rest.answers import Words, error_of
from frazil.catalogs.rest.http import Http, Request
from frazil.catalogs.rest.properties import OAuth2Properties
from frazil.kit.clock import Clock
from frazil.kit.errors import Conflict, Missing, OutcomeUnknown, Refused, RetryLater

_MARGIN_MS: Final = 60_000
_NEVER: Final = float("inf")


class Auth(Protocol):
    """Adds to a request what proves who asks."""

    async def sign(self, request: Request) -> Request:
        """The request as it may be sent. Raises Refused when signing in is refused, RetryLater when it is not possible now."""
        ...

    async def renew(self, refused: Request) -> bool:
        """The catalog did not accept ``refused``. True when there is now something newer to sign with."""
        ...


class Anonymous(Auth):
    """No sign-in."""

    async def sign(self, request: Request) -> Request:
        """See ``Auth.sign``."""
        return request

    async def renew(self, refused: Request) -> bool:
        """Nothing newer."""
        return False


class Bearer(Auth):
    """A token that somebody else renews."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def sign(self, request: Request) -> Request:
        """See ``Auth.sign``."""
        return with_headers(request, {"Authorization": f"Bearer {self._token}"})

    async def renew(self, refused: Request) -> bool:
        """Nothing newer."""
        return False


class ClientCredentials(Auth):
    """OAuth2 client credentials (RFC 6749 §4.4): a token of limited life, kept in memory only."""

    def __init__(self, http: Http, properties: OAuth2Properties, *, clock: Clock, words: Words, timeout_ms: int) -> None:
        self._http = http
        self._properties = properties
        self._clock = clock
        self._words = words
        self._timeout_ms = timeout_ms
        self._token = ""
        self._renew_at_ms = 0.0
        self._turn = asyncio.Lock()

    async def sign(self, request: Request) -> Request:
        """See ``Auth.sign``."""
        if not self._fresh():
            async with self._turn:
                if not self._fresh():
                    await self._ask()
        return with_headers(request, {"Authorization": f"Bearer {self._token}"})

    async def renew(self, refused: Request) -> bool:
        """A new token, unless another caller got one meanwhile."""
        async with self._turn:
            sent = (refused.headers.get("Authorization"), refused.headers.get("Original-Authorization"))
            if f"Bearer {self._token}" in sent:
                await self._ask()
        return True

    def _fresh(self) -> bool:
        return self._token != "" and self._clock.monotonic_ms() < self._renew_at_ms

    async def _ask(self) -> None:
        given = self._properties
        form = {
            "grant_type": "client_credentials",
            "client_id": given.client_id,
            "client_secret": given.client_secret,
            "scope": given.scope,
            "audience": given.audience,
            "resource": given.resource,
        }
        request = Request(
            method="POST",
            url=given.server_uri,
            headers={"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"},
            body=urlencode({name: value for name, value in form.items() if value}).encode(),
        )
        what = f"signing in with the catalog credential at {given.server_uri.split('?')[0]}"
        asked_ms = self._clock.monotonic_ms()
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                answer = await self._http.send(request)
        except TimeoutError:
            raise RetryLater(f"{what}: no answer within {self._timeout_ms} ms") from None
        except OutcomeUnknown as error:
            raise RetryLater(str(error)) from None  # a token nobody knows changes nothing
        if answer.status // 100 != 2:
            bad = error_of(answer, what, clock=self._clock, words=self._words, applying=False)
            raise Refused(str(bad)) if isinstance(bad, Missing | Conflict) else bad
        self._take(answer.body, asked_ms, what)

    def _take(self, body: bytes, asked_ms: float, what: str) -> None:
        try:
            value: Any = json.loads(body)
            token = str(value["access_token"])
            life_s = float(value.get("expires_in") or 0)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise Refused(f"{what}: the answer holds no access_token; is oauth2-server-uri the token endpoint?") from None
        self._words.hide("token", token, self._token)
        self._token = token
        # A minute before the end, or at three quarters of a short life.
        life_ms = life_s * 1000
        self._renew_at_ms = asked_ms + max(life_ms - _MARGIN_MS, life_ms * 0.75) if life_ms > 0 else _NEVER


def with_headers(request: Request, headers: Mapping[str, str]) -> Request:
    """The same request with more headers."""
    return Request(method=request.method, url=request.url, headers={**request.headers, **headers}, body=request.body)
