"""Which decoder a landing gets."""

from __future__ import annotations

import pyarrow as pa

from frazil.kit.errors import Refused
from frazil.kit.kernel import kernel
from frazil.schemas.avro.native import NativeWrittenDecoder
from frazil.schemas.avro.schemas import compile_avro
from frazil.schemas.avro.written import Compile, WrittenDecoder
from frazil.schemas.json import JsonDecoder
from frazil.schemas.jsonschema.decoder import JsonSchemaDecoder
from frazil.schemas.native import NativeJsonDecoder
from frazil.schemas.port import DecodeOptions, Decoder
from frazil.schemas.protobuf.schemas import compile_protobuf
from frazil.schemas.raw import FORMS, RawDecoder

KINDS = ("json", "json-schema", "avro", "protobuf", *FORMS)


def decoder_for(kind: str, schema: pa.Schema | None, options: DecodeOptions) -> Decoder:
    """The decoder of a value kind. ``schema``: declared columns; None: they are found in the values or their schemas. Raises Refused."""
    if kind == "json":
        return _json(schema, options)
    if kind == "json-schema":
        return JsonSchemaDecoder(_json(schema, options), options)
    if kind == "avro":
        return _written(schema, options, "AVRO", compile_avro)
    if kind == "protobuf":
        return _written(schema, options, "PROTOBUF", compile_protobuf)
    if kind not in KINDS:
        raise Refused(f"no decoder for values of kind {kind!r}; kinds are {', '.join(KINDS)}")
    if schema is not None:
        raise Refused(f"values of kind {kind!r} have the one column 'value'; do not declare columns")
    return RawDecoder(options, FORMS[kind])


def _json(schema: pa.Schema | None, options: DecodeOptions) -> Decoder:
    module = kernel() if options.use_kernel else None
    return JsonDecoder(schema, options) if module is None else NativeJsonDecoder(schema, options, module)


def _written(schema: pa.Schema | None, options: DecodeOptions, kind: str, build: Compile) -> Decoder:
    module = kernel() if options.use_kernel else None
    if module is None or options.policy.overflow:
        return WrittenDecoder(schema, options, kind, build)
    return NativeWrittenDecoder(schema, options, kind, build, module)
