"""Change events in JSON: takes the row out of its envelope, byte for byte, and says what happened to it.

Debezium's: ``{"before": …, "after": …, "op": "c|r|u|d|t", …}``, bare or as the ``payload``
beside a ``schema``. The row itself is read by the decoder of the table, so numbers are as exact as anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from json import decoder
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from frazil.schemas.port import Reject, clip

DELETES: Final = frozenset({"d", "delete", "deleted", "remove", "removed"})
UPSERTS: Final = frozenset({"c", "r", "u", "create", "insert", "read", "update", "upsert", "i"})
TRUNCATE: Final = "t"
_BLANK: Final = re.compile(r"[ \t\n\r]*")
_decoder: Any = decoder
_scan: Callable[[str, int], tuple[object, int]] = _decoder.JSONDecoder().scan_once
_string: Callable[[str, int], tuple[str, int]] = _decoder.scanstring
ArrowArray: TypeAlias = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The rows of a slice without their envelopes.

    ``values``: for each input a row's bytes; null where there is none: a tombstone or a reject. ``operations``: the word of each event as
    it was written, null likewise.
    """

    values: ArrowArray
    operations: ArrowArray
    rejects: tuple[Reject, ...]


class _Bad(Exception):
    def __init__(self, code: str, why: str) -> None:
        super().__init__(why)
        self.code = code


def open_debezium(values: ArrowArray) -> Opened:
    """Events in Debezium's envelope."""
    return _open_all(values.to_pylist(), _debezium)


def is_delete(operations: ArrowArray) -> ArrowArray:
    """Whether each event takes its row away. Null operations do not."""
    compute: Any = pc
    return compute.fill_null(compute.is_in(compute.utf8_lower(operations), value_set=pa.array(sorted(DELETES))), False)  # noqa: FBT003 - Arrow's signature


def why_truncated() -> str:
    """What is said of a truncation."""
    return "op is t: the source table was truncated; delete the rows of this table on purpose, or make it anew"


def is_known(operations: ArrowArray) -> ArrowArray:
    """Whether each is a word for something that can be done; null is none."""
    compute: Any = pc
    return compute.is_in(compute.utf8_lower(operations), value_set=pa.array(sorted(DELETES | UPSERTS)))


def unwrapped(values: ArrowArray) -> ArrowArray:
    """Record keys in JSON as they are, those of Debezium's ``{"schema": …, "payload": {…}}`` without that; others stay for the decoder."""
    return pa.array([None if value is None else _payload_of(value) for value in values.to_pylist()], pa.binary())


def _open_all(values: Sequence[bytes | None], one: Callable[[bytes], tuple[bytes, str]]) -> Opened:
    rows: list[bytes | None] = [None] * len(values)
    operations: list[str | None] = [None] * len(values)
    rejects: list[Reject] = []
    for at, value in enumerate(values):
        if value is None:
            continue
        try:
            rows[at], operations[at] = one(value)
        except _Bad as bad:
            rejects.append(Reject(row=at, code=bad.code, why=clip(str(bad))))
    return Opened(values=pa.array(rows, pa.binary()), operations=pa.array(operations, pa.string()), rejects=tuple(rejects))


def _debezium(value: bytes) -> tuple[bytes, str]:
    text = _text(value)
    members = _members(text)
    if "payload" in members and "op" not in members:
        start, end = members["payload"].span
        text = text[start:end]
        members = _members(text)
    operation = _operation(members, "op")
    if operation == TRUNCATE:
        raise _Bad("operation", why_truncated())
    name = "before" if operation in DELETES else "after"
    found = members.get(name)
    if found is None or found.value is None:
        raise _Bad("no-row", f"op is {operation}, and there is no {name}: the event does not say which row")
    start, end = found.span
    return text[start:end].encode(), operation


def _payload_of(value: bytes) -> bytes:
    try:
        text = _text(value)
        members = _members(text)
    except _Bad:
        return value
    if "payload" not in members or "schema" not in members:
        return value
    start, end = members["payload"].span
    return text[start:end].encode()


def _operation(members: dict[str, _Member], field: str) -> str:
    found = members.get(field)
    if found is None:
        raise _Bad("no-operation", f"the event has no field {field!r} that says what happened to the row")
    if not isinstance(found.value, str):
        raise _Bad("operation", f"{field} is no text")
    word = found.value.lower()
    if word not in UPSERTS and word not in DELETES and word != TRUNCATE:
        raise _Bad("operation", f"{field} is {found.value!r}, which no operation is called")
    return word


@dataclass(frozen=True, slots=True)
class _Member:
    value: object
    span: tuple[int, int]


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise _Bad("not-utf8", str(error)) from error


def _members(text: str) -> dict[str, _Member]:
    """The members of an object with the place of each value. Values are parsed by the standard library, so this costs what a parse does."""
    found: dict[str, _Member] = {}
    try:
        at = _skip(text, 0)
        if text[at : at + 1] != "{":
            raise _Bad("not-an-object", "the document is not an object")
        at = _skip(text, at + 1)
        more = text[at : at + 1] != "}"
        while more:
            name, member, at = _member(text, at)
            if name in found:
                raise _Bad("duplicate-key", f"{name!r} is there twice")
            found[name] = member
            more = _expect(text, at, ",}") == ","
            at = _skip(text, at + 1) if more else at
        if _skip(text, at + 1) != len(text):
            raise ValueError("something after the end")
    except (ValueError, StopIteration, RecursionError) as error:
        raise _Bad("not-json", f"not one JSON document: {error}") from error
    return found


def _member(text: str, at: int) -> tuple[str, _Member, int]:
    """One member and where the mark behind it is."""
    _expect(text, at, '"')
    name, at = _string(text, at + 1)
    at = _skip(text, at)
    _expect(text, at, ":")
    start = _skip(text, at + 1)
    value, end = _scan(text, start)
    return name, _Member(value, (start, end)), _skip(text, end)


def _expect(text: str, at: int, marks: str) -> str:
    mark = text[at : at + 1]
    if not mark or mark not in marks:
        raise ValueError(f"want one of {marks} at character {at}")
    return mark


def _skip(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return at if match is None else match.end()
