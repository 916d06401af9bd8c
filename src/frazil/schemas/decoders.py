"""Which decoder a landing gets."""

from __future__ import annotations

import pyarrow as pa

from frazil.kit.errors import Refused
from frazil.kit.kernel import kernel
from frazil.schemas.avro.decoder import AvroDecoder
from frazil.schemas.json import JsonDecoder
from frazil.schemas.native import NativeJsonDecoder
from frazil.schemas.port import DecodeOptions, Decoder
from frazil.schemas.raw import RawDecoder

KINDS = ("json", "avro", "raw", "raw-string")


def decoder_for(kind: str, schema: pa.Schema | None, options: DecodeOptions) -> Decoder:
    """The decoder of a value kind. ``schema``: declared columns; None lets ``json`` and ``avro`` find them. Raises Refused."""
    if kind == "json":
        module = kernel() if options.use_kernel else None
        return JsonDecoder(schema, options) if module is None else NativeJsonDecoder(schema, options, module)
    if kind == "avro":
        return AvroDecoder(schema, options)
    if kind not in KINDS:
        raise Refused(f"no decoder for values of kind {kind!r}; kinds are {', '.join(KINDS)}")
    if schema is not None:
        raise Refused(f"values of kind {kind!r} have the one column 'value'; do not declare columns")
    return RawDecoder(options, as_text=kind == "raw-string")
