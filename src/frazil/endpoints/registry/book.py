"""What the registry does: register, find, compare, delete; over typed records of the metadata store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol

from frazil.endpoints.registry.problems import Problem, in_use, invalid_level, invalid_schema, no_schema, no_subject, no_version, still_live
from frazil.kit.errors import Conflict, Refused
from frazil.kit.tasks import Offload
from frazil.metadata.port import MetadataStore
from frazil.metadata.registered import (
    SCHEMA_BYTES_MAX,
    NewSchema,
    Subject,
    SubjectVersion,
    find_text,
    get_level,
    get_schema,
    get_subject,
    list_subjects,
    put_level,
    put_subject,
    register,
)
from frazil.schemas.compat import LEVELS, clashes
from frazil.schemas.framing import WriterSchema
from frazil.schemas.unfit import Unfit

KINDS: Final = ("AVRO", "JSON", "PROTOBUF")
DEFAULT_LEVEL: Final = "BACKWARD"
_REFERENCES_MAX: Final = 200
_TRIES_MAX: Final = 20


class TableEffects(Protocol):
    """Says what a schema would do to the tables that its topic lands in."""

    async def effects(self, subject: str, schema: WriterSchema) -> tuple[str, ...]:
        """One sentence per table; none: no table takes such values of the subject's topic."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a schema may be the next version, why not, and what it would do to tables."""

    compatible: bool
    messages: tuple[str, ...]
    effects: tuple[str, ...]


