"""AWS Signature Version 4 for catalogs behind AWS (Glue, S3 Tables) and those that take it too, by botocore: extra ``frazil[aws]``."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from frazil.kit.errors import Refused, RetryLater

try:
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials
    from botocore.exceptions import BotoCoreError
    from botocore.session import Session
except ImportError as error:
    raise Refused("signing with SigV4 needs botocore: pip install 'frazil[aws]'") from error

from frazil.catalogs.rest.answers import Words
from frazil.catalogs.rest.auth import Auth
from frazil.catalogs.rest.http import Request
from frazil.catalogs.rest.properties import SigV4Properties
from frazil.kit.tasks import Offload

_SIGNED = ("content-type", "x-iceberg-access-delegation", "accept", "x-amz-target")


class SigV4(Auth):
    """Signs each request. A sign-in below it (OAuth2) moves to ``Original-Authorization``, as Iceberg's Java client does."""

    def __init__(self, inner: Auth, properties: SigV4Properties, *, offload: Offload, words: Words) -> None:
        self._inner = inner
        self._properties = properties
        self._offload = offload
        self._words = words
        self._chain: Any = None

    async def sign(self, request: Request) -> Request:
        """See ``Auth.sign``. Keys of the chain may come from the network, so they are fetched in the offload."""
        request = await self._inner.sign(request)
        return await self._offload.run(lambda: self._sign(request))

    async def renew(self, refused: Request) -> bool:
        """Keys of the chain are fetched anew; given keys have nothing newer."""
        if await self._inner.renew(refused):
            return True
        if self._properties.access_key_id:
            return False
        self._chain = None
        return True

    def _sign(self, request: Request) -> Request:
        headers = {name: value for name, value in request.headers.items() if name.lower() in _SIGNED}
        signed = AWSRequest(method=request.method, url=request.url, data=request.body, headers={**headers, "Host": _host(request.url)})
        SigV4Auth(self._keys(), self._properties.service, self._properties.region).add_auth(signed)
        merged = dict(request.headers)
        if "Authorization" in merged:
            merged["Original-Authorization"] = merged.pop("Authorization")
        return Request(method=request.method, url=request.url, headers={**merged, **dict(signed.headers.items())}, body=request.body)

    def _keys(self) -> Any:  # noqa: ANN401 - botocore has no types
        given = self._properties
        if given.access_key_id:
            return Credentials(given.access_key_id, given.secret_access_key, given.session_token or None)
        try:
            if self._chain is None:
                self._chain = Session().get_credentials()
            if self._chain is None:
                raise Refused("signing with SigV4: no AWS credentials found; set s3.access-key-id and s3.secret-access-key")
            frozen = self._chain.get_frozen_credentials()
        except BotoCoreError as error:
            raise RetryLater(f"signing with SigV4: AWS credentials are not to be had now: {type(error).__name__}") from None
        self._words.hide("chain", frozen.secret_key, frozen.token or "")
        return frozen


def _host(url: str) -> str:
    return urlsplit(url).netloc
