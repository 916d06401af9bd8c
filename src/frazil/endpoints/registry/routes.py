"""The API: paths and methods to what the book does, and its answers as JSON.

Confluent's Schema Registry API v1 as its documentation has it; beside it ``/frazil/effects/subjects/{subject}``: what a schema would do to
the tables. Modes other than READWRITE, contexts, data contracts and normalization are not there and are refused by name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from frazil.endpoints.http import HttpRequest, HttpResponse, json_response
from frazil.endpoints.registry.book import KINDS, Book, Verdict
from frazil.endpoints.registry.problems import Problem, invalid_schema, invalid_version, no_subject
from frazil.kit.errors import FrazilError, RetryLater
from frazil.metadata.registered import NewSchema, SchemaReference, Subject, SubjectVersion

TYPE: Final = "application/vnd.schemaregistry.v1+json"
_SUBJECT_CHARACTERS_MAX: Final = 249 + 6
_VERSION_MAX: Final = 2**31 - 1
_VERSION_DIGITS_MAX: Final = len(str(_VERSION_MAX))


class RegistryApi:
    """Answers requests. See the module."""

    def __init__(self, book: Book) -> None:
        self._book = book

    async def answer(self, request: HttpRequest) -> HttpResponse:
        """One answer; what is wrong with a request is one too."""
        try:
            return json_response(200, await self._route(request), TYPE)
        except Problem as problem:
            return json_response(problem.status, {"error_code": problem.code, "message": problem.message}, TYPE)
        except RetryLater as error:
            return json_response(503, {"error_code": 50301, "message": f"the metadata store does not answer: {error}"}, TYPE)
        except FrazilError as error:
            return json_response(500, {"error_code": 50001, "message": str(error)}, TYPE)

    async def _route(self, request: HttpRequest) -> object:
        match request.method, *request.path:
            case "GET", "":
                return {}
            case "GET", "schemas", *rest:
                return await self._schemas(rest, request)
            case _, "subjects", *rest:
                return await self._subjects(request.method, rest, request)
            case "POST", "compatibility", "subjects", name, "versions", *rest if len(rest) <= 1:
                return await self._compatibility(name, rest, request)
            case "POST", "frazil", "effects", "subjects", name:
                verdict = await self._book.check(_subject(name), None, _schema(request), every=True)
                return {"is_compatible": verdict.compatible, "messages": verdict.messages, "effects": verdict.effects}
            case method, "config", *rest if len(rest) <= 1:
                return await self._config(method, _subject(rest[0]) if rest else None, request)
            case method, "mode", *rest if len(rest) <= 1:
                return _mode(method, request)
        raise Problem(404, f"HTTP 404 Not Found: {request.method} /{'/'.join(request.path)[:200]}")

    # --- /schemas ----------------------------------------------------------------------------------------------------

    async def _schemas(self, rest: list[str], request: HttpRequest) -> object:
        match rest:
            case ["types"]:
                return list(KINDS)
            case ["ids", number]:
                return _shown(await self._book.schema(_id(number)))
            case ["ids", number, "schema"]:
                return _raw((await self._book.schema(_id(number))).text)
            case ["ids", number, "subjects"]:
                return sorted({name for name, _ in await self._using(_id(number))})
            case ["ids", number, "versions"]:
                return [{"subject": name, "version": version} for name, version in await self._using(_id(number))]
        raise Problem(404, f"HTTP 404 Not Found: /{'/'.join(request.path)[:200]}")

    async def _using(self, schema_id: int) -> tuple[tuple[str, int], ...]:
        await self._book.schema(schema_id)
        return await self._book.using(schema_id)

    # --- /subjects ---------------------------------------------------------------------------------------------------

    async def _subjects(self, method: str, rest: list[str], request: HttpRequest) -> object:
        deleted, permanent = _flag(request, "deleted"), _flag(request, "permanent")
        match method, rest:
            case "GET", []:
                prefix = request.query.get("subjectPrefix", "")
                return [one.name for one in await self._book.subjects(deleted=deleted) if one.name.startswith(prefix)]
            case "POST", [name]:
                schema = _schema(request)
                found = await self._book.find(_subject(name), schema, deleted=deleted)
                return await self._version_shown(name, found)
            case "DELETE", [name]:
                return await self._book.delete(_subject(name), None, permanent=permanent)
            case "GET", [name, "versions"]:
                subject = await self._book.subject(_subject(name), deleted=deleted)
                return [one.version for one in (subject.versions if deleted else subject.live)]
            case "POST", [name, "versions"]:
                schema = _schema(request)
                made = await self._book.register(_subject(name), schema)
                return {"id": made.schema_id, "version": made.version, **_shown(await self._book.schema(made.schema_id))}
            case "GET", [name, "versions", number, *more]:
                return await self._one_version(name, await self._book.version(_subject(name), _version(number), deleted=deleted), more)
            case "DELETE", [name, "versions", number]:
                wanted = _version(number)
                if wanted is None:
                    wanted = (await self._book.version(_subject(name), None, deleted=permanent)).version
                return (await self._book.delete(_subject(name), wanted, permanent=permanent))[0]
        raise Problem(405 if rest else 404, f"{method} is not possible on /subjects/{'/'.join(rest)[:200]}")

    async def _one_version(self, name: str, found: SubjectVersion, more: list[str]) -> object:
        match more:
            case []:
                return await self._version_shown(name, found)
            case ["schema"]:
                return _raw((await self._book.schema(found.schema_id)).text)
            case ["referencedby"]:
                return list(await self._book.referring(name, found.version))
        raise Problem(404, "HTTP 404 Not Found")

    async def _version_shown(self, name: str, found: SubjectVersion) -> object:
        schema = await self._book.schema(found.schema_id)
        return {"subject": name, "version": found.version, "id": found.schema_id, **_shown(schema)}

    # --- /compatibility, /config -------------------------------------------------------------------------------------

    async def _compatibility(self, name: str, rest: list[str], request: HttpRequest) -> object:
        schema = _schema(request)
        number = _version(rest[0]) if rest else None
        await self._book.subject(_subject(name))
        verdict = await self._book.check(name, number, schema, every=not rest)
        return _verdict(verdict, verbose=_flag(request, "verbose"))

    async def _config(self, method: str, name: str | None, request: HttpRequest) -> object:
        subject: Subject | None = None
        if name is not None:
            found = [one for one in await self._book.subjects(deleted=True) if one.name == name]
            subject = found[0] if found else Subject(name=name)
        match method:
            case "GET":
                if subject is not None and not subject.level and request.query.get("defaultToGlobal", "false") != "true":
                    raise Problem(40408, f"Subject '{name}' does not have subject-level compatibility configured")
                return {"compatibilityLevel": await self._book.level(subject)}
            case "PUT":
                level = _body(request).get("compatibility", "")
                await self._book.set_level(level if isinstance(level, str) else "?", name)
                return {"compatibility": level}
            case "DELETE":
                before = await self._book.level(subject)
                if name is not None and subject is not None and not subject.level:
                    raise no_subject(name)
                await self._book.set_level("" if name is not None else "BACKWARD", name)
                return {"compatibilityLevel": before}
        raise Problem(405, f"{method} is not possible on /config")


def _mode(method: str, request: HttpRequest) -> object:
    if method == "GET" or (method == "PUT" and _body(request).get("mode") == "READWRITE"):
        return {"mode": "READWRITE"}
    raise Problem(42204, "Invalid mode: this registry knows READWRITE only")


def _verdict(verdict: Verdict, *, verbose: bool) -> object:
    found: dict[str, object] = {"is_compatible": verdict.compatible}
    if verbose:
        found["messages"] = [*verdict.messages, *(f"table: {effect}" for effect in verdict.effects)]
    return found


def _shown(schema: NewSchema) -> dict[str, object]:
    found: dict[str, object] = {"schema": schema.text}
    if schema.kind != KINDS[0]:
        found["schemaType"] = schema.kind
    if schema.references:
        found["references"] = [{"name": one.name, "subject": one.subject, "version": one.version} for one in schema.references]
    return found


def _raw(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _body(request: HttpRequest) -> Mapping[str, Any]:
    try:
        found = json.loads(request.body or b"{}")
    except (ValueError, RecursionError) as error:
        raise Problem(42201, f"the body is not JSON: {error}") from error
    try:
        json.dumps(found, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError) as error:
        raise Problem(42201, "the body has half a surrogate pair: that is no text") from error
    if not isinstance(found, dict):
        raise Problem(42201, "the body is no JSON object")
    return found


def _schema(request: HttpRequest) -> NewSchema:
    body = _body(request)
    text, kind = body.get("schema"), body.get("schemaType") or KINDS[0]
    if not isinstance(text, str) or not text.strip() or not isinstance(kind, str):
        raise invalid_schema("the body's 'schema' must be a text, and 'schemaType' one of AVRO, JSON, PROTOBUF")
    references = body.get("references") or []
    if not isinstance(references, list):
        raise invalid_schema("'references' must be a list")
    return NewSchema(kind=kind, text=text, references=tuple(map(_reference, references)))


def _reference(form: object) -> SchemaReference:
    if isinstance(form, dict):
        name, subject, version = form.get("name"), form.get("subject"), form.get("version")
        if isinstance(name, str) and isinstance(subject, str) and type(version) is int:
            return SchemaReference(name=name, subject=subject, version=version)
    raise invalid_schema("a reference needs 'name', 'subject' and 'version'")


def _subject(name: str) -> str:
    if not name or len(name) > _SUBJECT_CHARACTERS_MAX or not name.isprintable():
        raise Problem(42208, f"the subject {name[:40]!r} is invalid: 1 to {_SUBJECT_CHARACTERS_MAX} printable characters")
    return name


def _version(text: str) -> int | None:
    """A number, or None for the latest."""
    if text in ("latest", "-1"):
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _VERSION_DIGITS_MAX and 0 < int(text) <= _VERSION_MAX):
        raise invalid_version(text[:40])
    return int(text)


def _id(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 12):
        raise Problem(404, "HTTP 404 Not Found")
    return int(text)


def _flag(request: HttpRequest, name: str) -> bool:
    return request.query.get(name, "false").lower() == "true"
