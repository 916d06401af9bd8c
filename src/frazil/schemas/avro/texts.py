"""An Avro value as JSON text, for what has no column type: a type within itself, a record without fields.

As Avro's own JSON encoding (a union of several branches is an object with the branch's name), but: bytes and fixed are base64, a
decimal and a uuid are text, and NaN and the infinities, which JSON has not, are text. Times are the numbers Avro has.
"""

from __future__ import annotations

import json
import math
import uuid
from base64 import b64encode
from typing import Any, Final

from frazil.schemas.avro.columns import branches_of
from frazil.schemas.avro.tree import Node
from frazil.schemas.unfit import Unfit

_BITS_MAX: Final = 13_300


def json_text(node: Node, value: object) -> str:
    """The text of a raw value."""
    return json.dumps(_plain(node, value), ensure_ascii=False, separators=(",", ":"))


def decimal_text(unscaled: int, scale: int) -> str:
    """All digits of a decimal. Raises Unfit when there are more than any column has."""
    if unscaled.bit_length() > _BITS_MAX:
        raise Unfit("out-of-range", f"a decimal of more than {_BITS_MAX} bits")
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    point = len(digits) - scale
    return ("-" if unscaled < 0 else "") + digits[:point] + ("." + digits[point:] if scale else "")


def _plain(node: Node, value: Any) -> Any:  # noqa: ANN401 - JSON
    if value is None:
        return None
    match node.kind:
        case "record":
            return {name: _plain(inner, item) for (name, inner), item in zip(node.fields, value, strict=True)}
        case "array":
            return [_plain(node.inner[0], item) for item in value]
        case "map":
            return {key: _plain(node.inner[0], item) for key, item in value}
        case "union":
            return _union(node, value)
        case "float" | "double":
            return value if math.isfinite(value) else "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case "bytes" | "fixed":
            return _bytes(node, value)
        case _:
            return value


def _union(node: Node, value: Any) -> Any:  # noqa: ANN401 - JSON
    names = branches_of(node)
    if len(names) == 1:
        return _plain(node.inner[next(iter(names))], value)
    number, item = value
    return {names[number]: _plain(node.inner[number], item)}


def _bytes(node: Node, value: bytes) -> str:
    if node.logical == "decimal":
        return decimal_text(int.from_bytes(value, signed=True), node.scale)
    return str(uuid.UUID(bytes=value)) if node.logical == "uuid" else b64encode(value).decode()
