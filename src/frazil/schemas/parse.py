"""Bytes of a value to one JSON object, by RFC 8259 and nothing more lenient.

Two roads. ``read_exact`` decides: it names the fault. ``read_quick`` is for the many good records: the same scanner, the
numbers already made Python numbers, and None whenever anything at all is unusual; then ``read_exact`` is asked. The quick
road never accepts what the exact road rejects; a double has lost its digits there, so columns that need them fall back too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TypeAlias

from frazil.schemas.numbers import LITERAL_CHARACTERS_MAX, Literal, read_int
from frazil.schemas.port import DecodeOptions, clip
from frazil.schemas.unfit import Unfit, show

Document: TypeAlias = dict[str, object]
ReadQuick: TypeAlias = Callable[[bytes], Document | None]

_BLANKS = " \t\n\r"
_NOT_BRACKETS = bytes(sorted(set(range(256)) - set(b"[]{}")))
_has_surrogate_escape = re.compile(rb"\\u[dD][89A-Fa-f]").search
_NAME_CHARACTERS_SHOWN = 60


def _unique(pairs: list[tuple[str, object]]) -> Document:
    """An object from its pairs; a key may come once (RFC 8259 §4 leaves the rest to us, and a guess would lose a value)."""
    document = dict(pairs)
    if len(document) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise Unfit("duplicate-key", f"the key {clip(key, _NAME_CHARACTERS_SHOWN)!r} comes twice in one object")
            seen.add(key)
    return document


def _no_constant(word: str) -> object:
    """NaN, Infinity and -Infinity are not JSON."""
    raise Unfit("not-json", f"{word} is not a JSON value")


_exact_scanner = json.JSONDecoder(object_pairs_hook=_unique, parse_float=Literal, parse_int=read_int, parse_constant=_no_constant)


def read_exact(value: bytes, options: DecodeOptions) -> Document:
    """The object that ``value`` is, numbers as int or Literal. Raises Unfit with the reason else."""
    if len(value) > options.value_bytes_max:
        raise Unfit("too-large", f"{len(value)} bytes, more than {options.value_bytes_max}")
    try:
        text = value.decode()
    except UnicodeDecodeError as error:
        raise Unfit("not-utf8", f"byte {error.start} is not UTF-8 ({error.reason})") from None
    text = text.strip(_BLANKS)
    if not text:
        raise Unfit("empty", "no JSON in it")
    if text[0] == "\ufeff":
        raise Unfit("not-json", "begins with a byte order mark")
    if _is_deeper(value, options.depth_max):
        raise Unfit("too-deep", f"nested deeper than {options.depth_max}")
    document = _scan(text)
    if type(document) is not dict:
        raise Unfit("not-an-object", f"the document is {show(document)}, not an object")
    if _has_surrogate_escape(value):
        _check_surrogates(document)
    return document


def _scan(text: str) -> object:
    """The one document in ``text``."""
    try:
        document, end = _exact_scanner.raw_decode(text)
    except json.JSONDecodeError as error:
        raise Unfit("not-json", f"{error.msg} at character {error.pos}") from None
    if end != len(text):
        raise Unfit("not-json", f"more after the document, at character {end}")
    return document


def _is_deeper(value: bytes, limit: int) -> bool:
    """Whether brackets outside strings nest deeper than ``limit``, anywhere a scanner could get to.

    In the part a scanner gets through, backslashes come only in strings and pair from the left; so taking out pairs, then
    escaped quotes, leaves only quotes that open or close a string.
    """
    if value.count(b"[") + value.count(b"{") <= limit:
        return False
    outside = value.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2]
    depth = 0
    for bracket in b"".join(outside).translate(None, _NOT_BRACKETS):
        if bracket in b"[{":
            depth += 1
            if depth > limit:
                return True
        else:
            depth -= 1
    return False


def _check_surrogates(document: object) -> None:
    """Refuses text that has no UTF-8 form: half of a surrogate pair, in a value or a key."""
    try:
        json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise Unfit("lone-surrogate", "a \\u escape names half of a surrogate pair") from None


def quick_reader(options: DecodeOptions, *, keep_text: bool) -> ReadQuick:
    """The quick road. ``keep_text``: keep numbers with point or exponent as Literal (some column is a decimal)."""
    scanner = json.JSONDecoder(object_pairs_hook=_unique, parse_float=Literal if keep_text else None, parse_constant=_no_constant)
    scan = scanner.raw_decode
    bytes_max = min(LITERAL_CHARACTERS_MAX, options.value_bytes_max)
    depth_max = options.depth_max

    def read_quick(value: bytes) -> Document | None:
        if len(value) > bytes_max or value.count(b"{") + value.count(b"[") > depth_max:
            return None
        if b"\\u" in value and _has_surrogate_escape(value):
            return None
        try:
            text = value.decode().strip(_BLANKS)
            document, end = scan(text)
        except (ValueError, Unfit):
            return None
        return document if end == len(text) and type(document) is dict else None

    return read_quick
