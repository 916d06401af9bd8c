"""Calls of the AWS Glue Data Catalog: JSON 1.1 over HTTPS, signed with SigV4, and what its errors mean (AWS Glue API reference).

Not botocore's client: that repeats a request whose answer was lost by itself, and an UpdateTable must not be repeated unseen (R16).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final

from frazil.catalogs.metastores.properties import GlueProperties
from frazil.catalogs.rest.answers import Words
from frazil.catalogs.rest.auth import Anonymous
from frazil.catalogs.rest.http import Answer, Http, Request
from frazil.catalogs.rest.sigv4 import SigV4
from frazil.kit.errors import Conflict, FrazilError, Missing, OutcomeUnknown, Refused, RetryLater
from frazil.kit.tasks import Offload

_MISSING: Final = frozenset({"EntityNotFoundException"})
_TAKEN: Final = frozenset({"AlreadyExistsException", "ConcurrentModificationException", "VersionMismatchException"})
_LATER: Final = frozenset(
    {
        "ThrottlingException",
        "ThrottledException",
        "RequestLimitExceeded",
        "TooManyRequestsException",
        "ResourceNotReadyException",
        "ServiceUnavailableException",
    }
)
_LOST: Final = frozenset({"InternalServiceException", "OperationTimeoutException", "InternalFailure"})
_ENDED: Final = frozenset({"ExpiredTokenException", "ExpiredToken", "UnrecognizedClientException", "InvalidClientTokenId"})
_WORDS_MAX: Final = 600
_PAUSE_MS: Final = 1_000


class GlueApi:
    """Speaks to one catalog of one account and region. Errors are those of the catalog port, with Glue's words and without secrets."""

    def __init__(self, properties: GlueProperties, http: Http, *, offload: Offload) -> None:
        self._properties = properties
        self._http = http
        self._words = Words(properties.secrets)
        self._auth = SigV4(Anonymous(), properties.sigv4, offload=offload, words=self._words)

    async def call(self, action: str, body: Mapping[str, Any], *, what: str, applying: bool = False) -> Mapping[str, Any]:
        """The answer's JSON object. ``applying``: it changes something, so a lost answer is unknown.

        Raises Missing, Conflict (somebody else was first), Refused, RetryLater, OutcomeUnknown.
        """
        given = {"CatalogId": self._properties.catalog_id, **body} if self._properties.catalog_id else body
        request = Request(
            method="POST",
            url=f"{self._properties.endpoint}/",
            headers={"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": f"AWSGlue.{action}"},
            body=json.dumps(given, separators=(",", ":")).encode(),
        )
        answer = await self._answered(request, what, applying=applying)
        if answer.status // 100 != 2:
            raise self._error(answer, what, applying=applying)
        value = _json(answer)
        if value is None:
            why = f"{what}: the answer (status {answer.status}) is not a JSON object"
            raise OutcomeUnknown(why) if applying else RetryLater(why)
        return value

    async def close(self) -> None:
        """Ends the connections."""
        await self._http.close()

    async def _answered(self, request: Request, what: str, *, applying: bool) -> Answer:
        """An answer; once more with new keys when Glue says that the old ones have ended, and a read once when the connection broke."""
        under_way = False
        try:
            async with asyncio.timeout(self._properties.timeout_ms / 1000):
                for again in (False, True):
                    signed = await self._auth.sign(request)
                    under_way = True
                    answer = await self._delivered(signed, what, applying=applying)
                    under_way = False
                    if again or _kind(answer) not in _ENDED or not await self._auth.renew(signed):
                        break
                return answer
        except TimeoutError:
            why = f"{what}: no answer within {self._properties.timeout_ms} ms"
            raise OutcomeUnknown(why) if under_way and applying else RetryLater(why) from None

    async def _delivered(self, request: Request, what: str, *, applying: bool) -> Answer:
        try:
            return await self._http.send(request)
        except OutcomeUnknown as error:
            if applying:
                raise OutcomeUnknown(f"{what}: {self._words.clean(str(error))}") from None
        try:
            return await self._http.send(request)
        except OutcomeUnknown as error:
            raise RetryLater(f"{what}: {self._words.clean(str(error))}") from None

    def _error(self, answer: Answer, what: str, *, applying: bool) -> FrazilError:
        kind = _kind(answer)
        value = _json(answer) or {}
        said = str(value.get("message") or value.get("Message") or answer.body[:_WORDS_MAX].decode("utf-8", "replace"))
        text = self._words.clean(f"{what}: {kind or 'error'}: {' '.join(said.split())[:_WORDS_MAX]} (status {answer.status})")
        if kind in _MISSING:
            return Missing(text)
        if kind in _TAKEN:
            return Conflict(text)
        if kind in _LATER or answer.status == 429:
            return RetryLater(text, after_ms=_PAUSE_MS)
        if kind in _LOST or answer.status >= 500:
            return OutcomeUnknown(text, after_ms=_PAUSE_MS) if applying else RetryLater(text, after_ms=_PAUSE_MS)
        return Refused(text)


def _kind(answer: Answer) -> str:
    """The error's name; Glue gives it in the body, proxies of AWS in a header."""
    if answer.status // 100 == 2:
        return ""
    value = _json(answer) or {}
    text = str(value.get("__type") or answer.headers.get("x-amzn-errortype", ""))
    return text.partition(":")[0].rpartition("#")[2]


def _json(answer: Answer) -> Mapping[str, Any] | None:
    try:
        value: Any = json.loads(answer.body or b"{}")
    except ValueError:
        return None
    return value if isinstance(value, Mapping) else None
