"""Times as people write them on a command line."""

from __future__ import annotations

import datetime
import re

from frazil.cli.session import fail
from frazil.kit.clock import Clock, SystemClock

TIME = "TIME"
"""The metavar of an option that takes one."""
_AGO = re.compile(r"(\d{1,9})(ms|s|m|h|d)")
_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def time_ms(text: str, flag: str, clock: Clock | None = None) -> int:
    """Unix milliseconds of an ISO 8601 time (without zone: UTC) or of so long ago (``90s``, ``15m``, ``2h``, ``7d``)."""
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return (clock or SystemClock()).now_ms() - int(ago[1]) * _MS[ago[2]]
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        fail(f"{flag} {text!r}: want a time like 2026-01-31T12:00:00Z, or how long ago: 15m, 2h, 7d")
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return round((moment - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) / datetime.timedelta(milliseconds=1))
