"""Objects in a bucket of S3 or of a store that speaks like it, through obstore.

obstore's own retries are off (R25): a PUT that is repeated inside would hide a lost answer and meet its own object (F87). Deadlines,
retries of what may be repeated and the second GET when the first is slow are here. A PUT is sent once: whoever names the object
decides what a lost answer means.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from frazil.kit.errors import Conflict, Corrupt, OutcomeUnknown, Refused, RetryLater
from frazil.kit.hedge import Hedge, hedged
from frazil.objects.access import CloudAccess, CloudKeys
from frazil.objects.keys import RESERVED, Data, buffers, check_key, check_prefix
from frazil.objects.opening import ObjectDeps
from frazil.objects.port import ObjectInfo, ObjectStore
from frazil.objects.s3errors import Call, meaning, status_of

if TYPE_CHECKING:
    from obstore.store import ClientConfig, S3Config  # exist for type checkers only

T = TypeVar("T")

OBJECT_BYTES_MAX: Final = 5 * 1024**3
"""S3's limit for one PUT. Multipart uploads are not used: they cannot be made to depend on If-None-Match in obstore."""
_TRIES: Final = 4
_FIRST_PAUSE_MS: Final = 50.0
_SLOWEST_BYTES_PER_MS: Final = 4096
_PAGE: Final = 1000
_DELETE_AT_ONCE: Final = 1000
_PROBE: Final = f"{RESERVED}/probe"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Bucket and prefix of an ``s3://`` address."""

    bucket: str
    prefix: str
    """Without slashes at its ends; may be empty."""

    def address(self, key: str) -> str:
        """``s3://bucket/prefix/key``, not percent-encoded: Iceberg readers take such paths literally."""
        return f"s3://{self.bucket}/{self.prefix}/{key}" if self.prefix else f"s3://{self.bucket}/{key}"


