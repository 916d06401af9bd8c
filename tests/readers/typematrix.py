"""The type matrix: what each source type becomes in a table, as rows of data. One list, three uses: ``docs/types.md`` is printed from it,
``tests/unit/schemas/test_type_matrix.py`` decodes every row, ``test_readers.py`` lands them all and reads them back by three readers.
"""

from __future__ import annotations

import base64
import datetime
import json
import struct
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tests.unit.schemas.avro_cases import CASES, body

UTC = datetime.UTC
NAN = float("nan")
INFINITY = float("inf")
A_UUID = uuid.UUID("f81d4fae-7dec-11d0-a765-00a0c91e6bf6")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One value as it is written: ``data`` as its format has it, ``shown`` for people, and what a reader sees, or a reject's code."""

    data: Any
    shown: str
    read: Any = None
    code: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One type of one source. ``schema``: as the format declares it. ``column``: its type in the table; empty: no column.

    ``name``: the field's name when it is the point of the row, with the column's name it gets.
    """

    source: str
    schema: Any
    column: str
    sent: tuple[Sent, ...]
    about: str = ""
    name: tuple[str, str] | None = None

    @property
    def good(self) -> tuple[Sent, ...]:
        return tuple(one for one in self.sent if not one.code)

    @property
    def bad(self) -> tuple[Sent, ...]:
        return tuple(one for one in self.sent if one.code)

    @property
    def has_time(self) -> bool:
        """Spark has no type for a time of day."""
        return "time" in self.column.replace("timestamp", "").replace("datetime", "")


def at(*parts: int, zone: datetime.tzinfo | None = UTC) -> datetime.datetime:
    return datetime.datetime(*parts, tzinfo=zone)  # type: ignore[arg-type,misc]


# --- JSON --------------------------------------------------------------------------------------------------------------


def json_row(source: str, schema: Any, column: str, *pairs: tuple[str, Any], about: str = "", name: tuple[str, str] | None = None) -> Row:
    """``pairs``: JSON text and what is read; a text that begins with ``!`` is a reject's code."""
    sent = [
        Sent(data=text, shown=text, code=read[1:])
        if isinstance(read, str) and read.startswith("!")
        else Sent(data=text, shown=text, read=read)
        for text, read in pairs
    ]
    return Row(source=source, schema=schema, column=column, sent=tuple(sent), about=about, name=name)


def declared(column: str, *pairs: tuple[str, Any], about: str = "") -> Row:
    return json_row("JSON, declared", column, column, *pairs, about=about)


def inferred(kind: str, column: str, *pairs: tuple[str, Any], about: str = "", name: tuple[str, str] | None = None) -> Row:
    return json_row("JSON", kind, column, *pairs, about=about, name=name)


def typed(schema: dict[str, Any], column: str, *pairs: tuple[str, Any], about: str = "") -> Row:
    return json_row("JSON Schema", schema, column, *pairs, about=about)


def b64(data: bytes) -> str:
    return json.dumps(base64.b64encode(data).decode())


