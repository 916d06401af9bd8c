"""The loop that every client program runs: one request a line on stdin, one JSON answer a line on stdout.

A request is ``verb name=value …`` (no spaces in values); the answer is ``{"ok": …}`` or ``{"error": "Class: message"}``. The
programs in Go, JavaScript and Java do the same; tests/compat/README.md says what each verb must do.
"""

from __future__ import annotations

import hashlib
import json
import struct
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

Headers = Iterable[tuple[str, bytes | None]]
Verb = Callable[[dict[str, str]], Any]


def key_of(number: int) -> bytes | None:
    """Every tenth record has no key."""
    return None if number % 10 == 9 else b"k%010d" % number


def value_of(number: int) -> bytes:
    """A hundred bytes, all of them saying which record it is."""
    return b"%010d" % number * 10


def headers_of(number: int, client: str) -> list[tuple[str, bytes | None]]:
    return [("client", client.encode()), ("n", b"%d" % number)]


def numbers(request: dict[str, str]) -> Iterator[int]:
    return iter(range(int(request["count"])))


def sized(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def picture(offset: int, key: bytes | None, value: bytes | None, headers: Headers) -> bytes:
    """A record as bytes that every program writes alike: what the digest of a partition is taken over."""
    listed = list(headers)
    parts = [struct.pack(">q", offset), sized(key), sized(value), struct.pack(">i", len(listed))]
    for name, data in listed:
        parts += [sized(name.encode()), sized(data)]
    return b"".join(parts)


class Reading:
    """What one session of a consumer has read: per partition first offset, next offset, count, SHA-256."""

    def __init__(self, enough: int, seconds: float = 90.0) -> None:
        self.enough, self.count = enough, 0
        self._end = time.monotonic() + seconds
        self._lanes: dict[int, tuple[int, int, int, Any]] = {}

    @property
    def more(self) -> bool:
        return self.count < self.enough and time.monotonic() < self._end

    def add(self, partition: int, offset: int, key: bytes | None, value: bytes | None, headers: Headers) -> None:
        first, _, count, digest = self._lanes.get(partition) or (offset, 0, 0, hashlib.sha256())
        digest.update(picture(offset, key, value, headers))
        self._lanes[partition] = (first, offset + 1, count + 1, digest)
        self.count += 1

    def positions(self) -> dict[int, int]:
        """Partition → the offset to go on from."""
        return {partition: lane[1] for partition, lane in self._lanes.items()}

    def answer(self) -> dict[str, Any]:
        return {"partitions": {str(p): [first, end, count, digest.hexdigest()] for p, (first, end, count, digest) in self._lanes.items()}}


class Membership:
    """What a member of a group has seen until its time is over: its shares in turn, and the offsets it has read per partition."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._shares: list[list[int]] = []
        self._reads: dict[int, list[list[int]]] = {}

    @property
    def more(self) -> bool:
        return time.monotonic() < self._end

    def share(self, partitions: Iterable[int]) -> None:
        now = sorted(partitions)
        if not self._shares or self._shares[-1] != now:
            self._shares.append(now)

    def read(self, partition: int, offset: int) -> None:
        ranges = self._reads.setdefault(partition, [])
        if ranges and ranges[-1][1] == offset:
            ranges[-1][1] = offset + 1
        else:
            ranges.append([offset, offset + 1])

    def answer(self) -> dict[str, Any]:
        return {"shares": self._shares, "reads": {str(p): ranges for p, ranges in self._reads.items()}}


def loop(verbs: dict[str, Verb]) -> None:
    for line in sys.stdin:
        verb, *parts = line.split()
        try:
            answer: dict[str, Any] = {"ok": verbs[verb](dict(part.split("=", 1) for part in parts))}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)
