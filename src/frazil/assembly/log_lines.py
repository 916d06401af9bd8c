"""Log lines: one format, on stderr, level by setting."""

from __future__ import annotations

import logging

from frazil.kit.errors import Refused

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

_CHATTY = ("asyncio", "httpx", "httpcore", "botocore")
"""A line per request, and at debug level headers with tokens: never shown."""


def set_up_logging(level: str) -> None:
    """Sends log lines to stderr. Raises Refused for an unknown level."""
    if level not in _LEVELS:
        raise Refused(f"log_level {level!r}: want one of {', '.join(_LEVELS)}")
    logging.basicConfig(level=_LEVELS[level], format="%(asctime)s %(levelname)s %(name)s: %(message)s", force=True)
    for chatty in _CHATTY:
        logging.getLogger(chatty).setLevel(logging.WARNING)
