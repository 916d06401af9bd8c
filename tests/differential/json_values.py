"""Random schemas and JSON documents for them: mostly right, often odd, sometimes broken. One seed, one sequence."""

from __future__ import annotations

import json
import random
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

import pyarrow as pa

from frazil.schemas import DecodeOptions, parse_columns
from frazil.schemas.policy import Policy

RESERVED = frozenset({"_offset", "_topic"})
NAMES = (
    "a", "b", "id", "A", "Id", "a.b", "a_b", "A.B", "_offset", "_offset_", "_OFFSET", "_topic", "c d", "größe", "GRÖSSE", "日本",
    "q\"q", "back\\slash", "x" * 300, "", "K", "İd", "Σς", "id2", "v", "w", "tags", "😀", "a\u0000", "Kelvin\u212a", "kelvink",
    "old", "renamed", "_extra", "a__string", "v__long",
)  # fmt: skip
COLUMN_NAMES = (
    "a",
    "b",
    "id",
    "a_b",
    "_offset_",
    "c d",
    "größe",
    "日本",
    'q""q',
    "back\\slash",
    "v",
    "w",
    "kelvink",
    "Long_Name_Of_A_Column",
)
SCALARS = (
    "boolean", "int", "long", "float", "double", "decimal(6,2)", "decimal(38,10)", "decimal(38,0)", "decimal(1,1)", "date", "time",
    "timestamp", "timestamptz", "string", "uuid", "binary", "fixed(2)", "fixed(5)",
)  # fmt: skip
NUMBERS = (
    "0", "-0", "1", "-1", "1.0", "1e3", "1E3", "1.5", "1.25", "1.125", "1e-2", "0.1", "-0.0", "-0e0", "2147483647", "2147483648",
    "-2147483648", "-2147483649", "9007199254740993", "9007199254740992", "-9007199254740993", "16777216", "16777217", "16777218",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "18446744073709551615",
    "18446744073709551616", "1e308", "1.7976931348623157e308", "1.7976931348623159e308", "1e309", "1e39", "3.4028235e38", "3.4028236e38",
    "5e-324", "2e-324", "1e-400", "2.2250738585072011e-308", "1e999999999", "1e-999999999", "-1e999999999", "0e99999999999999999999",
    "123456789012345678901234567890", "99999999999999999999999999999999999999", "100000000000000000000000000000000000000",
    "0.12345678901234567890123456789", "1234.56", "12345.6", "12345.67", "1E+2", "10.50e1", "1.50e1", "1.5000", "0.00000000001",
    "1e22", "1e23", "100000000000000000000000", "10000000000000000000000", "8.5e22", "0.3", "123456789.123456789e-5", "9" * 400,
    "0." + "1" * 400, "1" + "0" * 400 + "e-400", "0." + "0" * 400 + "1e401", "1." + "0" * 60, "9007199254740993.0", "9007199254740992.5",
)  # fmt: skip
BROKEN_NUMBERS = (
    "01",
    "+1",
    "1.",
    ".5",
    "1e",
    "1e+",
    "-",
    "--1",
    "0x10",
    "1_000",
    "NaN",
    "Infinity",
    "-Infinity",
    "１",
    "1.e3",
    "00",
    "-01",
)
TEXTS = (
    "", "x", "1", "true", "null", "é 😀 日本", "\n\t\"\\/\b\f\r", "\u0000\u001f\u007f", "[{[{", "a" * 15, "a" * 16, "a" * 17, "b" * 31,
    "c" * 200,
    "é" * 40, "2025-07-01", "2024-02-29", "2025-02-29", "2025-02-30", "0001-01-01", "0000-01-01", "9999-12-31", "1900-02-29", "2000-02-29",
    "20250701", "2025-7-1", "10:00", "23:59:59.999999", "24:00", "10:00:60", "07:05:00.1234567", "07:05:00.1234560", "10:00:", "10:00:0",
    "10:00:00.", "2025-07-01T10:00:00Z", "2025-07-01t10:00:00z", "2025-07-01 10:00:00+0200", "2025-07-01T10:00:00.123456+02:00",
    "2025-07-01T10:00:00.1-05", "2025-07-01T10:00Z", "2025-07-01T10:00+05:30", "2025-07-01T10:00-2359", "2025-07-01T10:00+24:00",
    "2025-07-01T10:00+02:60", "2025-07-01T10:00:00", "2025-07-01 10:00", "2025-07-01T10:00:00.1234567Z", "2025-07-01T10:00:00.123456000Z",
    "0001-01-01T00:00:00+01:00", "0001-01-01T00:00:00-01:00", "9999-12-31T23:59:59.999999-01:00", "9999-12-31T23:59:59.999999Z",
    "1969-12-31T23:59:59.999999Z", "2025-07-01T10:00:00 Z", "2025-07-01X10:00:00Z", "f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
    "F81D4FAE-7DEC-11D0-A765-00A0C91E6BF6", "f81d4fae7dec11d0a76500a0c91e6bf6", "f81d4fae-7dec-11d0-a765-00a0c91e6bfg", "AP8=", "AP9=",
    "AA==",
    "AB==", "AP8", "AP8A", "_-8=", "////", "++++", "AP8=AP8=", "=", "====", "A===", "AAAAAAA=", "AAAA\n", "２０２５-07-01",
)  # fmt: skip
BITS = (
    b'"', b"\\", b"{", b"}", b"[", b"]", b":", b",", b"\\u", b"\\ud800", b"\\udc00", b"\\u00e9", b"1e9999999", b"NaN", b"\xff", b"\x00",
    b" ", b"-",
    b".", b"9" * 30, b'"a":1', b"\xc3", b"\xa9", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\t", b"\n", b"null", b"\x1f", b"\xe2\x84\xaa", b"e",
    b"0",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """What a slice is decoded under."""

    declared: pa.Schema | None
    had: pa.Schema | None
    options: DecodeOptions
    sample: int


def random_type(chance: random.Random, depth: int = 0) -> str:
    kind = chance.random()
    if depth > 2 or kind < 0.6:
        return chance.choice(SCALARS)
    inner = random_type(chance, depth + 1) + chance.choice(("", "", "", " not null"))
    if kind < 0.73:
        return f"list<{inner}>"
    if kind < 0.82:
        return f"map<string, {inner}>"
    names = chance.sample(COLUMN_NAMES, chance.randrange(1, 5))
    return (
        "struct<"
        + ", ".join(f'"{name}": {random_type(chance, depth + 1)}{chance.choice(("", "", "", " not null"))}' for name in names)
        + ">"
    )


def random_schema(chance: random.Random) -> pa.Schema:
    names = chance.sample(COLUMN_NAMES, chance.randrange(0, 7))
    return parse_columns([f'"{name}" {random_type(chance)}{chance.choice(("", "", "", "", " not null"))}' for name in names])


def random_policy(chance: random.Random) -> Policy:
    """Half of the tables have none; some rename, whatever their columns are."""
    if chance.random() < 0.5:
        return Policy()
    unknown = chance.choice(("add", "add", "ignore", "deadletter"))
    return Policy(
        unknown=unknown,
        conflict=chance.choice(("deadletter", "suffix", "suffix")) if unknown == "add" else "deadletter",
        renames=chance.choice(({}, {}, {"id2": "renamed"}, {"old": "v"}, {"größe": "Größe neu"})),
        overflow=chance.choice(("", "_extra")) if unknown != "deadletter" else "",
    )


def random_table(chance: random.Random) -> Table:
    schema = random_schema(chance)
    options = DecodeOptions(
        reserved=RESERVED,
        columns_max=chance.choice((12, 1000)),
        depth_max=chance.choice((5, 64, 64, 64, 200)),
        null_value_rows=chance.random() < 0.7,
        value_bytes_max=200 if chance.random() < 0.1 else 1 << 24,
        policy=random_policy(chance),
    )
    policy = chance.random()
    if policy < 0.5:
        return Table(declared=schema, had=None, options=options, sample=3)
    return Table(declared=None, had=schema if policy < 0.8 else None, options=options, sample=chance.choice((0, 1, 3, 256)))


def quoted(chance: random.Random, text: str) -> str:
    found = json.dumps(text, ensure_ascii=chance.random() < 0.4)
    return found.replace("/", "\\/") if chance.random() < 0.2 else found


def blank(chance: random.Random) -> str:
    return chance.choice((" ", "\n", "\t ", "\r\n  ")) if chance.random() < 0.04 else ""


def any_value(chance: random.Random, depth: int = 0) -> str:
    """JSON of no column in particular."""
    kind = chance.random()
    if depth < 4 and kind < 0.12:
        return "[" + ",".join(any_value(chance, depth + 1) for _ in range(chance.randrange(4))) + blank(chance) + "]"
    if depth < 4 and kind < 0.26:
        return any_object(chance, depth + 1)
    if kind < 0.45:
        return chance.choice(NUMBERS)
    if kind < 0.48:
        return chance.choice(BROKEN_NUMBERS)
    if kind < 0.6:
        return chance.choice(("null", "true", "false", "[]", "{}", "[[]]", "[null]", '{"x":null}'))
    return quoted(chance, chance.choice(TEXTS))


def any_object(chance: random.Random, depth: int) -> str:
    count = 40 if chance.random() < 0.01 else chance.randrange(4)
    names = [chance.choice(NAMES) if count < 5 else f"n{chance.randrange(500)}" for _ in range(count)]
    return "{" + ",".join(f"{quoted(chance, name)}{blank(chance)}:{any_value(chance, depth)}" for name in names) + "}"


def _digits(chance: random.Random) -> str:
    return str(chance.getrandbits(chance.choice((3, 8, 16, 31, 40, 53, 63, 64, 100))) * chance.choice((1, -1)))


def _number(chance: random.Random) -> str:
    kind = chance.random()
    if kind < 0.3:
        return chance.choice(NUMBERS)
    if kind < 0.6:
        return _digits(chance)
    if kind < 0.8:
        return repr(chance.uniform(-1, 1) * 10 ** chance.randrange(-30, 30))
    return f"{_digits(chance)}.{chance.getrandbits(30)}" + (f"e{chance.randrange(-30, 30)}" if chance.random() < 0.3 else "")


def _stamp(chance: random.Random, zone: bool) -> str:
    year, month, day = (
        chance.choice((1, 1600, 1969, 1970, 2000, 2024, 2025, 9999)),
        chance.randrange(1, 13),
        chance.choice((1, 9, 28, 30, 31)),
    )
    clock = f"{chance.randrange(24):02}:{chance.randrange(60):02}" + chance.choice(("", f":{chance.randrange(60):02}"))
    if clock.count(":") == 2 and chance.random() < 0.6:
        clock += "." + f"{chance.getrandbits(24):08}"[: chance.randrange(1, 8)] + chance.choice(("", "", "000"))
    end = chance.choice(("Z", "z", "+00:00", "-05", "+0530", "-23:59")) if zone else ""
    return f"{year:04}-{month:02}-{day:02}{chance.choice('TTT t')}{clock}{end}"


def _integer(chance: random.Random, bits: int) -> str:
    if chance.random() < 0.1:
        return _number(chance)
    return str(chance.getrandbits(chance.randrange(1, bits)) * chance.choice((1, -1)))


def _floating(chance: random.Random) -> str:
    return _number(chance) if chance.random() < 0.2 else chance.choice((repr(chance.uniform(-1000, 1000)), str(chance.randrange(10**6))))


def _decimal(chance: random.Random, arrow: pa.Decimal128Type) -> str:
    if chance.random() < 0.1:
        return _number(chance)
    whole = "0" if arrow.precision == arrow.scale else str(chance.randrange(10 ** chance.randrange(1, arrow.precision - arrow.scale + 1)))
    fraction = "".join(chance.choices("0123456789", k=chance.randrange(arrow.scale + 1)))
    return f"{whole}.{fraction}{chance.choice(('', '', '000'))}" if fraction else whole


def _scalar_text(chance: random.Random, arrow: pa.DataType) -> str:
    if chance.random() < 0.1:
        return chance.choice(TEXTS)
    if pa.types.is_timestamp(arrow):
        return _stamp(chance, zone=arrow.tz is not None)
    if pa.types.is_date(arrow):
        return _stamp(chance, zone=False)[:10]
    if pa.types.is_time(arrow):
        return _stamp(chance, zone=False)[11:]
    if arrow == pa.uuid():
        return str(UUID(int=chance.getrandbits(128)))
    if pa.types.is_binary(arrow) or pa.types.is_fixed_size_binary(arrow):
        size = arrow.byte_width if isinstance(arrow, pa.FixedSizeBinaryType) else chance.randrange(9)
        return b64encode(chance.randbytes(size)).decode()
    return chance.choice(TEXTS)


def value_for(chance: random.Random, arrow: pa.DataType, depth: int = 0) -> str:
    """JSON that mostly fits a type."""
    if chance.random() < 0.02:
        return any_value(chance, 2) if chance.random() < 0.5 else "null"
    if isinstance(arrow, pa.StructType):
        return object_for(chance, list(arrow), depth)
    if isinstance(arrow, pa.ListType):
        items = [value_for(chance, arrow.value_type, depth + 1) for _ in range(chance.randrange(4))]
        return "[" + f"{blank(chance)},".join(items) + "]"
    if isinstance(arrow, pa.MapType):
        names = [chance.choice(NAMES) if chance.random() < 0.5 else f"k{chance.randrange(99)}" for _ in range(chance.randrange(4))]
        return "{" + ",".join(f"{quoted(chance, name)}:{value_for(chance, arrow.item_type, depth + 1)}" for name in names) + "}"
    if pa.types.is_boolean(arrow):
        return chance.choice(("true", "false"))
    if pa.types.is_integer(arrow):
        return _integer(chance, arrow.bit_width)
    if pa.types.is_floating(arrow):
        return _floating(chance)
    if isinstance(arrow, pa.Decimal128Type):
        return _decimal(chance, arrow)
    return quoted(chance, _scalar_text(chance, arrow))


def object_for(chance: random.Random, fields: list[pa.Field], depth: int = 0) -> str:
    """An object that mostly fits a struct."""
    found = [field for field in fields if not (field.nullable and chance.random() < 0.1)]
    if chance.random() < 0.2:
        chance.shuffle(found)
    pairs = [
        (field.name if chance.random() < 0.98 else field.name.swapcase().replace("_", "."), value_for(chance, field.type, depth))
        for field in found
    ]
    if chance.random() < 0.15:
        pairs.insert(chance.randrange(len(pairs) + 1), (chance.choice(NAMES), any_value(chance, depth + 1)))
    body = ",".join(f"{blank(chance)}{quoted(chance, name)}:{blank(chance)}{value}" for name, value in pairs)
    return "{" + body + blank(chance) + "}"


def mutate(chance: random.Random, document: bytes, times: int) -> bytes:
    value = bytearray(document)
    for _ in range(times):
        at = chance.randrange(len(value) + 1)
        kind = chance.randrange(5)
        if kind == 0:
            value[at:at] = chance.choice(BITS)
        elif kind == 1:
            del value[at : at + chance.randint(1, 8)]
        elif kind == 2:
            value[at : at + 1] = bytes([chance.randrange(256)])
        elif kind == 3:
            begin = chance.randrange(len(value) + 1)
            value[at:at] = value[begin : begin + 20]
        else:
            value[at : at + 1] = chance.choice(BITS)
    return bytes(value)


def random_values(chance: random.Random, table: Table, count: int) -> list[bytes | None]:
    """Values of one slice: null, made for the table, of no table, and each of them mutated."""
    schema = table.declared if table.declared is not None else table.had
    fields = list(schema) if schema is not None else list(random_schema(chance))
    makers: list[Callable[[], str]] = [
        lambda: object_for(chance, fields),
        lambda: any_object(chance, 0),
        lambda: any_value(chance),
        lambda: '{"w":' + "[" * (depth := chance.choice((3, 4, 63, 64, 127, 128, 129))) + "]" * depth + "}",
    ]
    values: list[bytes | None] = []
    for _ in range(count):
        if chance.random() < 0.03:
            values.append(None)
            continue
        (make,) = chance.choices(makers, (80, 12, 4, 1))
        document = make().encode("utf-8", "surrogatepass")
        values.append(mutate(chance, document, chance.randint(1, 3)) if chance.random() < 0.2 else document)
    return values
