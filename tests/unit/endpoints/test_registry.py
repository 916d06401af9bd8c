"""The cluster's schema registry: the API's answers, versions that agree, references, deletions, and what schemas do to tables."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.simulation.loop import run_virtual

from frazil.endpoints.http import HttpRequest
from frazil.endpoints.registry import Book, RegistryApi, StoredSchemas
from frazil.kit.clock import LoopClock
from frazil.kit.errors import RetryLater
from frazil.kit.tasks import InlineOffload
from frazil.metadata.stores.memory import MemoryMetadata, MemoryState
from frazil.schemas.framing import Unknown, WriterSchema


class Effects:
    async def effects(self, subject: str, schema: WriterSchema) -> tuple[str, ...]:
        return (f"{subject} {schema.kind}",)


class Client:
    def __init__(self) -> None:
        self.clock = LoopClock()
        self.store = MemoryMetadata(MemoryState(), self.clock)
        self.book = Book(self.store, InlineOffload(), Effects())
        self.api = RegistryApi(self.book)

    async def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        where, _, query = path.partition("?")
        pairs = dict(part.split("=") for part in query.split("&") if part)
        data = body if isinstance(body, bytes) else json.dumps(body).encode() if body is not None else b""
        answer = await self.api.answer(HttpRequest(method=method, path=tuple(where.strip("/").split("/")), query=pairs, body=data))
        return answer.status, json.loads(answer.body)

    async def register(self, subject: str, schema: object, kind: str = "AVRO", references: list[Any] | None = None) -> tuple[int, Any]:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        return await self.ask("POST", f"/subjects/{subject}/versions", {"schema": text, "schemaType": kind, "references": references or []})


def record(*fields: tuple[str, object], name: str = "R") -> dict[str, object]:
    parts: list[dict[str, object]] = []
    for key, kind in fields:
        parts.append({"name": key, "type": kind, **({"default": None} if isinstance(kind, list) else {})})
    return {"type": "record", "name": name, "fields": parts}


def play(story: Callable[[Client], Awaitable[None]]) -> None:
    async def run() -> None:
        await story(Client())

    run_virtual(run())


def test_ids_are_one_per_text_and_versions_one_per_subject() -> None:
    async def story(on: Client) -> None:
        one, two = record(("a", "int")), record(("a", "int"), ("b", ["null", "string"]))
        assert (await on.register("t-value", one))[1]["id"] == 1
        assert (await on.register("t-value", json.dumps(one, indent=2)))[1]["id"] == 1, "blanks make no other schema"
        assert (await on.register("u-value", one))[1]["id"] == 1
        assert (await on.register("t-value", two))[1]["version"] == 2
        assert await on.ask("GET", "/subjects") == (200, ["t-value", "u-value"])
        assert await on.ask("GET", "/subjects/t-value/versions") == (200, [1, 2])
        status, latest = await on.ask("GET", "/subjects/t-value/versions/latest")
        assert (status, latest["id"], latest["version"], json.loads(latest["schema"])) == (200, 2, 2, two)
        assert await on.ask("GET", "/schemas/ids/1/versions") == (
            200,
            [{"subject": "t-value", "version": 1}, {"subject": "u-value", "version": 1}],
        )
        status, found = await on.ask("POST", "/subjects/t-value", {"schema": json.dumps(one)})
        assert (status, found["version"]) == (200, 1)

    play(story)


@pytest.mark.parametrize(
    ("level", "new", "fits"),
    [
        ("BACKWARD", record(("a", "long"), ("b", ["null", "string"])), True),
        ("BACKWARD", record(("a", "int"), ("b", "string")), False),
        ("BACKWARD", record(("a", "string")), False),
        ("FORWARD", record(("a", "int"), ("b", "string")), True),
        ("FORWARD", record(("b", "string")), False),
        ("FULL", record(("a", "long")), False),
        ("FULL", record(("a", "int"), ("b", ["null", "string"])), True),
        ("NONE", record(("z", "boolean")), True),
    ],
)
def test_a_level_says_which_avro_schemas_agree(level: str, new: object, fits: bool) -> None:
    async def story(on: Client) -> None:
        await on.register("s", record(("a", "int")))
        assert await on.ask("PUT", "/config/s", {"compatibility": level}) == (200, {"compatibility": level})
        status, answer = await on.ask("POST", "/compatibility/subjects/s/versions/latest?verbose=true", {"schema": json.dumps(new)})
        assert (status, answer["is_compatible"]) == (200, fits)
        assert "table: s AVRO" in answer["messages"]
        status, answer = await on.register("s", new)
        assert (status, "incompatible" in str(answer)) == ((200, False) if fits else (409, True))

    play(story)


def test_only_transitive_levels_look_behind_the_last_version() -> None:
    async def story(on: Client) -> None:
        for level, status in (("BACKWARD", 200), ("BACKWARD_TRANSITIVE", 409)):
            await on.ask("PUT", f"/config/{level}", {"compatibility": "NONE"})
            await on.register(level, record(("a", "int")))
            await on.register(level, record(("a", "string")))
            await on.ask("PUT", f"/config/{level}", {"compatibility": level})
            assert (await on.register(level, record(("a", "string"), ("b", ["null", "int"]))))[0] == status

    play(story)


LONG = {"type": "enum", "name": "E", "symbols": [f"S{at}" for at in range(90_000)]}
PROTO = 'syntax = "proto3"; message M { %s }'


@pytest.mark.parametrize(
    ("kind", "old", "new", "fits"),
    [
        ("PROTOBUF", PROTO % "int32 a = 1;", PROTO % "int64 a = 1; string b = 2;", True),
        ("PROTOBUF", PROTO % "int32 a = 1; string b = 2;", PROTO % "int32 a = 1;", True),
        ("PROTOBUF", PROTO % "int32 a = 1;", PROTO % "string a = 1;", False),
        ("PROTOBUF", PROTO % "int32 a = 1;", PROTO % "repeated int32 a = 1;", False),
        ("PROTOBUF", PROTO % "int32 a = 1;", 'syntax = "proto3"; message Other { int32 a = 1; }', False),
        ("PROTOBUF", PROTO % "int32 a = 1; int32 b = 2;", PROTO % "oneof o { int32 a = 1; int32 b = 2; }", False),
        ("JSON", {"properties": {"a": {"type": "integer"}}}, {"properties": {"a": {"type": "number"}}}, True),
        ("JSON", {"properties": {"a": {"type": "number"}}}, {"properties": {"a": {"type": "integer"}}}, False),
        ("JSON", {"properties": {"a": {}}}, {"properties": {"a": {}}, "required": ["a"]}, False),
        ("JSON", {"properties": {"a": {"enum": [1, 2]}}}, {"properties": {"a": {"enum": [1, 2, 3]}}}, True),
        ("JSON", {"properties": {"a": {"enum": [1, 2]}}}, {"properties": {"a": {"enum": [1]}}}, False),
        ("JSON", {"properties": {"a": {"maximum": 5}}}, {"properties": {"a": {"maximum": 6}}}, True),
        ("JSON", {"properties": {"a": {"maximum": 5}}}, {"properties": {"a": {"maximum": 4}}}, False),
        ("JSON", {"properties": {"a": {}}}, {"properties": {}, "additionalProperties": False}, False),
        ("JSON", {"oneOf": [{"type": "string"}]}, {"oneOf": [{"type": "string"}, {"type": "null"}]}, True),
        ("JSON", {"oneOf": [{"type": "string"}, {"type": "null"}]}, {"oneOf": [{"type": "string"}]}, False),
        ("JSON", {"$ref": "#/d/n", "d": {"n": {"properties": {"next": {"$ref": "#/d/n"}}}}},
         {"$ref": "#/d/n", "d": {"n": {"properties": {"next": {"$ref": "#/d/n"}, "a": {"type": "string"}}}}}, True),
    ],
)  # fmt: skip
def test_protobuf_and_json_schema_have_rules_of_their_own(kind: str, old: object, new: object, fits: bool) -> None:
    async def story(on: Client) -> None:
        status, answer = await on.register("s", old, kind)
        assert status == 200, answer
        status, answer = await on.register("s", new, kind)
        assert status == (200 if fits else 409), answer

    play(story)


def test_references_are_resolved_kept_and_guarded() -> None:
    async def story(on: Client) -> None:
        await on.register("money", record(("units", "long"), name="Money"))
        reference = [{"name": "Money", "subject": "money", "version": 1}]
        status, made = await on.register("t-value", record(("price", "Money")), references=reference)
        assert status == 200, made
        schemas = StoredSchemas(on.book, on.clock)
        found = await schemas.find([made["id"], 99])
        assert isinstance(found[made["id"]], WriterSchema)
        assert [name for name, _ in found[made["id"]].references] == ["Money"]  # type: ignore[union-attr]
        assert isinstance(found[99], Unknown)
        assert await on.ask("GET", "/subjects/money/versions/1/referencedby") == (200, [made["id"]])
        status, answer = await on.ask("DELETE", "/subjects/money/versions/1")
        assert (status, answer["error_code"]) == (422, 42206)
        status, answer = await on.register("u-value", record(("price", "Money")), references=[{**reference[0], "version": 7}])
        assert (status, answer["error_code"]) == (422, 42201)

    play(story)


def test_deleted_versions_keep_their_number_and_their_id() -> None:
    async def story(on: Client) -> None:
        await on.register("s", record(("a", "int")))
        await on.register("s", record(("a", "int"), ("b", ["null", "int"])))
        assert await on.ask("DELETE", "/subjects/s/versions/2") == (200, 2)
        assert await on.ask("GET", "/subjects/s/versions") == (200, [1])
        assert (await on.ask("GET", "/schemas/ids/2"))[0] == 200, "values name it"
        assert (await on.register("s", record(("a", "int"), ("c", ["null", "int"]))))[1]["version"] == 3
        assert (await on.ask("DELETE", "/subjects/s?permanent=true"))[1]["error_code"] == 40405
        assert await on.ask("DELETE", "/subjects/s") == (200, [1, 3])
        assert (await on.ask("GET", "/subjects/s/versions"))[1]["error_code"] == 40401
        assert await on.ask("GET", "/subjects/s/versions?deleted=true") == (200, [1, 2, 3])
        assert await on.ask("DELETE", "/subjects/s?permanent=true") == (200, [1, 2, 3])
        assert (await on.register("s", record(("a", "string"))))[1]["version"] == 4, "no number comes twice"

    play(story)


def test_many_who_register_at_once_get_one_id_per_text_and_no_two_versions_that_do_not_agree() -> None:
    async def story(on: Client) -> None:
        kinds = ["int", "string", "boolean"] * 8
        answers = await asyncio.gather(*(on.register("s", record(("a", kind))) for kind in kinds))
        assert {status for status, _ in answers} == {200, 409}
        assert await on.ask("GET", "/subjects/s/versions") == (200, [1])
        answers = await asyncio.gather(*(on.register(f"n{at}", record((f"f{at % 3}", "int"))) for at in range(12)))
        assert len({answer["id"] for _, answer in answers}) == 3

    play(story)


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("GET", "/subjects/none/versions", None, 40401),
        ("GET", "/subjects/s/versions/9", None, 40402),
        ("GET", "/subjects/s/versions/0", None, 42202),
        ("GET", "/subjects/s/versions/x", None, 42202),
        ("GET", "/subjects/s/versions/²", None, 42202),
        ("GET", "/schemas/ids/77", None, 40403),
        ("GET", "/schemas/ids/99999999999", None, 40403),
        ("POST", "/subjects/s/versions", b"{", 42201),
        ("POST", "/subjects/s/versions", [1], 42201),
        ("POST", "/subjects/s/versions", {"schema": 5}, 42201),
        ("POST", "/subjects/s/versions", {"schema": "{}", "schemaType": "XML"}, 42201),
        ("POST", "/subjects/s/versions", {"schema": '{"type": "record"}'}, 42201),
        ("POST", "/subjects/s/versions", {"schema": "message", "schemaType": "PROTOBUF"}, 42201),
        ("POST", "/subjects/s/versions", {"schema": '"int"', "references": [{"name": 1}]}, 42201),
        ("POST", "/subjects/s/versions", {"schema": "[" * 100_000}, 42201),
        ("POST", "/subjects/s/versions", {"schema": json.dumps(LONG)}, 42201),
        ("POST", "/subjects/%00/versions".replace("%00", "\0"), {"schema": '"int"'}, 42208),
        ("PUT", "/config", {"compatibility": "SOMETIMES"}, 42203),
        ("GET", "/config/s", None, 40408),
        ("PUT", "/mode", {"mode": "IMPORT"}, 42204),
        ("DELETE", "/subjects/s/versions", None, 405),
        ("GET", "/nothing", None, 404),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_by_its_code(method: str, path: str, body: object, code: int) -> None:
    async def story(on: Client) -> None:
        await on.register("s", record(("a", "int")))
        status, answer = await on.ask(method, path, body)
        assert answer["error_code"] == code, answer
        assert str(code).startswith(str(status))
        assert answer["message"]
        assert (await on.ask("GET", "/subjects"))[1] == ["s"]

    play(story)


def test_f42_a_store_that_is_away_is_an_outage_and_not_a_miss() -> None:
    async def story(on: Client) -> None:
        async def away(*_: object, **__: object) -> None:
            raise RetryLater("away")

        on.store.range = away  # type: ignore[method-assign, assignment]
        status, answer = await on.ask("GET", "/subjects")
        assert (status, answer["error_code"]) == (503, 50301)
        with pytest.raises(RetryLater):
            await StoredSchemas(on.book, on.clock).find([1])

    play(story)


def test_half_a_surrogate_pair_and_a_version_of_thousands_of_digits_are_refused_by_name() -> None:
    async def story(on: Client) -> None:
        half = b'{"schema": "\\"string\\"", "references": [{"name": "\\ud800", "subject": "\\ud800", "version": 1}]}'
        assert (await on.ask("POST", "/subjects/t-value/versions", half))[0] == 422
        assert (await on.ask("PUT", "/config", b'{"compatibility": "\\ud800"}'))[0] == 422
        assert (await on.register("t-value", '{"type": "string", "doc": "\\ud800"}'))[0] == 422
        assert (await on.register("t-value", "é" + "[" * 100_000))[0] == 422
        assert (await on.register("t-value", '{"type": "string"}'))[0] == 200
        assert (await on.ask("GET", f"/subjects/t-value/versions/{'1' * 5000}"))[0] == 422

    play(story)
