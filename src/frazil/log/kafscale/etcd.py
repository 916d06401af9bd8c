"""Reads a KafScale cluster's etcd through its JSON gateway (``/v3/kv/range``), which every etcd from 3.4 on has on its client port."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any, Final

import httpx

from frazil.kit.clock import Clock
from frazil.kit.errors import Corrupt, Refused, RetryLater
from frazil.log.kafscale.snapshot import SNAPSHOT_KEY, TOPICS_PREFIX, Known, parse_ends, parse_snapshot

_TIMEOUT_S: Final = 10.0
_PAGE: Final = 5_000
_ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024


class KafscaleEtcd:
    """Answers are kept for ``interval_ms``. ``endpoints`` are tried in turn."""

    def __init__(self, endpoints: Sequence[str], clock: Clock, *, username: str = "", password: str = "", interval_ms: int = 1_000) -> None:
        self._endpoints = [endpoint.rstrip("/") for endpoint in endpoints]
        self._clock, self._username, self._password, self._interval_ms = clock, username, password, interval_ms
        self._client = httpx.AsyncClient(timeout=_TIMEOUT_S)
        self._token = ""
        self._known: Known | None = None
        self._due_ms = float("-inf")

    async def read(self, topics: Sequence[str]) -> Known:
        """What etcd has of these topics. Raises RetryLater when none of the endpoints answers, Refused for a wrong password, Corrupt."""
        if self._known is not None and self._clock.monotonic_ms() < self._due_ms:
            return self._known
        snapshot = await self._range(SNAPSHOT_KEY, "")
        entries: list[tuple[str, bytes]] = []
        for topic in topics:
            prefix = f"{TOPICS_PREFIX}{topic}/partitions/"
            entries += await self._range(prefix, prefix[:-1] + "0")  # "0" comes after "/"
        partitions = parse_snapshot(snapshot[0][1]) if snapshot else {}
        self._known = Known(partitions={topic: partitions[topic] for topic in topics if topic in partitions}, ends=parse_ends(entries))
        self._due_ms = self._clock.monotonic_ms() + self._interval_ms
        return self._known

    async def close(self) -> None:
        """Ends the connections."""
        await self._client.aclose()

    async def _range(self, key: str, end: str) -> list[tuple[str, bytes]]:
        found: list[tuple[str, bytes]] = []
        while True:
            body = {"key": _encoded(key), "limit": str(_PAGE)} | ({"range_end": _encoded(end)} if end else {})
            answer = await self._post("/v3/kv/range", body)
            entries = [
                (_decoded(item.get("key", "")).decode("utf-8", "replace"), _decoded(item.get("value", ""))) for item in _items(answer)
            ]
            found += entries
            if not answer.get("more") or not entries or not end:
                return found
            key = entries[-1][0] + "\0"

    async def _post(self, path: str, body: dict[str, str]) -> dict[str, Any]:
        if self._username and not self._token:
            await self._sign_in()
        troubles = []
        for endpoint in list(self._endpoints):
            try:
                answer = await self._client.post(endpoint + path, json=body, headers={"Authorization": self._token} if self._token else {})
            except httpx.HTTPError as error:
                troubles.append(f"{endpoint}: {error!r}")
                self._endpoints.append(self._endpoints.pop(0))
                continue
            return self._checked(endpoint, answer)
        raise RetryLater(f"KafScale's etcd cannot be reached: {'; '.join(troubles)[:400]}")

    def _checked(self, endpoint: str, answer: httpx.Response) -> dict[str, Any]:
        if answer.status_code in (401, 403) or (answer.status_code == 400 and b"authentication failed" in answer.content):
            self._token = ""
            raise Refused(f"KafScale's etcd at {endpoint} does not let user {self._username!r} in: {answer.text[:200]}")
        if answer.status_code != 200 or len(answer.content) > _ANSWER_BYTES_MAX:
            raise RetryLater(
                f"KafScale's etcd at {endpoint} answers {answer.status_code}, {len(answer.content)} bytes: {answer.text[:200]}"
            )
        try:
            found = answer.json()
        except ValueError as error:
            raise Corrupt(f"not JSON: {error}", where=f"{endpoint}/v3") from error
        if not isinstance(found, dict):
            raise Corrupt("not a JSON object", where=f"{endpoint}/v3")
        return found

    async def _sign_in(self) -> None:
        body = {"name": self._username, "password": self._password}
        for endpoint in self._endpoints:
            try:
                answer = await self._client.post(f"{endpoint}/v3/auth/authenticate", json=body)
            except httpx.HTTPError:
                continue
            self._token = str(self._checked(endpoint, answer).get("token", ""))
            return
        raise RetryLater("KafScale's etcd cannot be reached to sign in")


def _items(answer: dict[str, Any]) -> list[dict[str, Any]]:
    items = answer.get("kvs") or []
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _encoded(key: str) -> str:
    return base64.b64encode(key.encode()).decode()


def _decoded(text: object) -> bytes:
    try:
        return base64.b64decode(str(text), validate=True)
    except binascii.Error as error:
        raise Corrupt(f"not base64: {error}", where="etcd") from error
