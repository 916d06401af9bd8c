"""The decoder of JSON values that name their JSON Schema: the prefix is cut, the JSON decoder does the rest."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from frazil.kit.errors import Bug
from frazil.schemas.arrays import column_of
from frazil.schemas.framing import PREFIX_BYTES, Found, Unknown, id_of
from frazil.schemas.growth import count_fields, difference, join
from frazil.schemas.jsonschema.columns import JsonSchema
from frazil.schemas.port import Decoded, DecodeOptions, Decoder, Reject, Values
from frazil.schemas.unfit import Unfit

_EMPTY = pa.schema([])


class JsonSchemaDecoder:
    """See ``framing.FramedDecoder``. ``inner`` decodes the JSON; without declared columns it infers what the schemas do not say."""

    def __init__(self, inner: Decoder, options: DecodeOptions) -> None:
        self._inner = inner
        self._options = options
        self._schemas: dict[int, JsonSchema | Unfit] = {}

    @property
    def schema(self) -> pa.Schema | None:
        """The declared columns, or None."""
        return self._inner.schema

    def learn(self, found: Mapping[int, Found]) -> None:
        """Takes the schemas of the next slice; what is read of them already is kept, as an id never changes its meaning."""
        known = {schema_id: schema for schema_id, schema in self._schemas.items() if isinstance(schema, JsonSchema)}
        self._schemas = {schema_id: known.get(schema_id) or self._compile(schema_id, one) for schema_id, one in found.items()}

    def preview(self, schema_id: int, schema: pa.Schema) -> pa.Schema:
        """See ``framing.FramedDecoder``. What the schema does not type is seen from the values."""
        self._known(schema_id)
        return schema if self._inner.schema is not None else self._typed(schema, {schema_id: None})

    def decode(self, values: Values, schema: pa.Schema | None = None) -> Decoded:
        """See Decoder. ``learn`` must have been told every id that occurs."""
        wanted = schema if schema is not None else self._inner.schema or _EMPTY
        rejects: list[Reject] = []
        rows = array("q")
        bodies: list[bytes | None] = []
        ids: dict[int, None] = {}
        for row, value in enumerate(column_of(values).to_pylist()):
            try:
                if value is not None:
                    schema_id = id_of(value)
                    self._known(schema_id)
                    ids[schema_id] = None
            except Unfit as verdict:
                rejects.append(verdict.reject(row))
                continue
            rows.append(row)
            bodies.append(None if value is None else value[PREFIX_BYTES:])
        closed = self._inner.schema is not None or (schema is not None and self._options.policy.unknown != "add")
        target = wanted if closed else self._typed(wanted, ids)
        result = self._inner.decode(pa.array(bodies, pa.large_binary()), target)
        rejects += [replace(reject, row=rows[reject.row]) for reject in result.rejects]
        return Decoded(
            batch=result.batch,
            rows=array("q", [rows[row] for row in result.rows]),
            rejects=tuple(sorted(rejects, key=lambda reject: reject.row)),
            additions=difference(wanted, result.batch.schema),
        )

    def _compile(self, schema_id: int, found: Found) -> JsonSchema | Unfit:
        if isinstance(found, Unknown):
            return Unfit(found.code, found.why)
        if found.kind != "JSON":
            return Unfit("bad-schema", f"schema {schema_id}: it is {found.kind}, the landing takes JSON Schema")
        try:
            return JsonSchema(found.text, found.references, self._options.columns_max)
        except Unfit as verdict:
            return Unfit(verdict.code, f"schema {schema_id}: {verdict.why}")

    def _known(self, schema_id: int) -> JsonSchema:
        found = self._schemas.get(schema_id)
        if found is None:
            raise Bug(f"schema {schema_id} was never learnt")
        if isinstance(found, Unfit):
            raise Unfit(found.code, found.why)
        return found

    def _typed(self, target: pa.Schema, ids: Mapping[int, None]) -> pa.Schema:
        """The columns with those that the schemas type. A schema that asks for too much types none: the values tell."""
        for schema_id in ids:
            try:
                grown = join(target, self._known(schema_id).columns(target, self._options.names(target.names)))
            except Unfit:
                continue
            if count_fields(grown) <= self._options.columns_max:
                target = grown
        return target