NULL = ("null", None)
JSON_DECLARED = (
    declared("boolean", ("true", True), ("false", False), NULL, ("1", "!wrong-type"), ('"true"', "!wrong-type")),
    declared(
        "int",
        ("-2147483648", -(2**31)),
        ("2147483647", 2**31 - 1),
        ("1.0", 1),
        ("1e3", 1000),
        ("2147483648", "!out-of-range"),
        ("1.5", "!not-exact"),
        ('"1"', "!wrong-type"),
    ),
    declared(
        "long",
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("9007199254740993", 2**53 + 1),
        ("10.0", 10),
        ("9223372036854775808", "!out-of-range"),
        ("10.5", "!not-exact"),
        about="past 64 bits: a dead letter, or declare `decimal(20,0)`",
    ),
    declared(
        "decimal(20,0)",
        ("18446744073709551615", Decimal(2**64 - 1)),
        ("-9223372036854775809", Decimal(-(2**63) - 1)),
        ("100000000000000000000", "!out-of-range"),
    ),
    declared("float", ("0.5", 0.5), ("-0.0", -0.0), ("16777216", 16777216.0), ("16777217", "!not-exact"), ("1e39", "!out-of-range")),
    declared(
        "double",
        ("0.1", 0.1),
        ("-0.0", -0.0),
        ("1e308", 1e308),
        ("5e-324", 5e-324),
        ("9007199254740992", 2.0**53),
        ("9007199254740993", "!not-exact"),
        ("1e309", "!out-of-range"),
        ("NaN", "!not-json"),
        ("-Infinity", "!not-json"),
    ),
    declared(
        "decimal(9,2)",
        ("1234567.89", Decimal("1234567.89")),
        ("1E+2", Decimal("100.00")),
        ("-0.01", Decimal("-0.01")),
        ("1.500", Decimal("1.50")),
        ("1.005", "!not-exact"),
        ("12345678.9", "!out-of-range"),
        ("1E+38", "!out-of-range"),
    ),
    declared("decimal(38,10)", ("1234567890123456789012345678.0123456789", Decimal("1234567890123456789012345678.0123456789"))),
    declared("decimal(38,38)", ("0." + "9" * 38, Decimal("0." + "9" * 38)), ("1.0", "!out-of-range")),
    declared(
        "date",
        ('"1969-12-31"', datetime.date(1969, 12, 31)),
        ('"0001-01-01"', datetime.date(1, 1, 1)),
        ('"9999-12-31"', datetime.date(9999, 12, 31)),
        ('"2025-02-29"', "!bad-text"),
        ("20270", "!wrong-type"),
    ),
    declared(
        "time",
        ('"23:59:59.999999"', datetime.time(23, 59, 59, 999999)),
        ('"00:00"', datetime.time(0)),
        ('"07:05:00Z"', "!bad-text"),
        ('"07:05:00.1234567"', "!not-exact"),
    ),
    declared(
        "timestamp",
        ('"1969-12-31T23:59:59.999999"', at(1969, 12, 31, 23, 59, 59, 999999, zone=None)),
        ('"1583-01-01 00:00:00"', at(1583, 1, 1, zone=None)),
        ('"2025-07-01T10:00:00Z"', "!zone"),
        ("1751364000", "!wrong-type"),
    ),
    declared(
        "timestamptz",
        ('"2025-07-01T12:00:00.123456+02:00"', at(2025, 7, 1, 10, 0, 0, 123456)),
        ('"2025-07-01T10:00:00Z"', at(2025, 7, 1, 10)),
        ('"2025-07-01 10:00:00+0000"', at(2025, 7, 1, 10)),
        ('"1965-06-15T12:00:00Z"', at(1965, 6, 15, 12)),
        ('"9999-12-31T23:59:59.999999Z"', at(9999, 12, 31, 23, 59, 59, 999999)),
        ('"2025-07-01T10:00:00"', "!zone"),
        ("1751364000000", "!wrong-type"),
        ('"2025-07-01T10:00:00.123456789Z"', "!not-exact"),
    ),
    declared(
        "string",
        ('""', ""),
        ('"日本 \\ud83d\\ude00"', "日本 😀"),
        ('"a\\u0000b"', "a\0b"),
        NULL,
        ('"\\ud83d"', "!lone-surrogate"),
        ("5", "!wrong-type"),
        about="null, the empty text and an absent field stay three things",
    ),
    declared("uuid", (json.dumps(str(A_UUID)), A_UUID), (json.dumps(str(A_UUID).upper()), A_UUID), ('"{f81d4fae}"', "!bad-text")),
    declared("binary", (b64(b"\x00\xff"), b"\x00\xff"), ('""', b""), ('"AP8"', "!bad-text"), about="base64"),
    declared("fixed(4)", (b64(b"\x00\x01\x02\xff"), b"\x00\x01\x02\xff"), (b64(b"\x00"), "!out-of-range")),
    declared("list<long>", ("[]", []), ("[1,null,-5]", [1, None, -5]), NULL, ('["1"]', "!wrong-type"), ("{}", "!wrong-type")),
    declared("list<decimal(4,2)>", ("[1.10,-99.99]", [Decimal("1.10"), Decimal("-99.99")])),
    declared(
        "struct<a: long, b: struct<c: date>>",
        ('{"a":1,"b":{"c":"1969-12-31"}}', {"a": 1, "b": {"c": datetime.date(1969, 12, 31)}}),
        ('{"b":null}', {"a": None, "b": None}),
        NULL,
        ("[]", "!wrong-type"),
    ),
    declared("map<string, long>", ('{"":1,"k":null}', [("", 1), ("k", None)]), ("{}", []), ('{"k":"1"}', "!wrong-type")),
    declared("map<string, struct<x: double>>", ('{"k":{"x":-0.0}}', [("k", {"x": -0.0})])),
)
JSON_INFERRED = (
    inferred("`true`, `false`", "boolean", ("true", True), ("false", False), NULL, ("1", "!wrong-type")),
    inferred(
        "integer", "long", ("9223372036854775807", 2**63 - 1), ("-5", -5), ("9223372036854775808", "!out-of-range"), ("0.5", "!not-exact")
    ),
    inferred(
        "number with point or exponent", "double", ("1.5", 1.5), ("-0.0", -0.0), ("1E+2", 100.0), ("7", 7.0), ("1e309", "!out-of-range")
    ),
    inferred(
        "text", "string", ('"x"', "x"), ('""', ""), ('"2025-07-01"', "2025-07-01"), ("1", "!wrong-type"), about="never a date or a number"
    ),
    inferred(
        "object",
        "struct<x: double, y: struct<z: boolean>>",
        ('{"x":1.5,"y":{"z":true}}', {"x": 1.5, "y": {"z": True}}),
        ("{}", {"x": None, "y": None}),
        NULL,
    ),
    inferred("array", "list<struct<x: long>>", ('[{"x":1},null]', [{"x": 1}, None]), ("[]", []), ("[1]", "!wrong-type")),
    inferred("only `null`, `[]`, `{}`", "", ("null", None), ("[]", None), ("{}", None), ('{"x":[null]}', None), about="tells no type"),
    inferred("a name with a dot", "long", ("1", 1), name=("a.b", "a_b")),
    inferred("a name with `#`", "long", ("2", 2), name=("a#b", "a#b")),
    inferred("a name that begins with a digit", "long", ("3", 3), name=("1st", "1st")),
    inferred("a name beyond ASCII", "long", ("4", 4), name=("日本", "日本")),
    inferred("a name with a blank", "long", ("5", 5), name=("x y", "x y")),
    inferred("a name in two spellings", "long", ("6", 6), name=("userId", "userId"), about="`userid` in a later record is the same column"),
    inferred("a metadata column's name", "long", ("7", 7), name=("_offset", "_offset_")),
)
JSON_TYPED = (
    typed({"type": "boolean"}, "boolean", ("true", True), NULL, ('"x"', "!wrong-type")),
    typed({"type": "integer"}, "long", ("9223372036854775807", 2**63 - 1), ("9223372036854775808", "!out-of-range")),
    typed({"type": "number"}, "double", ("1", 1.0), ("0.1", 0.1), ("1e309", "!out-of-range")),
    typed({"type": "string"}, "string", ('"x"', "x"), ("1", "!wrong-type")),
    typed({"type": "string", "enum": ["RED", "GREEN"]}, "string", ('"RED"', "RED"), ('"BLUE"', "BLUE"), about="nothing is validated"),
    typed(
        {"type": "string", "format": "date-time"},
        "timestamptz",
        ('"1969-12-31T23:59:59.5+05:30"', at(1969, 12, 31, 18, 29, 59, 500000)),
        ('"2025-07-01T10:00:00"', "!zone"),
    ),
    typed({"type": "string", "format": "date"}, "date", ('"1969-12-31"', datetime.date(1969, 12, 31)), ('"today"', "!bad-text")),
    typed({"type": "string", "format": "uuid"}, "uuid", (json.dumps(str(A_UUID)), A_UUID), ('"x"', "!bad-text")),
    typed({"type": ["integer", "null"]}, "long", ("1", 1), NULL),
    typed({"oneOf": [{"type": "null"}, {"type": "number"}]}, "double", ("1", 1.0), NULL),
    typed({"type": "array", "items": {"type": "integer"}}, "list<long>", ("[]", []), ("[1,null]", [1, None])),
    typed({"type": "object", "properties": {"x": {"type": "number"}}}, "struct<x: double>", ('{"x":1}', {"x": 1.0}), ("{}", {"x": None})),
    typed({"type": "object", "additionalProperties": {"type": "integer"}}, "map<string, long>", ('{"k":1}', [("k", 1)]), ("{}", [])),
    typed({"type": ["integer", "string"]}, "string", ('"x"', "x"), about="several types: by the first value"),
    typed({}, "list<long>", ("[1]", [1]), about="no type: by the first value that tells one"),
)

