"""How many files and connections this process may have open."""

from __future__ import annotations

import resource

_WANTED = 65_536
_RESERVED = 192
"""Kept from connections: stores, logs, and files that are written while every connection is taken."""
_CONNECTIONS_LEAST = 16


def connections_allowed(wanted: int = 10_000) -> int:
    """Raises the process's own limit as far as the system lets it; how many of ``wanted`` connections then leave room for files.

    Without that room one crowd of idle clients would keep the broker from writing objects.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    goal = _WANTED if hard == unlimited else min(_WANTED, hard)
    if soft != unlimited and soft < goal:
        resource.setrlimit(resource.RLIMIT_NOFILE, (goal, hard))
        soft = goal
    return wanted if soft == unlimited else max(_CONNECTIONS_LEAST, min(wanted, soft - _RESERVED))
