"""Protobuf values in typed columns. The corpus is Google's and Confluent's work (tests/corpus/protobuf/make.py)."""

from __future__ import annotations

import datetime
import json
import pathlib
import struct
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.schemas import Decoded, DecodeOptions, decoder_for, evolve, parse_columns
from frazil.schemas.ddl import describe
from frazil.schemas.framing import FRAMED_CODES, FramedDecoder, WriterSchema
from frazil.schemas.port import REJECT_CODES

CORPUS = pathlib.Path(__file__).parents[2] / "corpus" / "protobuf"
PAGE = pathlib.Path(__file__).parents[3] / "docs" / "protobuf.md"
TEXT = (CORPUS / "everything.proto").read_text()
WRITTEN = {name: bytes.fromhex(text) for name, text in json.loads((CORPUS / "everything.json").read_text()).items()}


def learnt(
    *texts: str, declared: tuple[str, ...] = (), references: tuple[tuple[str, str], ...] = (), options: DecodeOptions | None = None
) -> FramedDecoder:
    decoder = decoder_for("protobuf", parse_columns(declared) if declared else None, options or DecodeOptions())
    assert isinstance(decoder, FramedDecoder)
    decoder.learn({n: WriterSchema(kind="PROTOBUF", text=text, references=references) for n, text in enumerate(texts, start=1)})
    return decoder


def proto3(body: str) -> str:
    return f'syntax = "proto3"; message M {{ {body} }}'


def proto2(body: str) -> str:
    return f"message M {{ {body} }}"


def framed(body: bytes, schema_id: int = 1, path: bytes = b"\0") -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + path + body


def verdicts(decoded: Decoded) -> list[tuple[int, str]]:
    return [(reject.row, reject.code) for reject in decoded.rejects]


def row_of(name: str) -> dict[str, Any]:
    decoded = learnt(TEXT).decode([WRITTEN[name]])
    assert not decoded.rejects
    (row,) = decoded.batch.to_pylist()
    return row


def test_f41_every_type_has_its_column() -> None:
    assert describe(learnt(TEXT).decode([WRITTEN["whole"]]).batch.schema) == (
        "a_double double",
        "a_float float",
        "an_int32 int",
        "an_int64 long",
        "a_uint32 long",
        "a_uint64 decimal(20,0)",
        "a_sint32 int",
        "a_sint64 long",
        "a_fixed32 long",
        "a_fixed64 decimal(20,0)",
        "a_sfixed32 int",
        "a_sfixed64 long",
        "a_bool boolean",
        "a_string string",
        "some_bytes binary",
        "suit string",
        "inner struct<x: int, y: int>",
        "maybe int",
        "packed list<int>",
        "words list<string>",
        "inners list<struct<x: int, y: int>>",
        "counts map<string, long>",
        "by_number map<string, struct<x: int, y: int>>",
        "text string",
        "message struct<x: int, y: int>",
        "number int",
        "at timestamptz",
        "wrapped long",
        "next string",
    )


def test_f41_every_value_is_the_one_that_was_written() -> None:
    row = row_of("whole")
    nested = json.loads(row.pop("next"))
    assert row == {
        "a_double": 0.1,
        "a_float": -1.5,
        "an_int32": -(2**31),
        "an_int64": -(2**63),
        "a_uint32": 2**32 - 1,
        "a_uint64": Decimal(2**64 - 1),
        "a_sint32": -5,
        "a_sint64": -(2**63),
        "a_fixed32": 2**32 - 1,
        "a_fixed64": Decimal(2**64 - 1),
        "a_sfixed32": -7,
        "a_sfixed64": -8,
        "a_bool": True,
        "a_string": "日本",
        "some_bytes": b"\x00\xff",
        "suit": "SPADES",
        "inner": {"x": 1, "y": 0},
        "maybe": 0,
        "packed": [0, -1, 300],
        "words": ["", "a"],
        "inners": [{"x": 1, "y": None}, {"x": 0, "y": 2}],
        "counts": [("a", 2**53 + 1)],
        "by_number": [("-3", {"x": 9, "y": None})],
        "text": None,
        "message": {"x": 4, "y": None},
        "number": None,
        "at": datetime.datetime(1969, 12, 31, 23, 59, 59, 500000, tzinfo=datetime.UTC),
        "wrapped": 0,
    }
    assert (nested["an_int32"], nested["a_uint64"], nested["next"], nested["inner"]) == (2, "0", None, None)


def test_absent_is_the_default_where_the_language_says_so_and_null_where_it_can_tell() -> None:
    row = row_of("empty")
    assert (row["an_int32"], row["a_string"], row["a_bool"], row["suit"], row["a_uint64"]) == (0, "", False, "SUIT_UNKNOWN", Decimal(0))
    assert (row["packed"], row["counts"]) == ([], [])
    assert [row[name] for name in ("inner", "maybe", "text", "number", "at", "wrapped", "next")] == [None] * 7