class CloudObjects(ObjectStore):
    """Objects under a prefix of one bucket."""

    def __init__(self, place: Place, deps: ObjectDeps) -> None:
        """Reads the CA file, if one is named; makes no request. Raises Refused when the access makes no sense."""
        self._place = place
        self._access = deps.access
        self._clock = deps.clock
        self._chance = deps.chance
        self._mid_put = deps.mid_put
        self._endpoint = deps.access.endpoint or "AWS"
        self._store = _open(place, deps.access)
        self._ordered = not deps.access.endpoint or urlsplit(deps.access.endpoint).netloc.endswith(".amazonaws.com")
        self._honest = not deps.access.check_conditions
        self._asking = asyncio.Lock()
        self.gets = Hedge()
        """Second GETs: how many were sent, how many won."""

    def uri(self, key: str) -> str:
        """``s3://bucket/prefix/key``."""
        check_key(key)
        return self._place.address(key)

    async def put_if_absent(self, key: str, data: Data) -> None:
        """See ``ObjectStore.put_if_absent``. Sent once; raises OutcomeUnknown when no answer came in time."""
        check_key(key)
        views = buffers(data)
        size = sum(len(view) for view in views)
        if size > OBJECT_BYTES_MAX:
            raise Refused(f"object {key}: {size} bytes, and S3 takes {OBJECT_BYTES_MAX} in one PUT; lower the size settings")
        if not self._honest:
            await self._check_conditions()
        await self._put(key, views[0] if len(views) == 1 else b"".join(views), self._mid_put)

    async def get(self, key: str, *, start: int = 0, end: int | None = None) -> bytes:
        """See ``ObjectStore.get``."""
        check_key(key)
        if start < 0 or (end is not None and end < start):
            raise Refused(f"object {key}: no byte range [{start}, {end})")
        return await self._patiently(lambda: self._get(key, start, end))

    async def list(self, prefix: str) -> AsyncIterator[ObjectInfo]:
        """See ``ObjectStore.list``. AWS lists in key order, and a listing that breaks goes on behind the last object it gave.

        Other stores may list in the order of their directories (SeaweedFS does: ``b/a`` before ``b-``); theirs is read whole and
        sorted first.
        """
        check_prefix(prefix)
        if not self._ordered:
            for info in await self._patiently(partial(self._list_whole, prefix)):
                yield info
            return
        call, after, tries = self._call("LIST", prefix), _just_before(prefix), _Tries(self)
        while True:
            pages = self._pages(prefix, after)
            try:
                while (page := await self._page(call, pages)) is not None:
                    for info in page:
                        after = info.key
                        if info.key.startswith(prefix):
                            yield info
                        elif info.key > prefix:
                            return
                    tries.restart()
                return
            except RetryLater as error:
                await tries.after(error)

    async def _list_whole(self, prefix: str) -> Sequence[ObjectInfo]:
        call = self._call("LIST", prefix)
        pages, found = self._pages(prefix, None), list[ObjectInfo]()
        while (page := await self._page(call, pages)) is not None:
            found += [info for info in page if info.key.startswith(prefix)]
        return sorted(found, key=lambda info: info.key)

    def _pages(self, prefix: str, after: str | None) -> Any:  # noqa: ANN401 - obstore names no type for it at run time
        return obstore.list(self._store, prefix=prefix.rpartition("/")[0] or None, offset=after, chunk_size=_PAGE)

    async def delete(self, keys: Sequence[str]) -> None:
        """See ``ObjectStore.delete``."""
        for key in keys:
            check_key(key)
        for at in range(0, len(keys), _DELETE_AT_ONCE):
            some = list(keys[at : at + _DELETE_AT_ONCE])
            call = self._call("DELETE", some[0])
            await self._patiently(partial(self._delete, call, some))

    async def _delete(self, call: Call, keys: Sequence[str]) -> None:
        await self._within(call, obstore.delete_async(self._store, keys), len(keys) * 1024)

    async def _put(self, key: str, data: bytes | memoryview, mid_put: Callable[[str], None] | None) -> None:
        call = self._call("PUT", key)
        sent = obstore.put_async(self._store, key, data, mode="create", use_multipart=False)
        if mid_put is not None:
            mid_put(key)  # the request is on its way
        await self._within(call, sent, len(data))

    async def _get(self, key: str, start: int, end: int | None) -> bytes:
        call = self._call("GET", key)
        if start == end:
            await self._within(call, obstore.head_async(self._store, key), 0)
            return b""
        wanted: Any = None if start == 0 and end is None else {"range": {"offset": start} if end is None else (start, end)}
        try:
            found = await hedged(self.gets, self._clock, lambda _: self._answer(call, key, wanted))
        except _PastTheEnd:
            return b""
        first, last = found.range
        data = bytes(await self._within(call, found.bytes_async(), last - first))
        if len(data) != last - first:
            raise Corrupt(f"{len(data)} bytes came of the {last - first} that were announced", where=call.address)
        return data

    async def _answer(self, call: Call, key: str, wanted: Any) -> Any:  # noqa: ANN401 - types of obstore that exist for checkers only
        """The head of the answer to a GET; its bytes come later."""
        return await self._within(call, obstore.get_async(self._store, key, options=wanted), 0)

    async def _page(self, call: Call, pages: Any) -> Sequence[ObjectInfo] | None:  # noqa: ANN401 - obstore names no type for it at run time
        """The next page without the store's own objects; None after the last."""
        try:
            page: Sequence[Any] = await self._within(call, pages.__anext__(), 0)
        except StopAsyncIteration:
            return None
        return [
            ObjectInfo(key=meta["path"], size_bytes=meta["size"], modified_ms=int(meta["last_modified"].timestamp() * 1000))
            for meta in page
            if not meta["path"].startswith(f"{RESERVED}/")
        ]

    async def _within(self, call: Call, work: Any, size: int) -> Any:  # noqa: ANN401 - an awaitable of obstore: a coroutine or a future
        """The result of ``work`` within its deadline, errors as ours."""
        try:
            async with asyncio.timeout(self._access.deadline_ms / 1000 + size / _SLOWEST_BYTES_PER_MS / 1000):
                return await work
        except (BaseError, FileNotFoundError, TimeoutError, ValueError) as error:
            if call.verb == "GET" and status_of(error) == 416:
                raise _PastTheEnd from None
            raise meaning(call, error) from None  # obstore's text repeats the request at length

    async def _patiently(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The result of ``work``, which may be repeated without harm."""
        tries = _Tries(self)
        while True:
            try:
                return await work()
            except RetryLater as error:
                await tries.after(error)

    async def pause(self, tried: int, after_ms: float) -> None:
        """Longer each time and never the same twice, so that clients do not come back together."""
        await asyncio.sleep(max(after_ms, _FIRST_PAUSE_MS * 2**tried) * (0.5 + self._chance.random()) / 1000)

    async def _check_conditions(self) -> None:
        """Puts an object that is there: a store that does not mind ignores If-None-Match and would overwrite (F87)."""
        async with self._asking:
            if self._honest:
                return
            for _ in range(2):  # the first process ever makes the object with its first try
                try:
                    await self._put(_PROBE, b"Frazil asks whether this store honours If-None-Match\n", None)
                except (Conflict, OutcomeUnknown) as error:
                    self._honest = isinstance(error, Conflict)
                    if self._honest:
                        return
                    raise RetryLater(f"the store did not say whether it honours If-None-Match: {error}") from error
        raise Refused(
            f"{self._place.address(_PROBE)}: the store at {self._endpoint} ignores If-None-Match on PUT, so it could overwrite data; "
            "use a store (or a version of it) that honours conditional writes"
        )

    def _call(self, verb: str, key: str) -> Call:
        return Call(verb=verb, address=self._place.address(key), bucket=self._place.bucket, endpoint=self._endpoint)


class _PastTheEnd(Exception):
    """Not an error: the range begins behind the object's last byte."""


class _Tries:
    """Counts the tries of one call."""

    def __init__(self, store: CloudObjects) -> None:
        self._store = store
        self._tried = 0

    def restart(self) -> None:
        """There was progress."""
        self._tried = 0

    async def after(self, error: RetryLater) -> None:
        """Waits before the next try; raises ``error`` when there have been enough."""
        self._tried += 1
        if self._tried >= _TRIES:
            raise error
        await self._store.pause(self._tried, error.after_ms)


def open_store(url: str, deps: ObjectDeps) -> ObjectStore:
    """The store for ``s3://bucket/prefix``. Raises Refused."""
    parts = urlsplit(url)
    prefix = unquote(parts.path).strip("/")
    if parts.scheme != "s3" or not parts.netloc or parts.query or parts.fragment or "@" in parts.netloc or ":" in parts.netloc:
        raise Refused(f"objects url {url!r}: write s3://bucket/prefix; endpoint, region and keys are settings of their own (s3.…)")
    if prefix:
        check_key(prefix)
    return CloudObjects(Place(bucket=parts.netloc, prefix=prefix), deps)


def _open(place: Place, access: CloudAccess) -> S3Store:
    if bool(access.access_key_id) != bool(access.secret_access_key):
        raise Refused("s3.access_key_id and s3.secret_access_key go together: set both, or neither")
    try:
        user = urlsplit(access.endpoint).username
    except ValueError as error:
        raise Refused(f"s3.endpoint: it is no address: {error}") from None
    if user is not None:
        raise Refused("s3.endpoint: it holds a user or password; use s3.access_key_id and s3.secret_access_key")
    if access.endpoint.startswith("http://") and not access.allow_http:
        raise Refused(f"s3.endpoint {access.endpoint} is not encrypted; use https, or set s3.allow_http when that is wanted")
    config: S3Config = {"conditional_put": "etag", "virtual_hosted_style_request": not access.path_style}
    if access.endpoint:
        config["endpoint"] = access.endpoint
    if access.region:
        config["region"] = access.region
    client: ClientConfig = {"allow_http": access.allow_http, "connect_timeout": "5s", "timeout": "1h"}  # deadlines are ours
    if access.ca_file:
        client["root_certificate"] = _certificate(access.ca_file)
    try:
        return S3Store(
            place.bucket,
            prefix=place.prefix or None,
            config=config,
            client_options=client,
            retry_config={"max_retries": 0, "retry_timeout": timedelta(0)},
            credential_provider=_provider(access),
        )
    except (BaseError, ValueError) as error:
        raise Refused(f"s3://{place.bucket}: {str(error).partition(chr(10))[0]}; check the s3 settings") from None


def _provider(access: CloudAccess) -> Any:  # noqa: ANN401 - obstore's protocol for credential providers is a type-checking name only
    """Keys that were given, so that no variable of the environment mixes with them; None leaves all to the AWS chain."""
    renew = access.renew
    if renew is not None:

        async def renewed() -> dict[str, Any]:
            return _as_obstore(await renew())

        return renewed
    if not access.access_key_id:
        return None
    keys = CloudKeys(access_key_id=access.access_key_id, secret_access_key=access.secret_access_key, session_token=access.session_token)
    return lambda: _as_obstore(keys)


def _as_obstore(keys: CloudKeys) -> dict[str, Any]:
    return {
        "access_key_id": keys.access_key_id,
        "secret_access_key": keys.secret_access_key,
        "token": keys.session_token or None,
        "expires_at": None if keys.expires_ms is None else datetime.fromtimestamp(keys.expires_ms / 1000, UTC),
    }


def _certificate(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise Refused(f"s3.ca_file {path}: {error.strerror}") from error


def _just_before(prefix: str) -> str | None:
    """A key below every key that starts with ``prefix`` and above nearly all others: where a listing starts."""
    if not prefix or prefix.endswith("/") or not prefix.isascii() or prefix[-1] <= "0":
        return None  # the whole directory is wanted, or the arithmetic is not worth it
    return f"{prefix[:-1]}{chr(ord(prefix[-1]) - 1)}~~~"
