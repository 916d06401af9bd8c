"""What a schema will do to a table is said before it is registered, in the words of its columns."""

from __future__ import annotations

import json

import pytest

from frazil.landing.evolution import decode_options
from frazil.metadata.landings import LandingSpec
from frazil.schemas import decoder_for, parse_columns
from frazil.schemas.effects import effects_of
from frazil.schemas.framing import FramedDecoder, WriterSchema


def avro(**fields: object) -> WriterSchema:
    parts = [{"name": name, "type": kind} for name, kind in fields.items()]
    return WriterSchema(kind="AVRO", text=json.dumps({"type": "record", "name": "R", "fields": parts}))


def told(schema: WriterSchema, *columns: str, value: str = "avro", declared: tuple[str, ...] = (), **options: str) -> tuple[str, ...]:
    spec = LandingSpec(table="a.b", topics=("t",), value=value, options={f"evolve.{name}": text for name, text in options.items()})
    settings = decode_options(spec, use_kernel=False)
    decoder = decoder_for(value, parse_columns(declared) if declared else None, settings)
    assert isinstance(decoder, FramedDecoder)
    return effects_of(decoder, schema, parse_columns(columns) if columns else None)


def test_new_and_wider_columns_are_named() -> None:
    schema = avro(id="long", name=["null", "string"], at={"type": "long", "logicalType": "timestamp-micros"})
    assert told(schema, "id int", "name string") == ("column id would become long, is int", "column at timestamptz would be added")
    assert told(schema, "id long", "name string", "at timestamptz") == ("no change",)


def test_a_table_that_is_not_there_would_be_made() -> None:
    assert told(avro(id="long")) == ("column id long would be added",)


def test_f37_a_type_that_does_not_fit_is_said_to_make_dead_letters_or_a_column_beside() -> None:
    assert told(avro(id="string"), "id long") == ("records with id string would be dead letters: the column is id long",)
    assert told(avro(id="string"), "id long", conflict="suffix") == ("column id__string string would be added",)


def test_a_schema_of_another_kind_or_one_that_is_none_makes_dead_letters() -> None:
    (line,) = told(WriterSchema(kind="JSON", text="{}"), "id long")
    assert line.startswith("records would be dead letters: schema 1: it is JSON")
    (line,) = told(WriterSchema(kind="AVRO", text="{"), "id long")
    assert line.startswith("records would be dead letters")


@pytest.mark.parametrize("value", ["protobuf", "json-schema"])
def test_other_formats_are_told_the_same_way(value: str) -> None:
    proto = WriterSchema(kind="PROTOBUF", text='syntax = "proto3"; message M { int64 id = 1; string name = 2; }')
    form = {"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}
    schema = proto if value == "protobuf" else WriterSchema(kind="JSON", text=json.dumps(form))
    assert told(schema, "id long", value=value) == ("column name string would be added",)
