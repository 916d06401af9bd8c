"""Calls of the REST catalog protocol: configuration once, then signed requests under its prefix, with deadlines."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, unquote, urlencode

from frazil.catalogs.port import split_ident
from frazil.catalogs.rest.answers import Words, error_of, retry_after_ms, signed_out
from frazil.catalogs.rest.auth import Anonymous, Auth, Bearer, ClientCredentials
from frazil.catalogs.rest.http import Answer, Http, Request
from frazil.catalogs.rest.properties import RestProperties, secrets_in
from frazil.kit.clock import Clock
from frazil.kit.errors import OutcomeUnknown, RetryLater
from frazil.kit.tasks import Offload

_SEPARATOR: Final = "\x1f"
_READS: Final = frozenset({"GET", "HEAD"})
CREDENTIALS_ENDPOINT: Final = "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials"
CREATE_ENDPOINT: Final = "POST /v1/{prefix}/namespaces/{namespace}/tables"
COMMIT_ENDPOINT: Final = "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call. ``path`` is below ``/v1/{prefix}/``."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    what: str
    """For messages: ``loading table a.b``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What the catalog said about itself: its defaults, then the client's properties, then its overrides."""

    prefix: str
    separator: str
    storage: Mapping[str, str] = field(repr=False)
    """``s3.*`` and ``client.*``."""
    endpoints: frozenset[str]
    """What it says it offers; empty when it does not say."""
    headers: Mapping[str, str] = field(repr=False)

    def lacks(self, endpoint: str) -> bool:
        """Whether the catalog says what it offers and this is not among it."""
        return bool(self.endpoints) and endpoint not in self.endpoints


