"""Warnings about what peers do. A peer can do it a million times, so only a few are written; the rest are counted."""

from __future__ import annotations

import logging

from frazil.kit.clock import Clock

log = logging.getLogger(__name__)

_EACH_MAX = 20
_INTERVAL_MS = 10_000
_TEXT_MAX = 500


class Complaints:
    """At most ``_EACH_MAX`` lines in each ``_INTERVAL_MS``; how many were left out is said with the next one that is written."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since_ms = clock.monotonic_ms()
        self._written = 0
        self._left_out = 0

    def warn(self, text: str) -> None:
        """Something a peer should not have done, at level warning. One line whatever the peer has put into ``text``."""
        self._write(logging.WARNING, text)

    def note(self, text: str) -> None:
        """Something a peer has done or been refused, at level info."""
        if log.isEnabledFor(logging.INFO):
            self._write(logging.INFO, text)

    def _write(self, level: int, text: str) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._since_ms >= _INTERVAL_MS:
            self._since_ms, self._written = now_ms, 0
        if self._written >= _EACH_MAX:
            self._left_out += 1
            return
        self._written += 1
        left_out, self._left_out = self._left_out, 0
        more = f" ({left_out} more such lines were left out)" if left_out else ""
        shown = text if text.isprintable() else text.encode("unicode_escape").decode("ascii")
        log.log(level, "%s%s", shown[:_TEXT_MAX], more)
