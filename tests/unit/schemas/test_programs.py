"""What Python tells the kernel about a type and the columns it lands in: the programs of Avro and Protobuf."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from frazil.schemas import DecodeOptions, parse_columns
from frazil.schemas.avro.program import Program, avro_program
from frazil.schemas.avro.tree import parse
from frazil.schemas.framing import WriterSchema
from frazil.schemas.names import NameIndex
from frazil.schemas.protobuf.schemas import compile_protobuf
from frazil.schemas.shape import member_of

TWIN = ("twin",)
LONG = ("integer", False)


def avro(fields: dict[str, Any], *columns: str, strict: bool = False, required: str = "") -> Program | None:
    node = parse(json.dumps({"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}))
    schema = parse_columns(columns)
    members = [member_of(one.with_nullable(one.name != required)) for one in schema]
    return avro_program(node, members, NameIndex(schema.names), strict=strict)


def protobuf(body: str, *columns: str, strict: bool = False) -> Program | None:
    text = f'syntax = "proto3"; message M {{ {body} }}'
    writer, _ = compile_protobuf(1, WriterSchema(kind="PROTOBUF", text=text), DecodeOptions())(b"\0\0\0\0\1\0")
    schema = parse_columns(columns)
    return writer.program(writer.node, [member_of(one) for one in schema], NameIndex(schema.names), strict=strict)


def op_of(program: Program | None) -> Any:
    assert program is not None
    return program.op


def test_fields_go_to_their_columns_and_columns_without_field_are_null() -> None:
    assert op_of(avro({"b": "long", "A": "string"}, "a string", "c long", "b long")) == ("record", [(2, LONG), (0, ("string",))], [1])


def test_a_value_of_another_type_is_the_twins() -> None:
    assert op_of(avro({"a": "string"}, "a long")) == ("record", [(0, TWIN)], [])
    assert op_of(avro({"a": ["null", "string"]}, "a long")) == ("record", [(0, ("union", [("null",), TWIN]))], [])


def test_numbers_are_widened_and_times_scaled() -> None:
    assert op_of(avro({"a": "int"}, "a decimal(9,2)")) == ("record", [(0, ("integer", True))], [])
    micros = op_of(avro({"a": {"type": "long", "logicalType": "timestamp-millis"}}, "a timestamptz"))[1][0][1]
    assert micros == ("micros", (False, 1000, 1, -62_135_596_800_000_000, 253_402_300_799_999_999))
    assert op_of(avro({"a": {"type": "long", "logicalType": "timestamp-millis"}}, "a timestamp")) == ("record", [(0, TWIN)], [])


def test_null_in_a_column_that_must_not_be_null_is_the_twins() -> None:
    assert op_of(avro({"a": ["null", "long"]}, "a long", required="a")) == ("record", [(0, ("union", [TWIN, LONG]))], [])
    assert avro({"b": "long"}, "a long", "b long", required="a") is None


def test_fields_without_column_are_read_into_spare_columns() -> None:
    program = avro({"a": "long", "x": {"type": "array", "items": "string"}, "n": "null"}, "a long")
    assert op_of(program) == ("record", [(0, LONG), (-1, ("array", ("string",))), (None, ("null",))], [])
    assert program is not None
    assert [one.type for one in program.spares] == [pa.list_(pa.field("element", pa.string()))]


def test_where_columns_grow_a_field_without_one_is_only_good_as_null() -> None:
    assert op_of(avro({"a": "long", "x": ["string", "null"]}, "a long", strict=True)) == (
        "record",
        [(0, LONG), (None, ("only-branch", 1))],
        [],
    )
    assert op_of(avro({"a": "long", "x": "string"}, "a long", strict=True)) == ("record", [(0, LONG), (None, TWIN)], [])


def test_two_fields_of_one_column_are_the_twins() -> None:
    assert avro({"a": "long", "A": "long"}, "a long") is None


def test_branches_of_a_union_have_fields_of_their_own() -> None:
    op = op_of(avro({"u": ["null", "int", "string"]}, "u struct<int: int, string: string>"))[1][0][1]
    assert op == ("union", [("null",), ("record", [(0, ("integer", True))], [1]), ("record", [(1, ("string",))], [0])])


def test_a_type_within_itself_is_the_twins_from_there_on() -> None:
    node = {"type": "record", "name": "N", "fields": [{"name": "v", "type": "int"}, {"name": "next", "type": ["null", "N"]}]}
    op = op_of(avro({"n": node}, "n struct<v: int, next: struct<v: int, next: string>>"))[1][0][1]
    assert op == ("record", [(0, ("integer", True)), (1, ("union", [("null",), TWIN]))], [])


def test_a_type_within_itself_is_the_twins_without_a_column_too() -> None:
    """The twin counts how deep a type is nested in itself; a spare column must not take a level that is not counted."""
    fields = [{"name": "v", "type": "int"}, {"name": "next", "type": ["null", "N"]}]
    node = parse(json.dumps({"type": "record", "name": "N", "fields": fields}))
    schema = parse_columns(["v int"])
    program = avro_program(node, [member_of(schema.field(0))], NameIndex(schema.names), strict=False)
    assert op_of(program) == ("record", [(0, ("integer", True)), (-1, ("union", [("null",), TWIN]))], [])


def test_a_type_with_too_many_parts_has_no_program() -> None:
    """Fifteen records that each name the one before twice: 32,768 fields."""
    inner: Any = {"type": "record", "name": "R0", "fields": [{"name": "v", "type": "int"}]}
    for number in range(1, 16):
        fields = [{"name": "a", "type": inner}, {"name": "b", "type": f"R{number - 1}"}]
        inner = {"type": "record", "name": f"R{number}", "fields": fields}
    assert avro({"x": inner, "a": "long"}, "a long") is None


def test_messages_have_slots_by_number() -> None:
    op = op_of(protobuf("int64 a = 3; optional string b = 7;", "b string", "a long"))
    assert op == (
        "message",
        [(3, 0, 1, "one", ("proto", "int64"), True, False, None, None), (7, 2, 0, "one", ("proto", "string"), False, False, None, None)],
        [],
    )


def test_lists_maps_and_oneofs_of_messages() -> None:
    body = "repeated int32 l = 1; map<int64, bool> m = 2; oneof c { string x = 3; int32 y = 4; }"
    slots = op_of(protobuf(body, "l list<int>", "m map<string, boolean>", "x string", "y int"))[1]
    assert slots[0][3:5] == ("many", ("proto", "int32"))
    assert slots[1][3:5] == ("pairs", ("proto", "bool"))
    assert slots[1][8] == (("proto", "int64"), 0)
    assert [slot[7] for slot in slots] == [None, None, 0, 0]


def test_a_list_without_a_column_for_lists_leaves_the_message_to_the_twin() -> None:
    assert protobuf("repeated int32 l = 1;", "l int") is None
    assert protobuf("int32 l = 1;", "l string") is None, "its default is refused too"
    assert op_of(protobuf("optional int32 l = 1;", "l string"))[1][0][4] == TWIN
    assert protobuf("int32 l = 1; int32 x = 2;", "l int", strict=True) is None, "what has no column is never null"
