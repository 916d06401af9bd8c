"""Records for the tables that every reader reads: each column type, in chunks whose values lie close together so that bounds prune."""

from __future__ import annotations

import base64
import datetime
import json
import math
import random
import struct
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeAlias

Row: TypeAlias = dict[str, Any]


def naive(year: int, month: int, day: int, *clock: int) -> datetime.datetime:
    """A time without zone."""
    return datetime.datetime(year, month, day, *clock, tzinfo=datetime.UTC).replace(tzinfo=None)


COLUMNS = (
    "b boolean", "i int", "j int", "l long", "f float", "g float", "d double", "dec9 decimal(9,2)", "dec18 decimal(18,4)",
    "dec38 decimal(38,10)", "day date", "at timestamp", "atz timestamptz", "s string", "word string", "u uuid", "bin binary", "fx fixed(6)",
    "pos struct<lat: double, name: string, deep: struct<n: long, t: timestamptz, u: uuid>>", "tags list<string>",
    "items list<struct<k: string, n: long>>", "m map<string, long>", "req long not null", "`odd name` string",
)  # fmt: skip
PREFIXES = (
    "plain", "", "\ud7ff", "\ud7ff" * 20, "\ue000", "\U0010ffff" * 18, "a" * 15 + "\ud7ff\ud7ff", "a" * 16,
    "a" * 15 + "\U0010ffff\U0010ffff",
    "\ufffd\uffff", "zebra with a name that is longer than sixteen", "\U0001f600\U0001f601", "éèê",
)  # fmt: skip
"""Each chunk's texts begin with one of these: around the surrogates, at the end of Unicode, at the length where bounds are cut."""
_LETTERS = ("a", "b", "Z", "'", "\\", "%", "_", " ", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff", "\0", "é")
_UTC = datetime.UTC

_EPOCH = naive(1970, 1, 1)
_MICRO = datetime.timedelta(microseconds=1)
_DAYS = (-719162, -141428, -25567, -1, 0, 1, 11016, 19000, 2932896)
"""0001-01-01, 1582-10-15, 1900-01-01, around 1970, 2000-02-29, now, 9999-12-31."""
_DOUBLES = (0.0, -0.0, 1.5, -1.5, 5e-324, 1.7976931348623157e308, -1e300, 0.1, 123456.789)


class Chunk:
    """Chunk number ``number``: where its values lie, and which columns are wholly null in it."""

    def __init__(self, number: int, seed: int) -> None:
        self.number = number
        self.chance = random.Random(f"{seed}/{number}")
        self.prefix = PREFIXES[number % len(PREFIXES)]
        names = [column.split("`")[1] if "`" in column else column.split()[0] for column in COLUMNS]
        self.nulls = set(self.chance.sample([name for name in names if name != "req"], 5)) if number % 3 == 2 else set()
        self.same = number % 5 == 4
        """All values of a column are one and the same: lower bound = upper bound."""

    def rows(self, count: int) -> list[Row]:
        """``count`` records, as the values a reader must show."""
        makers = self._makers()
        fixed = {name: make() for name, make in makers.items()} if self.same else {}
        found = []
        for _ in range(count):
            row = {}
            for name, make in makers.items():
                if name in self.nulls or (name != "req" and self.chance.random() < 0.1):
                    row[name] = None
                else:
                    row[name] = fixed[name] if self.same else make()
            found.append(row)
        return found

    def _makers(self) -> dict[str, Callable[[], Any]]:
        return {
            "b": lambda: self.chance.random() < 0.5 if self.number % 2 else self.number % 4 == 0,
            "i": lambda: self._whole(31),
            "j": lambda: self._whole(31),
            "l": lambda: self._whole(63),
            "f": self._single,
            "g": self._single,
            "d": self._double,
            "dec9": lambda: self._decimal(9, 2),
            "dec18": lambda: self._decimal(18, 4),
            "dec38": lambda: self._decimal(38, 10),
            "day": lambda: datetime.date(1970, 1, 1) + datetime.timedelta(days=self._days()),
            "at": self._time,
            "atz": lambda: self._time().replace(tzinfo=_UTC),
            "s": self._text,
            "word": lambda: self.chance.choice(("open", "closed", "", "\ud7ff" + "x" * 20))[: 4 + self.number],
            "u": self._uuid,
            "bin": self._bytes,
            "fx": lambda: self._bytes(6),
            "pos": self._struct,
            "tags": lambda: [self._maybe(self._text) for _ in range(self.chance.randrange(4))],
            "items": lambda: [
                self._maybe(lambda: {"k": self._maybe(self._text), "n": self._maybe(lambda: self._whole(63))})
                for _ in range(self.chance.randrange(3))
            ],
            "m": lambda: {self._text(): self._maybe(lambda: self._whole(63)) for _ in range(self.chance.randrange(3))},
            "req": lambda: self._whole(63),
            "odd name": self._text,
        }

    def _maybe(self, make: Callable[[], Any]) -> Any:
        return None if self.chance.random() < 0.2 else make()

    def _struct(self) -> Row:
        deep = {
            "n": self._maybe(lambda: self._whole(63)),
            "t": self._maybe(lambda: self._time().replace(tzinfo=_UTC)),
            "u": self._maybe(self._uuid),
        }
        return {"lat": self._maybe(self._double), "name": self._maybe(self._text), "deep": self._maybe(lambda: deep)}

    def _whole(self, bits: int) -> int:
        if self.number == 1 and self.chance.random() < 0.1:
            return self.chance.choice((-(1 << bits), (1 << bits) - 1))
        return (self.number - 3) * 1000 + self.chance.randrange(800)

    def _double(self) -> float:
        if self.number in (0, 1) or self.chance.random() < 0.02:
            return (0.0, -0.0)[self.number] if self.number < 2 else self.chance.choice(_DOUBLES)
        return (self.number - 4) * 10 + round(self.chance.random() * 8, 3)

    def _single(self) -> float:
        value = self._double()
        if abs(value) > 1e38 or 0 < abs(value) < 1e-37:
            value = math.copysign(3.25, value)
        return float(struct.unpack("<f", struct.pack("<f", value))[0])

    def _decimal(self, precision: int, scale: int) -> Decimal:
        most = 10**precision - 1
        if self.number == 1 and self.chance.random() < 0.2:
            return Decimal(self.chance.choice((most, -most, 0, 1, -1))).scaleb(-scale, _exact)
        return Decimal((self.number - 3) * 1000 + self.chance.randrange(900)).scaleb(-scale, _exact)

    def _days(self) -> int:
        return min(max(_DAYS[self.number % len(_DAYS)] + self.chance.randrange(-20, 21), -719162), 2932896)

    def _time(self) -> datetime.datetime:
        micros = self.chance.choice((0, 1, -1, self.chance.randrange(86_400_000_000)))
        moment = min(max(self._days(), -719160), 2932894)
        return _EPOCH + datetime.timedelta(days=moment) + micros * _MICRO

    def _text(self) -> str:
        return self.prefix + "".join(self.chance.choice(_LETTERS) for _ in range(self.chance.randrange(6)))

    def _uuid(self) -> uuid.UUID:
        top = (0x00, 0x7F, 0x80, 0xFF)[self.number % 4]
        return uuid.UUID(bytes=bytes((top,)) + self.chance.randbytes(15))

    def _bytes(self, size: int | None = None) -> bytes:
        lead = (b"", b"\x00", b"\x7f", b"\x80", b"\xff" * 20, b"\xff" * 15 + b"\x00")[self.number % 6]
        if size is not None:
            return (lead[:4] + self.chance.randbytes(size))[:size]
        return lead + self.chance.randbytes(self.chance.randrange(5))


def _context() -> Any:
    import decimal

    return decimal.Context(prec=60)


_exact = _context()


def json_text(value: Any, *, ascii_only: bool = False) -> str:
    """A value as a JSON producer would write it: decimals as numbers, times and uuids as text, bytes in base64."""
    if isinstance(value, dict):
        return (
            "{"
            + ",".join(
                f"{json.dumps(key, ensure_ascii=ascii_only)}:{json_text(item, ascii_only=ascii_only)}" for key, item in value.items()
            )
            + "}"
        )
    if isinstance(value, list):
        return "[" + ",".join(json_text(item, ascii_only=ascii_only) for item in value) + "]"
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, bytes):
        return json.dumps(base64.b64encode(value).decode())
    if isinstance(value, datetime.datetime):
        return json.dumps(value.replace(tzinfo=None).isoformat() + ("Z" if value.tzinfo else ""))
    if isinstance(value, datetime.date):
        return json.dumps(value.isoformat())
    if isinstance(value, uuid.UUID):
        return json.dumps(str(value))
    return json.dumps(value, ensure_ascii=ascii_only)


def same(value: Any) -> Any:
    """A value in one form whatever reader it came from; equal forms are equal values (−0.0 is not 0.0, NaN is NaN)."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value.hex()
    if isinstance(value, datetime.datetime):
        return value.astimezone(_UTC).isoformat() if value.tzinfo else value.isoformat()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, dict):
        return {key: same(item) for key, item in value.items()}
    if isinstance(value, list):
        if value and all(isinstance(item, tuple) and len(item) == 2 for item in value):
            return {key: same(item) for key, item in value}
        return [same(item) for item in value]
    return value
