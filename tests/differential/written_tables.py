"""Tables that values are decoded for: columns as a schema asks for them, then made other than it asks for; and mutated bytes."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pyarrow as pa

from frazil.schemas import DecodeOptions
from frazil.schemas.arrays import AnyField, map_type
from frazil.schemas.avro.columns import Wanted
from frazil.schemas.avro.tree import Node
from frazil.schemas.framing import Found
from frazil.schemas.growth import join
from frazil.schemas.policy import PLAIN, Policy
from frazil.schemas.unfit import Unfit

_NUMBERS = (b"\xff" * 9, b"\x80" * 9 + b"\x01", b"\xff" * 9 + b"\x02", b"\x80\x00", b"\x7f")
RESERVED = frozenset({"_offset", "_key"})
_OTHERS = (
    pa.bool_(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.date32(), pa.time64("us"), pa.uuid(),
    pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.decimal128(9, 2), pa.decimal128(38, 0), pa.decimal128(20, 0), pa.binary(4),
    pa.large_string(), pa.list_(pa.field("element", pa.int64())), pa.struct([pa.field("a", pa.int64())]),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Table:
    """``declared`` and ``had`` as for a decoder; ``found``: what the registry says, by id; ``values``: of one slice."""

    declared: pa.Schema | None
    had: pa.Schema | None
    options: DecodeOptions
    found: dict[int, Found] = field(default_factory=dict)
    values: list[bytes | None] = field(default_factory=list)


def random_options(chance: random.Random) -> DecodeOptions:
    """Mostly the usual ones."""
    rare = chance.random
    return DecodeOptions(
        reserved=RESERVED if rare() < 0.3 else frozenset(),
        null_value_rows=rare() < 0.7,
        columns_max=chance.choice((1, 3, 8, 20)) if rare() < 0.1 else 1000,
        value_bytes_max=chance.choice((10, 30, 100)) if rare() < 0.1 else 1 << 20,
        depth_max=chance.choice((0, 1, 2, 3)) if rare() < 0.2 else 64,
        policy=random_policy(chance) if rare() < 0.3 else PLAIN,
    )


def random_policy(chance: random.Random) -> Policy:
    """One of those that the kernel reads for: overflow is the twin's."""
    way = chance.random()
    if way < 0.4:
        return Policy(conflict="suffix")
    unknown = chance.choice(("add", "ignore", "deadletter"))
    return Policy(unknown=unknown, renames={"a": "renamed", "b0": "c"} if way < 0.8 else {})


def random_table(chance: random.Random, nodes: list[Node]) -> Table:
    """A table for some of the types."""
    options = random_options(chance)
    schema = pa.schema([])
    for node in chance.sample(nodes, chance.randint(0, len(nodes))):
        try:
            schema = join(schema, Wanted(1000).schema(node, schema, options.names(schema.names)))
        except Unfit:
            continue
    way = chance.random()
    if way < 0.2:
        return Table(declared=None, had=None, options=options)
    if way < 0.5:
        return Table(declared=None, had=schema, options=options)
    if len(set(map(str.lower, schema.names))) != len(schema.names):
        return Table(declared=None, had=None, options=options)
    changed = pa.schema(_changed(chance, list(schema), 0.15))
    if chance.random() < 0.1:
        changed = changed.with_metadata({"a": "b"})
    if chance.random() < 0.5:
        return Table(declared=None, had=changed, options=options)
    return Table(declared=changed, had=None, options=options)


def _changed(chance: random.Random, fields: list[AnyField], often: float) -> list[AnyField]:
    found = [_changed_field(chance, one, often) for one in fields if chance.random() > often]
    if chance.random() < often:
        found.append(pa.field("more", chance.choice(_OTHERS)))
    if chance.random() < often:
        chance.shuffle(found)
    return found or fields


def _changed_field(chance: random.Random, one: AnyField, often: float) -> AnyField:
    name = one.name.upper() if chance.random() < often / 4 and one.name not in ("element", "value") else one.name
    return pa.field(name, _changed_type(chance, one.type, often), nullable=chance.random() > often / 3)


def _changed_type(chance: random.Random, arrow: pa.DataType, often: float) -> pa.DataType:
    if chance.random() < often:
        return _other(chance, arrow)
    if isinstance(arrow, pa.StructType):
        return pa.struct(_changed(chance, list(arrow), often))
    if isinstance(arrow, pa.ListType):
        item = _changed_field(chance, arrow.value_field, often)
        return pa.large_list(item) if chance.random() < often else pa.list_(item)
    if isinstance(arrow, pa.MapType):
        return map_type(pa.string(), _changed_field(chance, arrow.item_field, often))
    return arrow


def _other(chance: random.Random, arrow: pa.DataType) -> pa.DataType:
    near = {
        pa.int32(): (pa.int64(), pa.float32(), pa.float64(), pa.decimal128(9, 2), pa.decimal128(3, 3)),
        pa.int64(): (pa.int32(), pa.float32(), pa.float64(), pa.decimal128(20, 2), pa.decimal128(5, 0)),
        pa.float32(): (pa.float64(),),
        pa.float64(): (pa.float32(),),
        pa.string(): (pa.large_string(), pa.uuid(), pa.struct([pa.field("string", pa.string()), pa.field("a", pa.int64())])),
        pa.uuid(): (pa.string(), pa.binary(16), pa.binary()),
        pa.binary(): (pa.large_binary(), pa.decimal128(38, 9)),
        pa.timestamp("us", "UTC"): (pa.int64(), pa.timestamp("us")),
        pa.timestamp("us"): (pa.int64(),),
    }
    if isinstance(arrow, pa.Decimal128Type) and chance.random() < 0.7:
        scale = chance.randint(0, arrow.precision)
        return pa.decimal128(chance.randint(max(1, scale), 38), scale)
    if isinstance(arrow, pa.StructType) and chance.random() < 0.5:
        return pa.string()
    return chance.choice(near.get(arrow, _OTHERS)) if chance.random() < 0.8 else chance.choice(_OTHERS)


def mutated(chance: random.Random, value: bytes) -> bytes:
    """Bytes that are nearly the same."""
    at = chance.randrange(len(value) + 1)
    match chance.randrange(7):
        case 0:
            return value[:at]
        case 1:
            return value + chance.randbytes(chance.randint(1, 3))
        case 2:
            return value[:at] + chance.randbytes(1) + value[at:]
        case 3:
            return value[:at] + value[at + chance.randint(1, 4) :]
        case 4:
            return value[:at] + chance.choice(_NUMBERS) + value[at + 1 :]
        case 5:
            return value[:at] + value[max(0, at - chance.randint(1, 9)) :]
        case _:
            return value[:at] + bytes([chance.randrange(256)]) + value[at + 1 :]


def spoilt(chance: random.Random, values: list[bytes | None], often: float) -> list[bytes | None]:
    """Some of the values mutated, some missing, some with another head."""
    found: list[bytes | None] = []
    for value in values:
        way = chance.random()
        if value is None or way > often:
            found.append(value)
        elif way < often * 0.1:
            found.append(None)
        elif way < often * 0.2:
            found.append(chance.choice((b"", b"\x00", b"\x00\x00\x00\x00", b"\x01" + value[1:], b"\x00\x00\x00\x00\x63" + value[5:])))
        elif way < often * 0.3:
            found.append(b"\x00\x00\x00\x00" + bytes([chance.randint(1, 4)]) + value[5:])
        else:
            found.append(value[:5] + mutated(chance, value[5:]))
    return found
