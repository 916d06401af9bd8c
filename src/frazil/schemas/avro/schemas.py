"""Avro's part of ``written``: one schema, one type, and the body right behind the id."""

from __future__ import annotations

from frazil.schemas.avro.datum import datum_reader
from frazil.schemas.avro.program import avro_program
from frazil.schemas.avro.tree import parse
from frazil.schemas.avro.written import Choose, Writer
from frazil.schemas.framing import PREFIX_BYTES, WriterSchema
from frazil.schemas.port import DecodeOptions


def compile_avro(schema_id: int, found: WriterSchema, options: DecodeOptions) -> Choose:
    """See ``written.Compile``."""
    node = parse(found.text, list(dict.fromkeys(text for _, text in found.references)))
    writer = Writer(key=(schema_id,), node=node, read=datum_reader(node, options.depth_max), program=avro_program)
    return lambda _: (writer, PREFIX_BYTES)
