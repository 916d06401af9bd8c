"""How a landing's table follows its values: the options ``evolve.…`` as the policy of its decoder. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from frazil.kit.errors import Refused
from frazil.landing.columns import ICEBERG_NAMES, METADATA_NAMES
from frazil.metadata.landings import LandingSpec
from frazil.schemas import DecodeOptions
from frazil.schemas.policy import columns_max, parse_policy

_WITH_FIELDS: Final = ("json", "json-schema", "avro", "protobuf")


def decode_options(spec: LandingSpec, *, use_kernel: bool = True) -> DecodeOptions:
    """What the decoder of a landing's values is told. Raises Refused for options that cannot be."""
    reserved = ICEBERG_NAMES | METADATA_NAMES if spec.metadata_columns else ICEBERG_NAMES
    policy = parse_policy(spec.options, declared=bool(spec.columns), by_values=spec.value in _WITH_FIELDS)
    used = {policy.overflow, *policy.renames, *policy.renames.values()}
    taken = sorted(name for name in used if name.lower() in {word.lower() for word in reserved})
    if taken:
        raise Refused(f"{taken[0]!r} is the name of a metadata column; the options evolve.… cannot use it")
    return DecodeOptions(
        reserved=reserved,
        null_value_rows=spec.metadata_columns,
        columns_max=columns_max(spec.options),
        policy=policy,
        use_kernel=use_kernel,
    )


def refusal(spec: LandingSpec) -> str:
    """What is wrong with the options ``evolve.…``; an empty text: nothing."""
    try:
        decode_options(spec)
    except Refused as error:
        return str(error)
    return ""


def renamed(columns: pa.Schema, renames: Mapping[str, str]) -> pa.Schema:
    """The columns of a table as they are called once its renames are done. Raises Refused when old and new name are both there."""
    taken = {name.lower() for name in columns.names}
    fields = []
    for column in columns:
        new = renames.get(column.name.lower())
        if new is not None and new.lower() in taken:
            raise Refused(
                f"column {column.name} is to be renamed {new}, and the table has both; drop or rename one of them in the table, "
                "or take the pair out of evolve.rename"
            )
        fields.append(column if new is None else column.with_name(new))
    found = pa.schema(fields)
    return found.with_metadata(columns.metadata) if columns.metadata else found
