"""Every case of docs/json-semantics.md, once. The tables of that page are printed from here:

python -m tests.unit.schemas.json_cases
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from uuid import UUID


@dataclass(frozen=True)
class Case:
    """One value under one declared column ``v``: what ``v`` holds, or the code of the reject."""

    name: str
    column: str
    value: bytes | None
    lands: object = None
    code: str = ""
    path: str = ""
    shown: str = ""

    def value_text(self) -> str:
        if self.shown:
            return self.shown
        assert self.value is not None
        return f"`{self.value.decode()}`"

    def result_text(self) -> str:
        if self.code:
            return f"reject `{self.code}`" + (f" at `{self.path}`" if self.path else "")
        return f"lands as {self.lands_text()}"

    def lands_text(self) -> str:
        if isinstance(self.lands, bool):
            return "true" if self.lands else "false"
        if self.lands is None:
            return "null"
        if isinstance(self.lands, (datetime, date, time)):
            return self.lands.isoformat()
        return f"`{self.lands!r}`" if isinstance(self.lands, (bytes, str, list, dict)) else str(self.lands)


@dataclass(frozen=True)
class Slice:
    """A slice under the inferred policy: what the table had, what it has then, the rows, the rejects by row."""

    name: str
    values: tuple[str, ...]
    columns: tuple[str, ...]
    had: tuple[str, ...] = ()
    rejects: tuple[tuple[int, str], ...] = ()


def v(text: str) -> bytes:
    return b'{"v":' + text.encode() + b"}"


def q(text: str) -> bytes:
    return b'{"v":"' + text.encode() + b'"}'


DOCUMENTS = [
    Case("missing field", "v long", b"{}"),
    Case("null field", "v long", v("null")),
    Case("extra field", "v long", b'{"v":1,"w":[{}]}', 1),
    Case("blanks around the document", "v long", b' \n{"v":1}\t\r\n', 1, shown="blanks (space, tab, line feed, carriage return) around it"),
    Case("line feed inside the document", "v long", b'{\n"v":1\n}', 1, shown="line feeds between tokens"),
    Case("no value (tombstone)", "v long", None, shown="record without value"),
    Case("no value, required column", "v long not null", None, code="null-value", shown="record without value"),
    Case("missing field, required column", "v long not null", b"{}", code="required", path="v"),
    Case("null field, required column", "v long not null", v("null"), code="required", path="v"),
    Case("empty value", "v long", b"", code="empty", shown="no bytes"),
    Case("blank value", "v long", b" \n", code="empty", shown="only blanks"),
    Case("truncated document", "v long", b'{"v":1', code="not-json"),
    Case("garbage", "v long", b"hello", code="not-json"),
    Case("trailing text", "v long", b'{"v":1}x', code="not-json"),
    Case("two documents", "v long", b'{"v":1}{"v":2}', code="not-json"),
    Case("two documents on two lines", "v long", b'{"v":1}\n{"v":2}', code="not-json", shown="two objects with a line feed between"),
    Case("byte order mark", "v long", b'\xef\xbb\xbf{"v":1}', code="not-json", shown='U+FEFF before `{"v":1}`'),
    Case("trailing comma", "v long", b'{"v":1,}', code="not-json"),
    Case("comment", "v long", b'{"v":1/**/}', code="not-json"),
    Case("single quotes", "v long", b"{'v':1}", code="not-json"),
    Case("NaN", "v double", v("NaN"), code="not-json"),
    Case("Infinity", "v double", v("-Infinity"), code="not-json"),
    Case("leading zero", "v long", v("01"), code="not-json"),
    Case("leading plus", "v long", v("+1"), code="not-json"),
    Case("point without digits", "v double", v("1."), code="not-json"),
    Case("control character in a text", "v string", q("a\tb"), code="not-json", shown="a raw tab inside a text"),
    Case("escaped control character", "v string", q("a\\tb\\u0000"), "a\tb\0"),
    Case("unknown escape", "v string", q("\\x41"), code="not-json"),
    Case("NUL byte after the document", "v long", b'{"v":1}\0', code="not-json", shown='`{"v":1}` and a zero byte'),
    Case("invalid UTF-8", "v string", b'{"v":"\xff"}', code="not-utf8", shown="byte FF in a text"),
    Case("invalid UTF-8 in a field without column", "v string", b'{"w":"\xc3("}', code="not-utf8", shown="bytes C3 28 in a text"),
    Case("surrogate as UTF-8 bytes", "v string", b'{"v":"\xed\xa0\x80"}', code="not-utf8", shown="bytes ED A0 80 in a text"),
    Case("lone surrogate", "v string", q("\\ud800"), code="lone-surrogate"),
    Case("lone surrogate in a field without column", "v string", b'{"w":"\\uDC00x"}', code="lone-surrogate"),
    Case("lone surrogate in a name", "v string", b'{"\\ud83d":1}', code="lone-surrogate"),
    Case("surrogates in the wrong order", "v string", q("\\ude00\\ud83d"), code="lone-surrogate"),
    Case("surrogate pair", "v string", q("\\ud83d\\ude00"), "\U0001f600"),
    Case("escaped backslash before ud800", "v string", q("\\\\ud800"), "\\ud800"),
    Case("duplicate key", "v long", b'{"v":1,"v":1}', code="duplicate-key"),
    Case("duplicate key, one escaped", "v long", b'{"v":1,"\\u0076":2}', code="duplicate-key"),
    Case("duplicate key in a field without column", "v long", b'{"v":1,"w":{"x":1,"x":2}}', code="duplicate-key"),
    Case("top-level array", "v long", b'[{"v":1}]', code="not-an-object"),
    Case("top-level number", "v long", b"1", code="not-an-object"),
    Case("top-level text", "v long", b'"v"', code="not-an-object"),
    Case("top-level null", "v long", b"null", code="not-an-object"),
    Case("64 levels", "v long", b'{"v":1,"w":' + b"[" * 63 + b"]" * 63 + b"}", 1, shown="63 arrays in the object"),
    Case("65 levels", "v long", b'{"v":1,"w":' + b"[" * 64 + b"]" * 64 + b"}", code="too-deep", shown="64 arrays in the object"),
    Case("a million levels", "v long", b'{"v":' + b"[" * 1_000_000, code="too-deep", shown="1,000,000 opening brackets"),
    Case("brackets inside a text", "v string", q("[" * 100), "[" * 100, shown="a text of 100 `[`"),
    Case("too large", "v string", b'{"v":"' + b"a" * (16 << 20) + b'"}', code="too-large", shown="a text of 16 MiB"),
    Case("10 MB text", "v string", b'{"v":"' + b"a" * 10_000_000 + b'"}', "a" * 10_000_000, shown="a text of 10 MB"),
]

NUMBERS = [
    Case("text for int", "v int", q("1"), code="wrong-type", path="v"),
    Case("text for long", "v long", q("1"), code="wrong-type", path="v"),
    Case("true for long", "v long", v("true"), code="wrong-type", path="v"),
    Case("text for double", "v double", q("1.5"), code="wrong-type", path="v"),
    Case("text for decimal", "v decimal(10,2)", q("1.5"), code="wrong-type", path="v"),
    Case("number for boolean", "v boolean", v("1"), code="wrong-type", path="v"),
    Case("text for boolean", "v boolean", q("true"), code="wrong-type", path="v"),
    Case("boolean", "v boolean", v("true"), True),
    Case("number for string", "v string", v("5"), code="wrong-type", path="v"),
    Case("object for string", "v string", v("{}"), code="wrong-type", path="v"),
    Case("array for long", "v long", v("[]"), code="wrong-type", path="v"),
    Case("largest int", "v int", v("2147483647"), 2147483647),
    Case("above int", "v int", v("2147483648"), code="out-of-range", path="v"),
    Case("largest long", "v long", v("9223372036854775807"), 9223372036854775807),
    Case("smallest long", "v long", v("-9223372036854775808"), -9223372036854775808),
    Case("2^63 in long", "v long", v("9223372036854775808"), code="out-of-range", path="v"),
    Case("below long", "v long", v("-9223372036854775809"), code="out-of-range", path="v"),
    Case("above 2^53 in long", "v long", v("9007199254740993"), 9007199254740993),
    Case("fraction in int", "v int", v("1.5"), code="not-exact", path="v"),
    Case("1.0 in int", "v int", v("1.0"), 1),
    Case("1e3 in int", "v int", v("1e3"), 1000),
    Case("10.50e1 in int", "v int", v("10.50e1"), 105),
    Case("9007199254740993.0 in long", "v long", v("9007199254740993.0"), 9007199254740993),
    Case("1e-1 in long", "v long", v("1e-1"), code="not-exact", path="v"),
    Case("minus zero in long", "v long", v("-0.0"), 0),
    Case("zero with a huge exponent", "v long", v("0e999999999999"), 0),
    Case("1e999999999 in long", "v long", v("1e999999999"), code="out-of-range", path="v"),
    Case("1e-999999999 in long", "v long", v("1e-999999999"), code="not-exact", path="v"),
    Case("5,000 digits in long", "v long", v("1" * 5000), code="out-of-range", path="v", shown="a number of 5,000 digits"),
    Case("10 MB of digits in long", "v long", v("1" * 10_000_000), code="out-of-range", path="v", shown="a number of 10,000,000 digits"),
    Case(
        "10 MB of digits without column", "v long", b'{"v":1,"w":' + b"1" * 10_000_000 + b"}", 1, shown="10,000,000 digits in another field"
    ),
    Case("decimal fraction in double", "v double", v("0.1"), 0.1),
    Case("exponent in double", "v double", v("-1.5E+3"), -1500.0),
    Case("more digits than a double has", "v double", v("0.1234567890123456789"), 0.12345678901234568),
    Case("integer in double", "v double", v("7"), 7.0),
    Case("2^53 in double", "v double", v("9007199254740992"), 9007199254740992.0),
    Case("2^53+1 in double", "v double", v("9007199254740993"), code="not-exact", path="v"),
    Case("2^60 in double", "v double", v("1152921504606846976"), 1152921504606846976.0),
    Case("10^22 in double", "v double", v("1" + "0" * 22), 1e22),
    Case("10^23 in double", "v double", v("1" + "0" * 23), code="not-exact", path="v"),
    Case("minus zero in double", "v double", v("-0.0"), -0.0),
    Case("1e308 in double", "v double", v("1e308"), 1e308),
    Case("1e309 in double", "v double", v("1e309"), code="out-of-range", path="v"),
    Case("1e999999999 in double", "v double", v("1e999999999"), code="out-of-range", path="v"),
    Case("1e-400 in double", "v double", v("1e-400"), 0.0),
    Case("5,000 digits in double", "v double", v("0." + "1" * 5000), code="out-of-range", path="v", shown="0. and 5,000 digits"),
    Case("fraction in float", "v float", v("0.5"), 0.5),
    Case("2^24+1 in float", "v float", v("16777217"), code="not-exact", path="v"),
    Case("1e39 in float", "v float", v("1e39"), code="out-of-range", path="v"),
    Case("decimal", "v decimal(10,2)", v("12345678.91"), Decimal("12345678.91")),
    Case("decimal with 38 digits", "v decimal(38,2)", v("1" * 36 + ".25"), Decimal("1" * 36 + ".25")),
    Case("integer in decimal", "v decimal(10,2)", v("7"), Decimal("7.00")),
    Case("exponent in decimal", "v decimal(10,2)", v("1E+2"), Decimal("100.00")),
    Case("zeros beyond the scale", "v decimal(10,2)", v("1.5000"), Decimal("1.50")),
    Case("digits beyond the scale", "v decimal(9,2)", v("1.005"), code="not-exact", path="v"),
    Case("digits above the precision", "v decimal(4,2)", v("123.4"), code="out-of-range", path="v"),
    Case("1E+38 in decimal", "v decimal(38,0)", v("1E+38"), code="out-of-range", path="v"),
    Case("1e999999999 in decimal", "v decimal(38,0)", v("1e999999999"), code="out-of-range", path="v"),
    Case("1e-999999999 in decimal", "v decimal(38,10)", v("1e-999999999"), code="not-exact", path="v"),
]

NOON = datetime(2025, 7, 1, 10, tzinfo=UTC)
TEXTS = [
    Case("timestamp with Z", "v timestamptz", q("2025-07-01T10:00:00Z"), NOON),
    Case("timestamp with offset", "v timestamptz", q("2025-07-01T12:00:00+02:00"), NOON),
    Case("timestamp with space", "v timestamptz", q("2025-07-01 10:00:00+0000"), NOON),
    Case("timestamp with offset in hours", "v timestamptz", q("2025-07-01T05:00:00-05"), NOON),
    Case("timestamp without seconds", "v timestamptz", q("2025-07-01T10:00Z"), NOON),
    Case("small t and z", "v timestamptz", q("2025-07-01t10:00:00z"), NOON),
    Case("microseconds and offset", "v timestamptz", q("2025-07-01T12:00:00.123456+02:00"), NOON.replace(microsecond=123456)),
    Case("milliseconds", "v timestamptz", q("2025-07-01T10:00:00.5Z"), NOON.replace(microsecond=500000)),
    Case("before 1970", "v timestamptz", q("1969-12-31T23:59:59.999999Z"), datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)),
    Case("9 fractional digits, zeros at the end", "v timestamptz", q("2025-07-01T10:00:00.123456000Z"), NOON.replace(microsecond=123456)),
    Case("9 fractional digits", "v timestamptz", q("2025-07-01T10:00:00.123456789Z"), code="not-exact", path="v"),
    Case("epoch number in timestamptz", "v timestamptz", v("1751364000000"), code="wrong-type", path="v"),
    Case("epoch number in timestamp", "v timestamp", v("1751364000"), code="wrong-type", path="v"),
    Case("no zone in timestamptz", "v timestamptz", q("2025-07-01T10:00:00"), code="zone", path="v"),
    Case("zone in timestamp", "v timestamp", q("2025-07-01T10:00:00Z"), code="zone", path="v"),
    Case("timestamp without zone", "v timestamp", q("2025-07-01T10:00:00.25"), NOON.replace(tzinfo=None, microsecond=250000)),
    Case("year before 1 in UTC", "v timestamptz", q("0001-01-01T00:00:00+01:00"), code="out-of-range", path="v"),
    Case("year after 9999 in UTC", "v timestamptz", q("9999-12-31T23:59:59-01:00"), code="out-of-range", path="v"),
    Case("leap second", "v timestamptz", q("2016-12-31T23:59:60Z"), code="bad-text", path="v"),
    Case("hour 24", "v timestamp", q("2025-07-01T24:00:00"), code="bad-text", path="v"),
    Case("no such day, timestamp", "v timestamp", q("2025-02-29T00:00:00"), code="bad-text", path="v"),
    Case("date in timestamp", "v timestamp", q("2025-07-01"), code="bad-text", path="v"),
    Case("blank before the zone", "v timestamptz", q("2025-07-01 10:00:00 +00:00"), code="bad-text", path="v"),
    Case("digits of another script", "v date", q("２０２５-07-01"), code="bad-text", path="v"),
    Case("date", "v date", q("2025-07-01"), date(2025, 7, 1)),
    Case("basic date", "v date", q("20250701"), code="bad-text", path="v"),
    Case("no such day", "v date", q("2025-13-01"), code="bad-text", path="v"),
    Case("timestamp in date", "v date", q("2025-07-01T00:00:00Z"), code="bad-text", path="v"),
    Case("number in date", "v date", v("20270"), code="wrong-type", path="v"),
    Case("time", "v time", q("23:59:59.999999"), time(23, 59, 59, 999999)),
    Case("time without seconds", "v time", q("07:05"), time(7, 5)),
    Case("time with zone", "v time", q("07:05:00Z"), code="bad-text", path="v"),
    Case("time finer than a microsecond", "v time", q("07:05:00.1234567"), code="not-exact", path="v"),
    Case("uuid", "v uuid", q("F81D4FAE-7DEC-11D0-a765-00a0c91e6bf6"), UUID("f81d4fae-7dec-11d0-a765-00a0c91e6bf6")),
    Case("uuid in braces", "v uuid", q("{f81d4fae-7dec-11d0-a765-00a0c91e6bf6}"), code="bad-text", path="v"),
    Case("uuid without hyphens", "v uuid", q("f81d4fae7dec11d0a76500a0c91e6bf6"), code="bad-text", path="v"),
    Case("base64", "v binary", q("AP8="), b"\x00\xff"),
    Case("empty base64", "v binary", q(""), b""),
    Case("base64 without padding", "v binary", q("AP8"), code="bad-text", path="v"),
    Case("base64 of the URL alphabet", "v binary", q("_-8="), code="bad-text", path="v"),
    Case("base64 with a line feed", "v binary", q("AP8=\\n"), code="bad-text", path="v"),
    Case("base64 with loose bits", "v binary", q("AP9="), code="bad-text", path="v"),
    Case("fixed", "v fixed(2)", q("AP8="), b"\x00\xff"),
    Case("fixed of another size", "v fixed(3)", q("AP8="), code="out-of-range", path="v"),
    Case("empty text", "v string", q(""), ""),
]

NESTED = [
    Case("empty list", "v list<long>", v("[]"), []),
    Case("null list element", "v list<long>", v("[1,null]"), [1, None]),
    Case("null list element, required", "v list<long not null>", v("[1,null]"), code="required", path="v[1]"),
    Case("number for list", "v list<long>", v("1"), code="wrong-type", path="v"),
    Case("object for list", "v list<long>", v("{}"), code="wrong-type", path="v"),
    Case("array for struct", "v struct<a: long>", v("[]"), code="wrong-type", path="v"),
    Case("empty object for struct", "v struct<a: long>", v("{}"), {"a": None}),
    Case("extra field in a struct", "v struct<a: long>", v('{"a":1,"b":2}'), {"a": 1}),
    Case("wrong type nested", "v struct<b: list<struct<c: int>>>", v('{"b":[null,{"c":1},{"c":"1"}]}'), code="wrong-type", path="v.b[2].c"),
    Case("required nested field missing", "v struct<a: long not null>", v("{}"), code="required", path="v.a"),
    Case("null struct with a required field", "v struct<a: long not null>", v("null")),
    Case("map", "v map<string, long>", v('{"x":1,"X":null,"":2}'), [("x", 1), ("X", None), ("", 2)]),
    Case("wrong type in a map", "v map<string, long>", v('{"x y":"1"}'), code="wrong-type", path="v['x y']"),
    Case("uuid in a list", "v list<uuid>", v('["f81d4fae-7dec-11d0-a765-00a0c91e6bf6"]'), [UUID("f81d4fae-7dec-11d0-a765-00a0c91e6bf6")]),
    Case("decimal in a struct", "v struct<a: decimal(4,2)>", v('{"a":1.10}'), {"a": Decimal("1.10")}),
]

NAMES = [
    Case("name in other case", "v long", b'{"V":1}', 1),
    Case("two names of one column", "v long", b'{"v":1,"V":2}', code="ambiguous-name"),
    Case("two names of one struct field", "v struct<a: long>", v('{"a":1,"A":1}'), code="ambiguous-name", path="v"),
    Case("two names without column", "v long", b'{"v":1,"w":1,"W":2}', 1),
    Case("dot in a name", "v_x long", b'{"v.x":1}', 1),
    Case("dotted name beside an object", "v_x long", b'{"v":{"x":2},"v.x":1}', 1),
    Case("empty name without column", "v long", b'{"":0,"v":1}', 1),
]

GROUPS = {
    "The document": DOCUMENTS,
    "Numbers and booleans": NUMBERS,
    "Times, identifiers and bytes (always JSON text)": TEXTS,
    "Lists, structs and maps": NESTED,
    "Names": NAMES,
}
CASES = [case for group in GROUPS.values() for case in group]

WIDE = "{" + ",".join(f'"c{number}":1' for number in range(1001)) + "}"
SLICES = [
    Slice(
        "the six kinds",
        ('{"a":1,"b":1.0,"c":"2025-07-01","d":true,"e":{"f":[1]}}',),
        ("a long", "b double", "c string", "d boolean", "e struct<f: list<long>>"),
    ),
    Slice("null, [] and {} tell no type", ('{"a":null,"b":[],"c":{}}', '{"d":[null],"e":{"x":null},"f":[[]]}'), ()),
    Slice(
        "typed after null, [] and {}",
        ('{"a":null,"b":[],"c":{}}', '{"a":1,"b":[{"x":1}],"c":{"y":true}}', '{"b":[null,{"x":2}]}'),
        ("a long", "b list<struct<x: long>>", "c struct<y: boolean>"),
    ),
    Slice("[] where the slice shows a number", ('{"a":[]}', '{"a":1}'), ("a long",), rejects=((0, "wrong-type"),)),
    Slice("integer then fraction in a new column", ('{"a":1}', '{"a":1.5}'), ("a double",)),
    Slice("fraction then integer in a new column", ('{"a":1.5}', '{"a":2}'), ("a double",)),
    Slice("inexact integer, then fraction", ('{"a":9007199254740993}', '{"a":1.5}'), ("a long",), rejects=((1, "type-conflict"),)),
    Slice("fraction, then inexact integer", ('{"a":1.5}', '{"a":9007199254740993}'), ("a double",), rejects=((1, "type-conflict"),)),
    Slice("2^70 after a fraction", ('{"a":1.5}', '{"a":1180591620717411303424}'), ("a double",)),
    Slice("fraction into the table's long", ('{"a":1.5}', '{"a":2.0}'), ("a long",), had=("a long",), rejects=((0, "not-exact"),)),
    Slice("2^63 in a new column", ('{"a":9223372036854775808}',), (), rejects=((0, "out-of-range"),)),
    Slice(
        "first type wins",
        ('{"a":1}', '{"a":"x"}', '{"a":{"b":1}}', '{"a":2}'),
        ("a long",),
        rejects=((1, "type-conflict"), (2, "type-conflict")),
    ),
    Slice("a refused record leaves no column", ('{"a":1}', '{"new":1,"a":"x"}'), ("a long",), rejects=((1, "type-conflict"),)),
    Slice(
        "a refused record does not widen", ('{"a":1,"b":true}', '{"a":1.5,"b":0}'), ("a long", "b boolean"), rejects=((1, "type-conflict"),)
    ),
    Slice(
        "new nested fields", ('{"c":{"id":2,"d":{"n":"a"}}}',), ("c struct<id: long, d: struct<n: string>>",), had=("c struct<id: long>",)
    ),
    Slice(
        "new fields in a list",
        ('{"c":[{"id":1},{"x":true}]}',),
        ("c list<struct<id: long, x: boolean>>",),
        had=("c list<struct<id: long>>",),
    ),
    Slice(
        "new fields in a map",
        ('{"c":{"k":{"x":1.5}}}',),
        ("c map<string, struct<id: long, x: double>>",),
        had=("c map<string, struct<id: long>>",),
    ),
    Slice("columns in order of first sight", ('{"b":1}', '{"c":1,"a":1}'), ("z long", "b long", "c long", "a long"), had=("z long",)),
    Slice("names that differ in case", ('{"userId":1}', '{"userid":2}', '{"USERID":3}'), ("userId long",)),
    Slice(
        "both spellings in one record", ('{"a":1,"A":2}', '{"B":null,"b":1}'), (), rejects=((0, "ambiguous-name"), (1, "ambiguous-name"))
    ),
    Slice(
        "both spellings without a type",
        ('{"B":null,"b":[]}', '{"s":{"B":null,"b":null}}'),
        ("s struct<a: long>",),
        had=("s struct<a: long>",),
    ),
    Slice(
        "both spellings, one with a type",
        ('{"b":[1],"B":null}', '{"s":{"B":{},"b":1}}'),
        ("s struct<a: long>",),
        had=("s struct<a: long>",),
        rejects=((0, "ambiguous-name"), (1, "ambiguous-name")),
    ),
    Slice("a dot in a name", ('{"a":{"b":1},"a.b":2}',), ("a struct<b: long>", "a_b long")),
    Slice("a dot against an underscore", ('{"a_b":1,"a.b":2}',), (), rejects=((0, "ambiguous-name"),)),
    Slice("unusual names", ('{"a#b":1,"1st":2,"日本":3,"x y":4}',), ("a#b long", "1st long", "日本 long", "`x y` long")),
    Slice(
        "names of metadata columns", ('{"_offset":1,"_offset_":2,"_Offset__":3}',), ("_offset_ long", "_offset__ long", "_Offset___ long")
    ),
    Slice("empty name", ('{"":1}', '{"":null,"a":1}'), ("a long",), rejects=((0, "bad-name"),)),
    Slice("control character in a name", ('{"a\\n":1}',), (), rejects=((0, "bad-name"),)),
    Slice("more than 1,000 columns", (WIDE, '{"a":1}'), ("a long",), rejects=((0, "too-many-columns"),)),
]
RESERVED = frozenset({"_offset"})


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def tables() -> str:
    """The tables of docs/json-semantics.md."""
    lines: list[str] = []
    for title, group in GROUPS.items():
        lines += [f"### {title}", "", "| case | column | value | result |", "| --- | --- | --- | --- |"]
        for case in group:
            result = case.result_text() if len(case.result_text()) < 200 else "lands whole"
            lines.append(f"| {case.name} | `{case.column}` | {_cell(case.value_text())} | {_cell(result)} |")
        lines.append("")
    lines += [
        "### Inferred columns",
        "",
        "| case | table had | values | table has | rejects (row from 0) |",
        "| --- | --- | --- | --- | --- |",
    ]
    for slice_ in SLICES:
        values = "<br>".join(f"`{value}`" if len(value) < 200 else "an object of 1,001 fields" for value in slice_.values)
        had, has = (", ".join(f"`` {text} ``" for text in columns) or "–" for columns in (slice_.had, slice_.columns))
        rejects = ", ".join(f"{row}: `{code}`" for row, code in slice_.rejects) or "–"
        lines.append(f"| {slice_.name} | {had} | {_cell(values)} | {has} | {rejects} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(tables(), end="")
