"""Schemas that were registered: by id, by subject and version, and how a subject's versions must agree. Typed records over the port.

``registry/schemas/{id}`` holds a schema for ever; ``registry/subjects/{subject}`` its versions; ``registry/texts/{hash}`` finds the id of
a text that was registered before; ``registry/next`` gives ids. A registration is one transaction, so an id is never given twice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from frazil.kit.errors import Conflict, Refused
from frazil.metadata.change import settle
from frazil.metadata.opening import prefix_end, read_one
from frazil.metadata.port import Entry, MetadataStore, Write
from frazil.metadata.values import decode, encode

SCHEMAS: Final = "registry/schemas/"
SUBJECTS: Final = "registry/subjects/"
TEXTS: Final = "registry/texts/"
NEXT: Final = "registry/next"
LEVEL: Final = "registry/level"
SCHEMA_BYTES_MAX: Final = 400_000
"""A schema is one value of the store, with room for what goes with it."""
VERSIONS_MAX: Final = 5_000
ID_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaReference:
    """What a schema calls another one, and where that is."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSchema:
    """A schema to register. ``kind``: AVRO, JSON or PROTOBUF."""

    kind: str
    text: str
    references: tuple[SchemaReference, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectVersion:
    """One version of a subject; ``deleted`` ones keep their number and may be asked for by those who insist."""

    version: int
    schema_id: int
    deleted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The versions of one subject, ascending, and its own level of compatibility (empty: the registry's)."""

    name: str
    versions: tuple[SubjectVersion, ...] = ()
    level: str = ""
    last: int = 0
    """The highest number a version ever had; none is given twice."""

    @property
    def live(self) -> tuple[SubjectVersion, ...]:
        """Those that are not deleted."""
        return tuple(version for version in self.versions if not version.deleted)


async def get_schema(store: MetadataStore, schema_id: int) -> NewSchema | None:
    """The schema of an id. Raises RetryLater, Corrupt."""
    if not 0 < schema_id <= ID_MAX:
        return None
    entry = await read_one(store, f"{SCHEMAS}{schema_id:010d}")
    return _schema(entry) if entry.version else None


async def find_text(store: MetadataStore, schema: NewSchema) -> int | None:
    """The id of exactly this schema, when it was registered before. Raises RetryLater."""
    entry = await read_one(store, TEXTS + _hash(schema))
    return decode(entry.value, where=entry.key).number("id") if entry.version else None


async def get_subject(store: MetadataStore, name: str) -> Subject:
    """One subject; without versions when it was never seen. Raises RetryLater."""
    return _subject(name, await read_one(store, SUBJECTS + name))


async def list_subjects(store: MetadataStore) -> tuple[Subject, ...]:
    """All subjects, by name. Raises RetryLater."""
    found = await store.range(SUBJECTS, prefix_end(SUBJECTS))
    return tuple(_subject(entry.key.removeprefix(SUBJECTS), entry) for entry in found.entries)


async def register(store: MetadataStore, name: str, schema: NewSchema, *, seen: Subject) -> SubjectVersion:
    """The schema's version under the subject, made when there is none.

    ``seen``: the subject as it was checked against. Raises Conflict when others registered there meanwhile (check again), Refused above
    the bounds, RetryLater.
    """
    if len(schema.text.encode()) > SCHEMA_BYTES_MAX:
        raise Refused(f"a schema of more than {SCHEMA_BYTES_MAX} bytes; split it, and refer to its parts")
    subject_key, text_key = SUBJECTS + name, TEXTS + _hash(schema)
    done: list[SubjectVersion] = []

    def decide(entries: Mapping[str, Entry]) -> list[Write]:
        now = _subject(name, entries[subject_key])
        text = entries[text_key]
        known = decode(text.value, where=text.key).number("id") if text.version else None
        found = next((version for version in now.live if version.schema_id == known), None)
        if found is not None:
            done[:] = [found]
            return []
        if now.live != seen.live:
            raise Conflict(f"subject {name} was changed meanwhile")
        if len(now.versions) >= VERSIONS_MAX:
            raise Refused(f"subject {name} has {VERSIONS_MAX} versions; delete old ones for good (permanent=true)")
        counter = entries[NEXT]
        fresh = decode(counter.value, where=counter.key).number("next") if counter.version else 1
        version = SubjectVersion(version=now.last + 1, schema_id=fresh if known is None else known)
        done[:] = [version]
        grown = replace(now, versions=(*now.versions, version), last=version.version)
        writes = [Write(key=subject_key, value=_encode(grown))]
        if known is None:
            writes += [
                Write(key=NEXT, value=encode({"next": fresh + 1})),
                Write(key=text_key, value=encode({"id": fresh})),
                Write(key=f"{SCHEMAS}{fresh:010d}", value=_encode_schema(schema)),
            ]
        return writes

    await settle(store, (subject_key, text_key, NEXT), decide)
    return done[0]


async def put_subject(store: MetadataStore, subject: Subject, *, seen: Subject) -> None:
    """Replaces a subject that still is as it was ``seen``. Raises Conflict, RetryLater."""
    key = SUBJECTS + subject.name

    def decide(entries: Mapping[str, Entry]) -> list[Write]:
        now = _subject(subject.name, entries[key])
        if now == subject:
            return []
        if now != seen:
            raise Conflict(f"subject {subject.name} was changed meanwhile")
        return [Write(key=key, value=_encode(subject))]

    await settle(store, (key,), decide)


async def get_level(store: MetadataStore) -> str:
    """The registry's level of compatibility; empty when nobody set one. Raises RetryLater."""
    entry = await read_one(store, LEVEL)
    return decode(entry.value, where=entry.key).text("level") if entry.version else ""


async def put_level(store: MetadataStore, level: str) -> None:
    """Sets the registry's level. Raises RetryLater."""
    value = encode({"level": level})
    await settle(store, (LEVEL,), lambda entries: [] if entries[LEVEL].value == value else [Write(key=LEVEL, value=value)])


def _hash(schema: NewSchema) -> str:
    references = [[one.name, one.subject, one.version] for one in schema.references]
    return hashlib.sha256(json.dumps([schema.kind, schema.text, references]).encode()).hexdigest()


def _encode_schema(schema: NewSchema) -> bytes:
    references = [json.dumps([one.name, one.subject, one.version]) for one in schema.references]
    return encode({"kind": schema.kind, "text": schema.text, "references": references})


def _schema(entry: Entry) -> NewSchema:
    fields = decode(entry.value, where=entry.key)
    references = [json.loads(text) for text in fields.texts("references")]
    return NewSchema(
        kind=fields.text("kind"),
        text=fields.text("text"),
        references=tuple(SchemaReference(name=name, subject=subject, version=version) for name, subject, version in references),
    )


def _encode(subject: Subject) -> bytes:
    versions = [f"{one.version} {one.schema_id} {int(one.deleted)}" for one in subject.versions]
    return encode({"versions": versions, "level": subject.level, "last": subject.last})


def _subject(name: str, entry: Entry) -> Subject:
    if not entry.version:
        return Subject(name=name)
    fields = decode(entry.value, where=entry.key)
    rows = [line.split(" ") for line in fields.texts("versions")]
    return Subject(
        name=name,
        versions=tuple(SubjectVersion(version=int(row[0]), schema_id=int(row[1]), deleted=row[2] == "1") for row in rows),
        level=fields.text("level"),
        last=fields.number("last"),
    )
