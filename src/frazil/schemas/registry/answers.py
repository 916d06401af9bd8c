"""What a registry's answers mean. Pure. A miss is told from an outage by the error code in the body, not by the status alone (F42)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from frazil.kit.errors import Refused, RetryLater

SCHEMA_NOT_FOUND: Final = 40403
NOT_FOUND: Final = (40401, 40402, SCHEMA_NOT_FOUND)
"""Subject, version or schema not found: the registry looked and there is none."""
_BUSY: Final = (408, 425, 429)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One HTTP answer."""

    status: int
    body: bytes
    retry_after: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A schema that another one needs: a version of a subject."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One schema without what it refers to."""

    kind: str
    text: str
    references: tuple[Reference, ...]


def by_id(schema_id: int) -> str:
    """The path of a schema by its id."""
    return f"schemas/ids/{schema_id}"


def by_reference(reference: Reference) -> str:
    """The path of a schema by subject and version, deleted ones included: records that need it are still in the log."""
    return f"subjects/{quote(reference.subject, safe='')}/versions/{reference.version}?deleted=true"


def read(answer: Answer, where: str) -> Entry | None:
    """The schema; None when the registry knows of none. Raises RetryLater for anything that may pass, Refused for what will not."""
    if answer.status == 200:
        return _entry(answer.body, where)
    if answer.status == 404 and _error_code(answer.body) in NOT_FOUND:
        return None
    if answer.status in (401, 403):
        raise Refused(f"schema registry {where}: access denied ({answer.status}); check registry.basic_auth, registry.token")
    if answer.status >= 500 or answer.status in _BUSY:
        wait_ms = min(60, int(answer.retry_after)) * 1000 if answer.retry_after.isdecimal() else 500
        raise RetryLater(f"schema registry {where}: answer {answer.status}", after_ms=wait_ms)
    # A 404 without the registry's own code is a proxy's, or a wrong path: calling records bad for that would be rash.
    raise Refused(f"schema registry {where}: answer {answer.status} is not one of a schema registry; check registry.url")


def _entry(body: bytes, where: str) -> Entry:
    try:
        fields: Any = json.loads(body)
        references = tuple(
            Reference(name=str(one["name"]), subject=str(one["subject"]), version=int(one["version"]))
            for one in fields.get("references") or ()
        )
        return Entry(kind=str(fields.get("schemaType") or "AVRO").upper(), text=_text(fields["schema"]), references=references)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RetryLater(f"schema registry {where}: an answer that is no schema ({type(error).__name__})", after_ms=500) from None


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    raise TypeError("schema is not a text")


def _error_code(body: bytes) -> int | None:
    try:
        fields: Any = json.loads(body)
    except (ValueError, RecursionError):
        return None
    code = fields.get("error_code") if isinstance(fields, dict) else None
    return code if isinstance(code, int) else None
