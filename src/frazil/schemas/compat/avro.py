"""Avro's resolution rules (specification, "Schema Resolution"), as Apache's own library has them."""

from __future__ import annotations

import json
import warnings
from typing import Any

from avro import errors, schema
from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType
from avro.name import Names

from frazil.schemas.avro.tree import bad_schema
from frazil.schemas.framing import WriterSchema


def unreadable_avro(reader: WriterSchema, writer: WriterSchema) -> list[str]:
    """See ``levels.Unreadable``."""
    checker: Any = ReaderWriterCompatibilityChecker
    result = checker().get_compatibility(_parsed(reader), _parsed(writer))
    if result.compatibility is SchemaCompatibilityType.compatible:
        return []
    places = ", ".join(sorted(result.locations)) or "/"
    return [f"{'; '.join(sorted(map(str, result.messages)))} (at {places})"]


def _parsed(found: WriterSchema) -> Any:  # noqa: ANN401 - the library's schema
    names = Names()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of logical types that are not valid: they are left out, as readers must
        try:
            for _, text in found.references:
                schema.make_avsc_object(json.loads(text), names)
            return schema.make_avsc_object(json.loads(found.text), names)
        except (errors.AvroException, ValueError, TypeError, KeyError, RecursionError, AttributeError) as error:
            raise bad_schema(f"not an Avro schema: {error}") from error
