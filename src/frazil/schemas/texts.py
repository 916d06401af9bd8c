"""Values that JSON can only carry as text: dates, times, UUIDs, bytes. Each function takes one exact form and raises Unfit else.

Results are what Arrow stores: days and microseconds since 1970-01-01 (UTC), microseconds since midnight, bytes.
"""

from __future__ import annotations

import re
from base64 import b64encode
from binascii import Error as Base64Error
from binascii import a2b_base64
from datetime import UTC, date, datetime, time

from frazil.schemas.unfit import Unfit

_CLOCK = r"(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,6}0*)?)?"
_FINE_CLOCK = r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{7,}"
_DAY = r"\d{4}-\d\d-\d\d"
_ZONE = r"(?:[Zz]|[+-](?:[01]\d|2[0-3])(?::?[0-5]\d)?)"

_match_date = re.compile(_DAY, re.ASCII).fullmatch
_match_time = re.compile(_CLOCK, re.ASCII).fullmatch
_match_fine_time = re.compile(_FINE_CLOCK, re.ASCII).fullmatch
_match_plain = re.compile(f"{_DAY}[Tt ]{_CLOCK}", re.ASCII).fullmatch
_match_zoned = re.compile(f"{_DAY}[Tt ]{_CLOCK}{_ZONE}", re.ASCII).fullmatch
_match_fine = re.compile(f"{_DAY}[Tt ]{_FINE_CLOCK}{_ZONE}?", re.ASCII).fullmatch
_match_uuid = re.compile(r"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}", re.ASCII).fullmatch

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_PLAIN = datetime(1970, 1, 1)  # noqa: DTZ001 - the zero of the zone-less timestamp type
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_MICROS_LOW = -62_135_596_800_000_000  # 0001-01-01T00:00:00
_MICROS_HIGH = 253_402_300_799_999_999  # 9999-12-31T23:59:59.999999

_DAY_FORM = "YYYY-MM-DD"
_TIME_FORM = "HH:MM[:SS[.ffffff]]"
_PLAIN_FORM = f"{_DAY_FORM}T{_TIME_FORM}"
_ZONED_FORM = f"{_PLAIN_FORM} with Z or ±HH:MM"


def date_days(text: str) -> int:
    """``YYYY-MM-DD`` to days since 1970-01-01."""
    if _match_date(text):
        try:
            return date.fromisoformat(text).toordinal() - _EPOCH_DAY
        except ValueError:
            raise Unfit("bad-text", "no such day", text) from None
    raise Unfit("bad-text", f"not a date {_DAY_FORM}", text)


def time_micros(text: str) -> int:
    """``HH:MM[:SS[.fraction]]`` to microseconds since midnight."""
    if _match_time(text):
        clock = time.fromisoformat(text)
        return ((clock.hour * 60 + clock.minute) * 60 + clock.second) * 1_000_000 + clock.microsecond
    if _match_fine_time(text):
        raise Unfit("not-exact", "finer than a microsecond", text)
    raise Unfit("bad-text", f"not a time {_TIME_FORM} (without zone)", text)


def timestamp_micros(text: str) -> int:
    """A date and a time without zone to microseconds since 1970-01-01T00:00:00."""
    if _match_plain(text):
        try:
            span = datetime.fromisoformat(text) - _EPOCH_PLAIN
        except ValueError:
            raise Unfit("bad-text", "no such day", text) from None
        return span.days * 86_400_000_000 + span.seconds * 1_000_000 + span.microseconds
    if _match_zoned(text):
        raise Unfit("zone", "has a time zone, the column has none (declare it timestamptz)", text)
    raise _not_a_timestamp(text, _PLAIN_FORM)


def timestamptz_micros(text: str) -> int:
    """A date, a time and a zone to microseconds since 1970-01-01T00:00:00Z."""
    if _match_zoned(text):
        try:
            span = datetime.fromisoformat(text if text[-1] != "z" else text.upper()) - _EPOCH
        except ValueError:
            raise Unfit("bad-text", "no such day", text) from None
        micros = span.days * 86_400_000_000 + span.seconds * 1_000_000 + span.microseconds
        if _MICROS_LOW <= micros <= _MICROS_HIGH:
            return micros
        raise Unfit("out-of-range", "outside the years 1 to 9999 in UTC", text)
    if _match_plain(text):
        raise Unfit("zone", "has no time zone, the column needs one (or declare it timestamp)", text)
    raise _not_a_timestamp(text, _ZONED_FORM)


def _not_a_timestamp(text: str, form: str) -> Unfit:
    """What to say about a text that is no timestamp of the column's kind."""
    if _match_fine(text):
        return Unfit("not-exact", "finer than a microsecond", text)
    return Unfit("bad-text", f"not a timestamp {form}", text)


def uuid_bytes(text: str) -> bytes:
    """The canonical 8-4-4-4-12 form, in either case, to 16 bytes."""
    if _match_uuid(text):
        return bytes.fromhex(text.replace("-", ""))
    raise Unfit("bad-text", "not a UUID in the form 8-4-4-4-12", text)


def base64_bytes(text: str) -> bytes:
    """Base64 of RFC 4648 §4, with padding, in the one form an encoder writes."""
    try:
        data = a2b_base64(text, strict_mode=True)
    except (Base64Error, ValueError):
        raise Unfit("bad-text", "not base64 (RFC 4648, with padding)", text) from None
    if b64encode(data).decode() != text:
        raise Unfit("bad-text", "not base64 as an encoder writes it (RFC 4648, with padding)", text)
    return data