# --- Avro --------------------------------------------------------------------------------------------------------------


def avro_row(schema: Any, column: str, sent: Sequence[Sent], about: str = "") -> Row:
    return Row(source="Avro", schema=schema, column=column, sent=tuple(sent), about=about)


def flow(schema: Any) -> str:
    """A schema without the quotes of JSON."""
    if isinstance(schema, dict):
        return "{" + ", ".join(f"{key}: {flow(value)}" for key, value in schema.items()) + "}"
    if isinstance(schema, list):
        return "[" + ", ".join(map(flow, schema)) + "]"
    return str(schema)


def plainly(value: Any) -> str:
    """A value as people write it."""
    if value is None:
        return "null"
    if isinstance(value, bytes):
        return value.hex() or "no bytes"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {plainly(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        pairs = bool(value) and all(isinstance(item, tuple) for item in value)
        return "{" + ", ".join(f"{key}: {plainly(item)}" for key, item in value) + "}" if pairs else f"[{', '.join(map(plainly, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _avro_dead(schema: Any, *pairs: tuple[Any, str]) -> dict[str, tuple[Sent, ...]]:
    return {flow(schema): tuple(Sent(data=value, shown=plainly(value), code=code) for value, code in pairs)}


def _logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


_AVRO_DEAD = (
    _avro_dead(_logical("int", "date"), (2**31 - 1, "out-of-range"))
    | _avro_dead(_logical("int", "time-millis"), (86_400_000, "out-of-range"), (-1, "out-of-range"))
    | _avro_dead(_logical("long", "time-micros"), (2**62, "out-of-range"))
    | _avro_dead(_logical("long", "timestamp-millis"), (2**62, "out-of-range"), (-(2**62), "out-of-range"))
    | _avro_dead(_logical("long", "timestamp-micros"), (253_402_300_800_000_000, "out-of-range"))
    | _avro_dead(_logical("long", "local-timestamp-micros"), (-62_135_596_800_000_001, "out-of-range"))
    | _avro_dead(_logical("string", "uuid"), ("no uuid", "bad-text"))
    | _avro_dead(_logical("bytes", "decimal", precision=10, scale=2), (b"\x7f" * 9, "out-of-range"))
)
_AVRO_MORE = {
    "double": (Sent(data=NAN, shown="nan", read=NAN), Sent(data=5e-324, shown="5e-324", read=5e-324)),
    "float": (Sent(data=NAN, shown="nan", read=NAN), Sent(data=-0.0, shown="-0.0", read=-0.0)),
}
AVRO = tuple(
    avro_row(
        case.schema,
        case.column,
        [
            *(Sent(data=data, shown=plainly(data), read=read) for data, read in zip(case.written, case.read or case.written, strict=True)),
            *_AVRO_MORE.get(flow(case.schema), ()),
            *_AVRO_DEAD.get(flow(case.schema), ()),
        ],
        case.about,
    )
    for case in CASES
)

# --- Protobuf, written by hand: tag and payload, as its documentation of the encoding says --------------------------------


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes((*out, number))


def zigzag(number: int) -> bytes:
    return varint((number << 1) ^ (number >> 63))


def sized(data: bytes) -> bytes:
    return varint(len(data)) + data


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """A field's occurrences in a message: wire type and payload of each."""

    kind: int
    payloads: tuple[bytes, ...]

    def field(self, number: int) -> bytes:
        return b"".join(varint(number << 3 | self.kind) + payload for payload in self.payloads)


VARINT, I64, LEN, I32 = 0, 1, 2, 5


def proto_row(schema: str, column: str, kind: int, *pairs: tuple[Any, Any], about: str = "", absent: Any = None) -> Row:
    """``pairs``: payload, or payloads in a tuple, and what is read. ``absent``: what a message without the field shows."""
    sent = []
    for data, read in pairs:
        payloads = data if isinstance(data, tuple) else (data,)
        wire = Wire(kind=kind, payloads=payloads)
        shown = " ".join(payload.hex() or "–" for payload in payloads) or "absent"
        bad = isinstance(read, str) and read.startswith("!")
        sent.append(Sent(data=wire, shown=shown, code=read[1:]) if bad else Sent(data=wire, shown=shown, read=read))
    sent.append(Sent(data=Wire(kind=kind, payloads=()), shown="absent", read=absent))
    return Row(source="Protobuf", schema=schema, column=column, sent=tuple(sent), about=about)


def stamp(seconds: int, nanos: int) -> bytes:
    return sized((b"\x08" + varint(seconds) if seconds else b"") + (b"\x10" + varint(nanos) if nanos else b""))


PROTO_DECLARATIONS = """
  enum Suit { SUIT_UNKNOWN = 0; SPADES = 1; }
  message Inner { int32 x = 1; optional string y = 2; }
  message Node { int32 v = 1; Node next = 2; }
  message Nothing {}
"""
PROTOBUF = (
    proto_row("bool", "boolean", VARINT, (b"\x01", True), absent=False),
    proto_row(
        "int32", "int", VARINT, (varint(-(2**31)), -(2**31)), (varint(2**31 - 1), 2**31 - 1), (varint(2**40), "!not-protobuf"), absent=0
    ),
    proto_row("sint32", "int", VARINT, (zigzag(-(2**31)), -(2**31)), absent=0),
    proto_row("sfixed32", "int", I32, (struct.pack("<i", -7), -7), absent=0),
    proto_row("uint32", "long", VARINT, (varint(2**32 - 1), 2**32 - 1), absent=0),
    proto_row("fixed32", "long", I32, (struct.pack("<I", 2**32 - 1), 2**32 - 1), absent=0),
    proto_row("int64", "long", VARINT, (varint(-(2**63)), -(2**63)), (varint(2**63 - 1), 2**63 - 1), absent=0),
    proto_row("sint64", "long", VARINT, (zigzag(-(2**63)), -(2**63)), absent=0),
    proto_row("sfixed64", "long", I64, (struct.pack("<q", -(2**63)), -(2**63)), absent=0),
    proto_row(
        "uint64", "decimal(20,0)", VARINT, (varint(2**64 - 1), Decimal(2**64 - 1)), absent=Decimal(0), about="past 64 bits with sign"
    ),
    proto_row("fixed64", "decimal(20,0)", I64, (struct.pack("<Q", 2**64 - 1), Decimal(2**64 - 1)), absent=Decimal(0)),
    proto_row(
        "float",
        "float",
        I32,
        (struct.pack("<f", -0.0), -0.0),
        (struct.pack("<f", NAN), NAN),
        (struct.pack("<f", INFINITY), INFINITY),
        absent=0.0,
    ),
    proto_row(
        "double",
        "double",
        I64,
        (struct.pack("<d", 5e-324), 5e-324),
        (struct.pack("<d", NAN), NAN),
        (struct.pack("<d", -INFINITY), -INFINITY),
        absent=0.0,
    ),
    proto_row("string", "string", LEN, (sized("日本\0".encode()), "日本\0"), (sized(b"\xff"), "!not-utf8"), absent=""),
    proto_row("optional string", "string", LEN, (sized(b""), ""), (sized(b"x"), "x"), about="absent is null, empty is empty"),
    proto_row("bytes", "binary", LEN, (sized(b"\x00\xff"), b"\x00\xff"), absent=b""),
    proto_row(
        "Suit",
        "string",
        VARINT,
        (b"\x01", "SPADES"),
        (b"\x07", "7"),
        absent="SUIT_UNKNOWN",
        about="an enum; a number without symbol: its digits",
    ),
    proto_row(
        "Inner", "struct<x: int, y: string>", LEN, (sized(b"\x08\x05\x12\x00"), {"x": 5, "y": ""}), (sized(b""), {"x": 0, "y": None})
    ),
    proto_row(
        "Node",
        "struct<v: int, next: string>",
        LEN,
        (sized(b"\x08\x01\x12" + sized(b"\x08\x02")), {"v": 1, "next": '{"v":2,"next":null}'}),
        about="a message within itself is JSON text from there on",
    ),
    proto_row("Nothing", "string", LEN, (sized(b""), "{}"), about="a message without fields is JSON text"),
    proto_row("repeated int32", "list<int>", LEN, (sized(varint(0) + varint(-1) + varint(300)), [0, -1, 300]), absent=[], about="packed"),
    proto_row("repeated string", "list<string>", LEN, ((sized(b""), sized(b"a")), ["", "a"]), absent=[]),
    proto_row(
        "repeated Inner",
        "list<struct<x: int, y: string>>",
        LEN,
        ((sized(b"\x08\x01"), sized(b"")), [{"x": 1, "y": None}, {"x": 0, "y": None}]),
        absent=[],
    ),
    proto_row("map<string, int64>", "map<string, long>", LEN, (sized(b"\x0a\x01k\x10" + varint(2**53 + 1)), [("k", 2**53 + 1)]), absent=[]),
    proto_row(
        "map<int32, double>",
        "map<string, double>",
        LEN,
        (sized(b"\x08" + varint(-3) + b"\x11" + struct.pack("<d", 0.5)), [("-3", 0.5)]),
        absent=[],
        about="keys as text",
    ),
    proto_row(
        "map<bool, Inner>",
        "map<string, struct<x: int, y: string>>",
        LEN,
        (sized(b"\x08\x01\x12" + sized(b"\x08\x02")), [("true", {"x": 2, "y": None})]),
        absent=[],
    ),
    proto_row(
        "google.protobuf.Timestamp",
        "timestamptz",
        LEN,
        (stamp(-1, 500_000_000), at(1969, 12, 31, 23, 59, 59, 500000)),
        (stamp(1_751_364_000, 123_456_000), at(2025, 7, 1, 10, 0, 0, 123456)),
        (stamp(1, 1), "!not-exact"),
        (stamp(2**40, 0), "!out-of-range"),
    ),
    proto_row("google.protobuf.Int64Value", "long", LEN, (sized(b"\x08\x00"), 0), (sized(b""), 0), about="absent is null"),
    proto_row("google.protobuf.StringValue", "string", LEN, (sized(b"\x0a\x01x"), "x")),
    proto_row("google.protobuf.Duration", "struct<seconds: long, nanos: int>", LEN, (stamp(-1, 0), {"seconds": -1, "nanos": 0})),
)

# --- one value -----------------------------------------------------------------------------------------------------------


def plain_row(kind: str, column: str, *pairs: tuple[bytes, Any], about: str = "") -> Row:
    sent = [
        Sent(data=data, shown=data.hex() or "no bytes", code=read[1:])
        if isinstance(read, str) and read.startswith("!")
        else Sent(data=data, shown=data.hex() or "no bytes", read=read)
        for data, read in pairs
    ]
    return Row(source="One value", schema=kind, column=column, sent=(*sent, Sent(data=None, shown="no value", read=None)), about=about)


PLAIN = (
    plain_row("raw", "binary", (b"\x00\xff", b"\x00\xff"), (b"", b"")),
    plain_row("string", "string", ("日本".encode(), "日本"), (b"", ""), (b"\xff", "!not-utf8")),
    plain_row("int", "int", (struct.pack(">i", -(2**31)), -(2**31)), (b"\x00", "!wrong-type")),
    plain_row("long", "long", (struct.pack(">q", -(2**63)), -(2**63)), (b"", "!wrong-type")),
    plain_row("float", "float", (struct.pack(">f", NAN), NAN), (struct.pack(">f", -0.0), -0.0)),
    plain_row("double", "double", (struct.pack(">d", INFINITY), INFINITY), (struct.pack(">d", 5e-324), 5e-324)),
)
ROWS: tuple[Row, ...] = (*JSON_INFERRED, *JSON_DECLARED, *JSON_TYPED, *AVRO, *PROTOBUF, *PLAIN)


# --- many rows as one format's records -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Rows as the columns of one table: what is produced, and what a reader must see of it.

    ``kind``: of values; ``schema``: what a registry is to hold, with its kind; ``columns``: declared ones.
    ``values``: None is a record without value; the framing is left to whoever knows the schema's id.
    """

    name: str
    kind: str
    schema: tuple[str, str] | None
    columns: tuple[str, ...]
    values: tuple[bytes | None, ...]
    types: tuple[str, ...]
    """``name type`` of each column, as columns are declared."""
    read: tuple[dict[str, Any] | None, ...]
    """By record: the columns that a reader sees; None: a dead letter."""
    codes: tuple[str, ...]


def loads(*, time: bool) -> tuple[Load, ...]:
    """The tables of all rows with, or without, times of day."""
    found = []
    for name, rows in (
        ("json_inferred", JSON_INFERRED),
        ("json_declared", JSON_DECLARED),
        ("json_schema", JSON_TYPED),
        ("avro", AVRO),
        ("protobuf", PROTOBUF),
    ):
        chosen = [row for row in rows if row.has_time is time]
        if chosen:
            found.append(load_of(name + ("_time" if time else ""), chosen))
    return tuple(found) + (() if time else tuple(_plain_load(row) for row in PLAIN))


def load_of(name: str, rows: Sequence[Row]) -> Load:
    """A record per position with the good values of every row, then one per bad value with nothing else in it."""
    source = rows[0].source
    fields = [(row.name[0] if row.name else f"c{at}", row.name[1] if row.name else f"c{at}", row) for at, row in enumerate(rows)]
    records: list[tuple[dict[int, Sent], str]] = []
    for at in range(max(len(row.good) for row in rows)):
        records.append(({number: row.good[at % len(row.good)] for number, row in enumerate(rows) if row.good}, ""))
    for number, row in enumerate(rows):
        records += [({number: one}, one.code) for one in row.bad]
    empty = _EMPTY[source]
    read = [
        None
        if code
        else {column: (sent[number].read if number in sent else empty(row)) for number, (_, column, row) in enumerate(fields) if row.column}
        for sent, code in records
    ]
    make = {"Avro": _avro, "Protobuf": _protobuf}.get(source, _json)
    schema, values = make([(field, row) for field, _, row in fields], [sent for sent, _ in records])
    word = {"JSON": "json", "JSON, declared": "json", "JSON Schema": "json-schema", "Avro": "avro", "Protobuf": "protobuf"}[source]
    types = tuple(f"{_quoted(column)} {row.column}" for _, column, row in fields if row.column)
    return Load(
        name=name,
        kind=word,
        schema=schema,
        columns=types if source == "JSON, declared" else (),
        values=tuple(values),
        types=types,
        read=tuple(read),
        codes=tuple(code for _, code in records),
    )


_EMPTY: dict[str, Any] = {
    "JSON": lambda _: None,
    "JSON, declared": lambda _: None,
    "JSON Schema": lambda _: None,
    "Avro": lambda _: None,
    "Protobuf": lambda row: row.good[-1].read,
}


def _quoted(name: str) -> str:
    return f"`{name}`" if " " in name else name


def _json(fields: Sequence[tuple[str, Row]], records: Sequence[dict[int, Sent]]) -> tuple[tuple[str, str] | None, list[bytes]]:
    schema = {"type": "object", "properties": {name: row.schema for name, row in fields}}
    values = ["{" + ",".join(f"{json.dumps(fields[at][0])}:{one.data}" for at, one in sent.items()) + "}" for sent in records]
    wanted = ("JSON", json.dumps(schema)) if fields[0][1].source == "JSON Schema" else None
    return wanted, [value.encode() for value in values]


def _avro(fields: Sequence[tuple[str, Row]], records: Sequence[dict[int, Sent]]) -> tuple[tuple[str, str], list[bytes]]:
    """Every field may be null, so that a record can hold one value alone."""
    forms = [{"name": name, "type": _or_null(row.schema)} for name, row in fields]
    schema = {"type": "record", "name": "All", "fields": forms}
    values = [body(schema, {fields[at][0]: one.data for at, one in sent.items()}) for sent in records]
    return ("AVRO", json.dumps(schema)), values


def _or_null(schema: Any) -> Any:
    if schema == "null":
        return schema
    branches = schema if isinstance(schema, list) else [schema]
    return branches if "null" in branches else ["null", *branches]


def _protobuf(fields: Sequence[tuple[str, Row]], records: Sequence[dict[int, Sent]]) -> tuple[tuple[str, str], list[bytes]]:
    lines = [f"  {row.schema} {name} = {number};" for number, (name, row) in enumerate(fields, start=1)]
    imports = "".join(f'import "google/protobuf/{name}.proto";\n' for name in ("timestamp", "wrappers", "duration"))
    text = f'syntax = "proto3";\n{imports}message All {{{PROTO_DECLARATIONS}' + "\n".join(lines) + "\n}\n"
    return ("PROTOBUF", text), [b"".join(one.data.field(at + 1) for at, one in sent.items()) for sent in records]


def _plain_load(row: Row) -> Load:
    return Load(
        name=f"one_{row.schema}",
        kind=row.schema,
        schema=None,
        columns=(),
        values=tuple(one.data for one in row.sent),
        types=(f"value {row.column}",),
        read=tuple(None if one.code else {"value": one.read} for one in row.sent),
        codes=tuple(one.code for one in row.sent),
    )


def framed(load: Load, schema_id: int) -> list[bytes | None]:
    """The values with what their kind puts before them."""
    if load.schema is None:
        return list(load.values)
    prefix = b"\0" + schema_id.to_bytes(4, "big") + (b"\0" if load.kind == "protobuf" else b"")
    return [None if value is None else prefix + value for value in load.values]
