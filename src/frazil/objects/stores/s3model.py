"""``s3model:memory:?mb_per_s=50&seed=7``: another store with the latencies and the bandwidth of S3, for measurements.

PUT p50 60 ms, p99 300 ms; GET p50 30 ms, p99 150 ms; log-normal, seeded. Options: ``mb_per_s`` for all transfers together,
``connection_mb_per_s`` for each, ``seed``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final
from urllib.parse import parse_qsl

from frazil.kit.chance import seeded_chance
from frazil.kit.errors import Refused
from frazil.kit.plugins import load_backend
from frazil.objects.faulty import S3_STANDARD, FaultyObjects
from frazil.objects.opening import ObjectDeps
from frazil.objects.port import ObjectStore

_OPTIONS: Final = ("mb_per_s", "connection_mb_per_s", "seed")


def open_store(url: str, deps: ObjectDeps) -> ObjectStore:
    """The store of the address behind ``s3model:``, slowed down. Raises Refused."""
    below, _, query = url.removeprefix("s3model:").partition("?")
    scheme, colon, _ = below.partition(":")
    options = dict(parse_qsl(query, keep_blank_values=True))
    numbers = {name: _number(url, name, text) for name, text in options.items()}
    if not colon or not scheme or scheme == "s3model":
        raise Refused(f"objects url {url!r}: write s3model:memory:?mb_per_s=50 or s3model:file:///path?seed=7")
    store: ObjectStore = load_backend("frazil.objects", scheme)(below, deps)
    plan = replace(
        S3_STANDARD,
        bytes_per_s=numbers.get("mb_per_s", 0.0) * 1e6,
        connection_bytes_per_s=numbers.get("connection_mb_per_s", 0.0) * 1e6,
    )
    return FaultyObjects(store, seeded_chance(int(numbers.get("seed", 0))), plan)


def _number(url: str, name: str, text: str) -> float:
    if name not in _OPTIONS:
        raise Refused(f"objects url {url!r}: unknown option {name!r}; known: {', '.join(_OPTIONS)}")
    try:
        return float(text)
    except ValueError:
        raise Refused(f"objects url {url!r}: {name} is a number, not {text!r}") from None
