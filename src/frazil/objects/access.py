"""How to reach a cloud store: address, region, keys. Secrets never appear in a repr, so no log line can hold one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudKeys:
    """One set of credentials. ``expires_ms``: when they end (Unix milliseconds), None: never."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str = field(default="", repr=False)
    expires_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudAccess:
    """Everything about a bucket that its URL does not say. Empty fields: the standard AWS chain (variables, web identity,
    container, instance) decides."""

    endpoint: str = ""
    """``https://host:port`` of a store that is not AWS'."""
    region: str = ""
    access_key_id: str = ""
    secret_access_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)
    path_style: bool = True
    """``endpoint/bucket/key``; False: ``bucket.endpoint/key``."""
    allow_http: bool = False
    ca_file: str = ""
    """PEM file of a private certificate authority, trusted beside the system's."""
    renew: Callable[[], Awaitable[CloudKeys]] | None = None
    """Gives keys that end (vended credentials); asked again shortly before they do. Goes before the keys above."""
    check_conditions: bool = True
    """Before the first put, make sure that the store honours If-None-Match (F87). Needs the right to write ``.frazil/probe``."""
    deadline_ms: int = 15_000
    """For one request that moves few bytes; large ones get more (4 MB/s at least)."""


AWS_CHAIN = CloudAccess()