class RestClient:
    """Speaks to one catalog. Errors are those of the catalog port, with the server's words and without secrets."""

    def __init__(self, properties: RestProperties, http: Http, *, clock: Clock, offload: Offload) -> None:
        self.words = Words(properties.secrets)
        self.properties = properties
        self._http = http
        self._clock = clock
        self._auth = self._sign_in(offload)
        self._config: Config | None = None
        self._turn = asyncio.Lock()
        self._wait_until_ms = 0.0

    async def config(self) -> Config:
        """The catalog's configuration, asked for once. Raises Refused, RetryLater."""
        if self._config is None:
            async with self._turn:
                if self._config is None:
                    self._config = await self._ask_config()
        return self._config

    async def send(self, call: Call) -> Mapping[str, Any]:
        """The answer's JSON object (empty for an empty answer).

        Raises Conflict, Missing, Refused, RetryLater; OutcomeUnknown for anything but a read whose answer was lost.
        """
        self._check_turn(call)
        config = await self.config()
        base = "/".join(part for part in (f"{self.properties.uri}/v1", config.prefix) if part)
        query = f"?{urlencode(call.query)}" if call.query else ""
        return await self._exchange(call, f"{base}/{call.path}{query}", {**config.headers, **call.headers})

    async def table_path(self, ident: str) -> str:
        """``namespaces/…/tables/…`` of a table. Raises Refused when the name is none."""
        namespace, name = split_ident(ident)
        return f"{await self.namespace_path(namespace)}/tables/{quote(name, safe='')}"

    async def namespace_path(self, namespace: str) -> str:
        """``namespaces/…``; levels are joined as the catalog wants."""
        config = await self.config()
        return f"namespaces/{quote(config.separator.join(namespace.split('.')), safe='')}"

    async def close(self) -> None:
        """Ends the connections."""
        await self._http.close()

    def _sign_in(self, offload: Offload) -> Auth:
        """What the properties ask for. Raises Refused when it needs a package that is not installed."""
        given = self.properties
        inner: Auth = Anonymous()
        if given.oauth2 is not None:
            inner = ClientCredentials(self._http, given.oauth2, clock=self._clock, words=self.words, timeout_ms=given.timeout_ms)
        elif given.token:
            inner = Bearer(given.token)
        if given.sigv4 is None:
            return inner
        from frazil.catalogs.rest.sigv4 import SigV4  # botocore is an extra

        return SigV4(inner, given.sigv4, offload=offload, words=self.words)

    # --- one exchange ------------------------------------------------------------------------------------------------

    async def _ask_config(self) -> Config:
        given = self.properties
        query = f"?{urlencode({'warehouse': given.warehouse})}" if given.warehouse else ""
        call = Call(method="GET", path="config", what=f"asking the catalog {given.uri} for its configuration")
        value = await self._exchange(call, f"{given.uri}/v1/config{query}", given.headers)
        defaults, overrides = _texts(value.get("defaults")), _texts(value.get("overrides"))
        self.words.hide("config", *secrets_in(defaults), *secrets_in(overrides))
        mine = {"prefix": given.prefix} if given.prefix is not None else {}
        merged = {**defaults, **given.storage, **mine, **overrides}
        headers = {name[len("header.") :]: text for name, text in merged.items() if name.startswith("header.")}
        return Config(
            prefix=merged.get("prefix", "").strip("/"),
            separator=unquote(merged.get("namespace-separator", _SEPARATOR)),
            storage={name: text for name, text in merged.items() if name.startswith(("s3.", "client."))},
            endpoints=frozenset(_endpoint(str(text)) for text in value.get("endpoints") or ()),
            headers={**headers, **given.headers},
        )

    async def _exchange(self, call: Call, url: str, headers: Mapping[str, str]) -> Mapping[str, Any]:
        request = Request(
            method=call.method,
            url=url,
            headers={"Accept": "application/json", **({"Content-Type": "application/json"} if call.body is not None else {}), **headers},
            body=b"" if call.body is None else json.dumps(call.body, separators=(",", ":")).encode(),
        )
        answer = await self._answered(call, request)
        self._note_wait(answer)
        if answer.status // 100 != 2:
            raise error_of(answer, call.what, clock=self._clock, words=self.words, applying=call.method not in _READS)
        if not answer.body.strip():
            return {}
        try:
            value: Any = json.loads(answer.body)
        except ValueError:
            value = None
        if isinstance(value, Mapping):
            return value
        why = f"{call.what}: the answer (status {answer.status}) is not a JSON object"
        raise RetryLater(why) if call.method in _READS else OutcomeUnknown(why)

    def _check_turn(self, call: Call) -> None:
        """A catalog that said when to come back is not asked anything before (F66)."""
        left_ms = self._wait_until_ms - self._clock.monotonic_ms()
        if left_ms > 0:
            raise RetryLater(f"{call.what}: the catalog asked to wait {left_ms / 1000:.1f} s more", after_ms=int(left_ms) + 1)

    def _note_wait(self, answer: Answer) -> None:
        if answer.status in (429, 503) and "retry-after" in answer.headers:
            self._wait_until_ms = self._clock.monotonic_ms() + retry_after_ms(answer, self._clock)

    async def _answered(self, call: Call, request: Request) -> Answer:
        """An answer; when the catalog does not accept the sign-in, one more after signing in anew."""
        under_way = False  # of the request itself, not of a sign-in
        try:
            async with asyncio.timeout(self.properties.timeout_ms / 1000):
                for again in (False, True):
                    signed = await self._auth.sign(request)
                    under_way = True
                    answer = await self._delivered(call, signed)
                    under_way = False
                    if again or not signed_out(answer) or not await self._auth.renew(signed):
                        break
                return answer
        except TimeoutError:
            why = f"{call.what}: no answer within {self.properties.timeout_ms} ms"
            raise OutcomeUnknown(why) if under_way and call.method not in _READS else RetryLater(why) from None

    async def _delivered(self, call: Call, request: Request) -> Answer:
        """A read is sent again at once when its connection breaks: a kept connection that the other side ended shows only in use."""
        try:
            return await self._http.send(request)
        except OutcomeUnknown as error:
            if call.method not in _READS:
                raise OutcomeUnknown(f"{call.what}: {self.words.clean(str(error))}") from None
        try:
            return await self._http.send(request)
        except OutcomeUnknown as error:
            raise RetryLater(f"{call.what}: {self.words.clean(str(error))}") from None


def _endpoint(text: str) -> str:
    """One spelling: some servers leave the slash before ``v1`` away."""
    method, _, path = text.strip().partition(" ")
    return f"{method.upper()} /{path.strip().lstrip('/')}"


def _texts(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        return {}
    return {str(name): str(text) for name, text in value.items() if text is not None}