def test_an_enum_value_without_a_name_is_its_number() -> None:
    assert row_of("unknown_symbol")["suit"] == "77"


def test_the_message_indexes_choose_the_message() -> None:
    assert row_of("first") == {"id": 5}
    assert row_of("inner") == {"x": 3, "y": None}
    decoded = learnt(TEXT).decode([WRITTEN["first"], WRITTEN["inner"]])
    assert decoded.batch.to_pylist() == [{"id": 5, "x": None, "y": None}, {"id": None, "x": 3, "y": None}]
    for path in (b"\x02\x08", b"\x02\x01", b"\x06\x02\x00\x00", b"\xff\xff\x03", b""):
        assert verdicts(learnt(TEXT).decode([framed(b"", path=path)])) == [(0, "not-protobuf")]


def test_references_and_scopes() -> None:
    shared = 'syntax = "proto3"; package a.shared; message Id { string v = 1; } enum E { Z = 0; }'
    text = """syntax = "proto3"; package a.app; import "shared.proto"; import public "confluent/meta.proto";
      message Id { int32 own = 1; }
      message M { shared.Id far = 1; Id near = 2; .a.shared.E e = 3; Inner i = 4; message Inner { Id id = 1; } }"""
    decoded = learnt(text, references=(("shared.proto", shared),)).decode(
        [framed(b"\x0a\x03\x0a\x01x\x12\x02\x08\x05\x22\x04\x0a\x02\x08\x07", path=b"\x02\x02")]
    )
    assert decoded.batch.to_pylist() == [{"far": {"v": "x"}, "near": {"own": 5}, "e": "Z", "i": {"id": {"own": 7}}}]


def test_the_wire_format_is_read_as_its_guide_says() -> None:
    text = proto3("int32 a = 1; N n = 2; repeated int32 r = 3; map<string, N> m = 4; oneof o { int32 x = 5; string y = 6; }") + (
        " message N { int32 p = 1; int32 q = 2; }"
    )
    body = b"".join(
        [
            b"\x08\x01\x08\x02",  # the last one wins
            b"\x12\x02\x08\x05\x12\x02\x10\x06",  # parts of a message are joined
            b"\x18\x01\x1a\x02\x02\x03\x18\x04",  # packed and not, mixed
            b"\x22\x03\x0a\x01k\x22\x07\x0a\x01k\x12\x02\x08\x09",  # the last one of a key; a missing value is an empty message
            b"\x22\x03\x0a\x01j",
            b"\x28\x07\x32\x01z",  # the last one of a oneof
        ]
    )
    (row,) = learnt(text).decode([framed(body)]).batch.to_pylist()
    assert row == {
        "a": 2,
        "n": {"p": 5, "q": 6},
        "r": [1, 2, 3, 4],
        "m": [("k", {"p": 9, "q": 0}), ("j", {"p": 0, "q": 0})],
        "x": None,
        "y": "z",
    }


def test_what_is_not_needed_is_passed_over() -> None:
    text = """
      edition = "2023"; option features = { a: [1, 2], b: "}" }; import "x.proto"; /* message No { */
      message M { option (o) = { x: 1 }; int32 a = 1 [(v) = { list: [1, [2]] }, deprecated = true]; extensions 100 to 199; ; reserved "q";
        oneof o { option (p) = 1; int32 b = 2; } enum E { option allow_alias = true; A = 0; B = 0 [deprecated = true]; C = -1; }
        E e = 0x3; }
      extend M { int32 more = 100; }
      service S { rpc Call (M) returns (stream M) { option (http) = { get: "/" }; } }"""
    decoded = learnt(text).decode([framed(b"\x08\x01\x18" + b"\xff" * 9 + b"\x01")])
    assert decoded.batch.to_pylist() == [{"a": 1, "b": None, "e": "C"}]


def test_proto2_tells_absent_from_default_and_wants_what_is_required() -> None:
    decoder = learnt(proto2("optional int32 a = 1 [default = 5]; required string b = 2;"))
    decoded = decoder.decode([framed(b"\x12\x01x"), framed(b"\x08\x01")])
    assert decoded.batch.to_pylist() == [{"a": None, "b": "x"}]
    assert verdicts(decoded) == [(1, "not-protobuf")]