class Book:
    """See the module. Errors for clients are ``Problem``."""

    def __init__(self, store: MetadataStore, offload: Offload, effects: TableEffects | None = None) -> None:
        self._store = store
        self._offload = offload
        self._effects = effects

    # --- looking -----------------------------------------------------------------------------------------------------

    async def schema(self, schema_id: int) -> NewSchema:
        """The schema of an id. Raises Problem 40403."""
        found = await get_schema(self._store, schema_id)
        if found is None:
            raise no_schema()
        return found

    async def subjects(self, *, deleted: bool) -> tuple[Subject, ...]:
        """Subjects with versions; with ``deleted`` also those that have none left."""
        return tuple(one for one in await list_subjects(self._store) if one.live or (deleted and one.versions))

    async def subject(self, name: str, *, deleted: bool = False) -> Subject:
        """One of them. Raises Problem 40401."""
        found = await get_subject(self._store, name)
        if not (found.versions if deleted else found.live):
            raise no_subject(name)
        return found

    async def version(self, name: str, number: int | None, *, deleted: bool = False) -> SubjectVersion:
        """A version of a subject; None: the latest. Raises Problem 40401, 40402."""
        subject = await self.subject(name, deleted=deleted)
        versions = subject.versions if deleted else subject.live
        if number is None:
            return versions[-1]
        for version in versions:
            if version.version == number:
                return version
        raise no_version(number)

    async def find(self, name: str, schema: NewSchema, *, deleted: bool = False) -> SubjectVersion:
        """The version under which a subject has exactly this schema. Raises Problem 40401, 40403."""
        subject = await self.subject(name, deleted=deleted)
        schema_id = await find_text(self._store, canonical(schema))
        for version in subject.versions if deleted else subject.live:
            if version.schema_id == schema_id:
                return version
        raise no_schema()

    async def using(self, schema_id: int) -> tuple[tuple[str, int], ...]:
        """Subjects and versions that have this schema."""
        found = await list_subjects(self._store)
        return tuple((one.name, version.version) for one in found for version in one.live if version.schema_id == schema_id)

    async def referring(self, name: str, number: int) -> tuple[int, ...]:
        """Ids of the live schemas that refer to a version."""
        live = {version.schema_id for one in await list_subjects(self._store) for version in one.live}
        found = []
        for schema_id in sorted(live):
            schema = await self.schema(schema_id)
            if any((one.subject, one.version) == (name, number) for one in schema.references):
                found.append(schema_id)
        return tuple(found)

    # --- registering -------------------------------------------------------------------------------------------------

    async def register(self, name: str, schema: NewSchema) -> SubjectVersion:
        """The version of a schema under a subject, made when there is none. Raises Problem 409, 42201."""
        schema = canonical(schema)
        for _ in range(_TRIES_MAX):
            seen = await get_subject(self._store, name)
            known = await find_text(self._store, schema)
            if any(version.schema_id == known for version in seen.live):
                return next(version for version in seen.live if version.schema_id == known)
            why = await self._clashes(schema, seen, seen.live, await self.level(seen))
            if why:
                raise Problem(
                    409, f"Schema being registered is incompatible with an earlier schema for subject {name!r}: {'; '.join(why)[:2000]}"
                )
            try:
                return await register(self._store, name, schema, seen=seen)
            except Conflict:
                continue  # others registered there meanwhile: compare with theirs too
            except Refused as error:
                raise invalid_schema(str(error)) from error
        raise Problem(50001, f"subject {name!r} is changed all the time; try again")

    async def check(self, name: str, number: int | None, schema: NewSchema, *, every: bool = False) -> Verdict:
        """Whether ``schema`` may stand beside a version (None: the latest; ``every``: all that the level asks for)."""
        schema = canonical(schema)
        seen = await get_subject(self._store, name)
        level = await self.level(seen)
        if number is not None:
            versions: tuple[SubjectVersion, ...] = (await self.version(name, number),)
        else:
            versions = seen.live if every else seen.live[-1:]
        why = await self._clashes(schema, seen, versions, level)
        told = () if self._effects is None else await self._effects.effects(name, await self.resolved(schema))
        return Verdict(compatible=not why, messages=tuple(why), effects=told)

    async def resolved(self, schema: NewSchema) -> WriterSchema:
        """A schema with the texts it refers to, what is needed first. Raises Problem 42201."""
        texts: dict[tuple[str, str, int], str] = {}
        await self._gather(schema, texts, frozenset())
        return WriterSchema(kind=schema.kind, text=schema.text, references=tuple((key[0], text) for key, text in texts.items()))

    async def _gather(self, schema: NewSchema, texts: dict[tuple[str, str, int], str], above: frozenset[tuple[str, str, int]]) -> None:
        for one in schema.references:
            key = (one.name, one.subject, one.version)
            if key in texts:
                continue
            if key in above or len(texts) + len(above) >= _REFERENCES_MAX:
                raise invalid_schema(f"its references go in a circle or are more than {_REFERENCES_MAX}")
            version = next((v for v in (await get_subject(self._store, one.subject)).versions if v.version == one.version), None)
            if version is None:
                raise invalid_schema(f"it refers to {one.name}, version {one.version} of subject {one.subject}, which is not there")
            needed = await self.schema(version.schema_id)
            await self._gather(needed, texts, above | {key})
            texts[key] = needed.text

    async def _clashes(self, schema: NewSchema, subject: Subject, versions: tuple[SubjectVersion, ...], level: str) -> list[str]:
        new = await self.resolved(schema)
        older = [await self.resolved(await self.schema(version.schema_id)) for version in versions]
        try:
            # Also without older ones: a text that is no schema is never taken.
            broken = await self._offload.run(lambda: clashes("BACKWARD", new, [new]))
            return broken or await self._offload.run(lambda: clashes(level, new, older))
        except Unfit as verdict:
            raise invalid_schema(verdict.why) from verdict

    # --- levels ------------------------------------------------------------------------------------------------------

    async def level(self, subject: Subject | None = None) -> str:
        """The level that holds for a subject, or the registry's."""
        return (subject.level if subject is not None else "") or await get_level(self._store) or DEFAULT_LEVEL

    async def set_level(self, level: str, name: str | None) -> None:
        """Sets a subject's level (empty: takes it away) or the registry's. Raises Problem 42203."""
        if level not in LEVELS and (level or name is None):
            raise invalid_level(level)
        if name is None:
            await put_level(self._store, level)
            return
        for _ in range(_TRIES_MAX):
            seen = await get_subject(self._store, name)
            try:
                await put_subject(self._store, replace(seen, level=level), seen=seen)
            except Conflict:
                continue
            return
        raise Problem(50001, f"subject {name!r} is changed all the time; try again")

    # --- deleting ----------------------------------------------------------------------------------------------------

    async def delete(self, name: str, number: int | None, *, permanent: bool) -> tuple[int, ...]:
        """Deletes a version, or all; ``permanent``: those that were deleted before, for good. The schemas stay under their ids,
        as values name them. Raises Problem 40401, 40402, 40405, 42206.
        """
        for _ in range(_TRIES_MAX):
            seen = await self.subject(name, deleted=permanent)
            found = [one for one in (seen.versions if permanent else seen.live) if number is None or one.version == number]
            if not found:
                raise no_version(number)
            if permanent and any(not one.deleted for one in found):
                raise still_live(name)
            for one in found:
                if not permanent and await self.referring(name, one.version):
                    raise in_use(name, one.version)
            gone = {one.version for one in found}
            kept = (
                [one for one in seen.versions if one.version not in gone]
                if permanent
                else [replace(one, deleted=one.deleted or one.version in gone) for one in seen.versions]
            )
            try:
                await put_subject(self._store, replace(seen, versions=tuple(kept)), seen=seen)
            except Conflict:
                continue
            return tuple(sorted(gone))
        raise Problem(50001, f"subject {name!r} is changed all the time; try again")


def canonical(schema: NewSchema) -> NewSchema:
    """The schema as it is kept: JSON without blanks, Protobuf as it is. Raises Problem 42201."""
    if schema.kind not in KINDS:
        raise invalid_schema(f"schemaType {schema.kind[:40]!r}; use one of {', '.join(KINDS)}")
    if len(schema.text.encode()) > SCHEMA_BYTES_MAX:
        raise invalid_schema(f"more than {SCHEMA_BYTES_MAX} bytes; split it, and refer to its parts")
    if schema.kind == "PROTOBUF":
        return replace(schema, text=schema.text.strip() + "\n")
    try:
        form: object = json.loads(schema.text, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise invalid_schema(f"not JSON: {error}") from error
    text = json.dumps(form, separators=(",", ":"), ensure_ascii=False)
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise invalid_schema("a text in it has half a surrogate pair")
    return replace(schema, text=text)


def _once(pairs: list[tuple[str, object]]) -> Mapping[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has one key twice")
    return found
