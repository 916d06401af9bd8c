"""What an answer of a catalog means, by its status; messages carry the server's own words and never a secret."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final

from frazil.catalogs.rest.http import Answer
from frazil.kit.clock import Clock
from frazil.kit.errors import Conflict, FrazilError, Missing, OutcomeUnknown, Refused, RetryLater

_UNAUTHORIZED: Final = frozenset({401, 419})
"""Sign in again, then once more. 419 is the protocol's "authentication timed out"."""
_ENDED: Final = re.compile(r"\b(token|jwt|credentials?)\b.{0,80}\b(expired|ended|invalid|revoked)\b", re.IGNORECASE | re.DOTALL)
"""What some gateways say with 403 when a token has ended (F64)."""
_BUSY: Final = frozenset({425, 429, 503})
_WORDS_MAX: Final = 600
_AFTER_MS: Final = 1_000
_AFTER_MS_MAX: Final = 600_000
_SECRET_LEAST: Final = 4
_MASK: Final = "********"


class Words:
    """Takes secrets out of texts. More come up on the way: tokens, vended keys."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets: dict[str, frozenset[str]] = {}
        self.hide("properties", *secrets)

    def hide(self, owner: str, *secrets: str) -> None:
        """From now on these do not pass, in place of what ``owner`` had before: the set does not grow for ever.

        Texts of fewer than four characters would mask everything and are left.
        """
        self._secrets[owner] = frozenset(secret for secret in secrets if len(secret) >= _SECRET_LEAST)

    def clean(self, text: str) -> str:
        """``text`` with each secret masked."""
        for secret in sorted({secret for found in self._secrets.values() for secret in found}, key=len, reverse=True):
            text = text.replace(secret, _MASK)
        return text


def error_of(answer: Answer, what: str, *, clock: Clock, words: Words, applying: bool) -> FrazilError:
    """The error of an answer that is not 2xx. ``applying``: a server error may come after the change was made (R16).

    503 counts as such too when it applies: proxies give it for a connection that broke after the request was passed on.
    """
    said = words.clean(server_words(answer))
    text = f"{what}: {said}" if said else f"{what}: status {answer.status} without a word"
    status = answer.status
    if status == 409:
        return Conflict(text)
    if status == 404:
        return Missing(text)
    if status in (408, *_BUSY) or status >= 500:
        after_ms = retry_after_ms(answer, clock)
        lost = applying and (status >= 500 or status == 408)
        return OutcomeUnknown(text, after_ms=after_ms) if lost else RetryLater(text, after_ms=after_ms)
    if 300 <= status < 400:
        place = answer.headers.get("location", "nowhere")[:200]
        return Refused(f"{what}: the catalog answers {status} (redirect to {place}); set its final address")
    return Refused(text)


def signed_out(answer: Answer) -> bool:
    """Whether the catalog did not accept the sign-in, so that a newer one may help."""
    return answer.status in _UNAUTHORIZED or (answer.status == 403 and bool(_ENDED.search(server_words(answer))))


def server_words(answer: Answer) -> str:
    """What the server says about an error, in the protocol's shape, OAuth2's shape or any text."""
    try:
        value: Any = json.loads(answer.body)
    except ValueError:
        value = None
    text = ""
    if isinstance(value, Mapping):
        error = value.get("error")
        if isinstance(error, Mapping):
            kind = str(error.get("type") or "")
            text = ": ".join(part for part in (kind, str(error.get("message") or "")) if part)
        elif error is not None:
            text = ": ".join(part for part in (str(error), str(value.get("error_description") or "")) if part)
        elif "message" in value:
            text = str(value["message"])
    if not text:
        text = answer.body[:_WORDS_MAX].decode("utf-8", "replace")
    text = " ".join(text.split())[:_WORDS_MAX]
    return f"{text} (status {answer.status})" if text else ""


def retry_after_ms(answer: Answer, clock: Clock) -> int:
    """The Retry-After header (seconds or a date, RFC 9110 §10.2.3) in milliseconds, bounded; a second when there is none."""
    text = answer.headers.get("retry-after", "").strip()
    if text.isdigit():
        return min(int(text) * 1000, _AFTER_MS_MAX)
    if text:
        try:
            at_ms = int(parsedate_to_datetime(text).timestamp() * 1000)
        except (ValueError, OverflowError):
            return _AFTER_MS
        return max(0, min(at_ms - clock.now_ms(), _AFTER_MS_MAX))
    return _AFTER_MS