def test_columns_grow_with_the_writers_and_changed_types_cost_only_their_records() -> None:
    decoder = learnt(proto3("int32 a = 1;"), proto3("int64 a = 1; string b = 2;"), proto3("string a = 1;"))
    now = decoder.decode([framed(b"\x08\x01")]).batch.schema
    values = [framed(b"\x08\xff\xff\xff\xff\x7f\x12\x01x", 2), framed(b"\x08\x02", 1), framed(b"\x0a\x01x", 3)]
    decoded = decoder.decode(values, now)
    assert describe(decoded.batch.schema) == ("a long", "b string")
    assert decoded.additions is not None and evolve(now, decoded.additions) == decoded.batch.schema
    assert decoded.batch.to_pylist() == [{"a": 2**35 - 1, "b": "x"}, {"a": 2, "b": None}]
    assert verdicts(decoded) == [(2, "wrong-type")]


def test_a_timestamp_finer_than_a_microsecond_is_not_rounded() -> None:
    text = 'syntax = "proto3"; import "google/protobuf/timestamp.proto"; message M { google.protobuf.Timestamp t = 1; }'
    value = framed(b"\x0a\x04\x08\x01\x10\x01")
    assert verdicts(learnt(text).decode([value])) == [(0, "not-exact")]
    assert learnt(text, declared=("t long",)).decode([value]).batch.to_pylist() == [{"t": 1_000_000_001}]


BAD = {
    "cut number": (b"\x08\xff", "not-protobuf"),
    "cut text": (b"\x12\x05ab", "not-protobuf"),
    "other wire type": (b"\x0a\x01a", "not-protobuf"),
    "group": (b"\x0b", "not-protobuf"),
    "field that is not there": (b"\x48\x01", "not-protobuf"),
    "number without end": (b"\x08" + b"\xff" * 12, "not-protobuf"),
    "beyond 32 bits": (b"\x08\xff\xff\xff\xff\x7f", "not-protobuf"),
    "not UTF-8": (b"\x12\x01\xff", "not-utf8"),
    "packed list cut": (b"\x1a\x02\x01\xff", "not-protobuf"),
}


def test_a_bad_record_costs_itself_and_nobody_else() -> None:
    good = framed(b"\x08\x01")
    values = [good]
    for body, _ in BAD.values():
        values += [framed(body), good]
    decoded = learnt(proto3("int32 a = 1; string b = 2; repeated int32 c = 3;")).decode([*values, b"x", None])
    assert [code for _, code in verdicts(decoded)] == [*(code for _, code in BAD.values()), "not-framed"]
    assert decoded.batch.num_rows == len(BAD) + 2


def test_messages_without_end_are_too_deep() -> None:
    text = proto3("M m = 1;")
    body = b""
    for _ in range(200):
        size = len(body)
        body = b"\x0a" + (bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])) + body
    assert verdicts(learnt(text).decode([framed(body)])) == [(0, "too-deep")]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "message",
        "message M {",
        "message M { int32 a; }",
        "message M { int32 a = x; }",
        "message M { Missing a = 1; }",
        "message M { int32 a = 1; int64 b = 1; }",
        "message M { int32 a = 1; int64 a = 2; }",
        "message M { } message M { }",
        "message M { repeated group G = 1 { } }",
        "message M { map<string, int32 a = 1; }",
        "message A {" * 100,
    ],
    ids=range(12),
)
def test_a_text_that_cannot_be_used_is_a_verdict(text: str) -> None:
    (reject,) = learnt(text).decode([framed(b"")]).rejects
    assert reject.code in ("bad-schema", "not-protobuf") and reject.why.startswith(("schema 1: ", "schema 1 "))


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.integers(5, len(WRITTEN["whole"]) - 1), st.integers(0, 255)), max_size=4), st.integers(5, len(WRITTEN["whole"]))
)
def test_mutated_bytes_are_a_row_or_a_reject_and_never_more(changes: list[tuple[int, int]], end: int) -> None:
    mutated = bytearray(WRITTEN["whole"])
    for at, byte in changes:
        mutated[at] = byte
    decoded = learnt(TEXT).decode([WRITTEN["whole"], bytes(mutated), bytes(mutated[:end]), WRITTEN["empty"]])
    assert sorted([*decoded.rows, *(reject.row for reject in decoded.rejects)]) == [0, 1, 2, 3]
    assert {0, 3} <= set(decoded.rows)
    decoded.batch.validate(full=True)
    assert all(reject.code in {**REJECT_CODES, **FRAMED_CODES} for reject in decoded.rejects)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([*TEXT.replace(";", " ; ").replace("=", " = ").split(), '"', "/*", "\n"]), max_size=60))
def test_no_text_raises_anything_but_a_verdict(words: list[str]) -> None:
    learnt(" ".join(words)).decode([framed(struct.pack("<d", 1.0))])


def test_the_page_has_every_code() -> None:
    assert f"| `not-protobuf` | {FRAMED_CODES['not-protobuf']} |" in PAGE.read_text()
