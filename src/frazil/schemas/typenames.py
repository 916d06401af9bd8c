"""The name of the type that each value was written as: Avro's full name, the full name of a Protobuf message, the title of a JSON Schema.

Only the first bytes of a value are looked at. A schema that has no name (an Avro union, a JSON Schema without ``title``) gives none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from frazil.kit.errors import Bug
from frazil.schemas.arrays import BinaryColumn
from frazil.schemas.avro.tree import parse
from frazil.schemas.framing import MAGIC, PREFIX_BYTES, Found, Unknown, WriterSchema
from frazil.schemas.port import Reject
from frazil.schemas.protobuf.text import File, read_file
from frazil.schemas.unfit import Unfit

KINDS: Final[Mapping[str, str]] = {"avro": "AVRO", "json-schema": "JSON", "protobuf": "PROTOBUF"}
"""By kind of value: what the registry calls its schemas."""
_PATH_MAX: Final = 32
_PATH_BYTES: Final = 10 * (_PATH_MAX + 1)
_compute: Any = pc


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """One name per value, null for none, and the values whose type cannot be told."""

    texts: pa.StringArray
    rejects: tuple[Reject, ...]


class TypeNames:
    """Names of the types of one kind of value. ``learn`` must have been told every schema id that occurs (``framing.ids_of``)."""

    def __init__(self, kind: str) -> None:
        self._kind = KINDS[kind]
        self._found: Mapping[int, Found] = {}
        self._files: dict[int, File] = {}
        self._names: dict[bytes, str | Unfit | None] = {}

    def learn(self, found: Mapping[int, Found]) -> None:
        """Takes the answers for the next slice."""
        self._found = found
        self._names.clear()

    def read(self, values: BinaryColumn) -> Names:
        """The names of a slice's values."""
        heads = self._heads(values).dictionary_encode()
        known = [self._name(head) for head in heads.dictionary.to_pylist()]
        texts = pa.array([name if isinstance(name, str) else None for name in known], pa.string()).take(heads.indices)
        rejects = []
        if any(isinstance(name, Unfit) for name in known):
            for row, number in enumerate(heads.indices.to_pylist()):
                verdict = None if number is None else known[number]
                if isinstance(verdict, Unfit):
                    rejects.append(verdict.reject(row))
        return Names(texts=texts, rejects=tuple(rejects))

    def _heads(self, values: BinaryColumn) -> Any:  # noqa: ANN401 - an Arrow array
        """The bytes that tell the type, of each value."""
        heads = _compute.binary_slice(values, 0, PREFIX_BYTES)
        if self._kind != KINDS["protobuf"]:
            return heads
        first = _compute.binary_slice(values, 0, PREFIX_BYTES + 1)
        plain = _compute.all(_compute.equal(_compute.binary_slice(first, PREFIX_BYTES, PREFIX_BYTES + 1), b"\0")).as_py()
        if plain:
            return first  # the first message of its file, as nearly always
        cut = _compute.binary_slice(values, 0, PREFIX_BYTES + _PATH_BYTES).to_pylist()
        return pa.array([None if value is None else value[: _path(value)[1]] for value in cut], pa.binary())

    def _name(self, head: bytes) -> str | Unfit | None:
        """The name, None when the type has none, or why it cannot be told."""
        if head not in self._names:
            try:
                self._names[head] = self._look_up(head)
            except Unfit as verdict:
                self._names[head] = verdict
        return self._names[head]

    def _look_up(self, head: bytes) -> str | None:
        if len(head) < PREFIX_BYTES or head[0] != MAGIC:
            raise Unfit("not-framed", f"the value begins with {head.hex() or 'nothing'}")
        schema_id = int.from_bytes(head[1:PREFIX_BYTES])
        found = self._found.get(schema_id)
        if found is None:
            raise Bug(f"schema {schema_id} was never learnt")
        if isinstance(found, Unknown):
            raise Unfit(found.code, found.why)
        if found.kind != self._kind:
            raise Unfit("bad-schema", f"schema {schema_id}: it is {found.kind}, the landing takes {self._kind}")
        if self._kind == KINDS["avro"]:
            return parse(found.text, list(dict.fromkeys(text for _, text in found.references))).name or None
        if self._kind == KINDS["json-schema"]:
            return _title(found, schema_id)
        return self._message(found, schema_id, head)

    def _message(self, found: WriterSchema, schema_id: int, head: bytes) -> str:
        path, _ = _path(head)
        file = self._files.get(schema_id)
        if file is None:
            file = self._files[schema_id] = read_file(found.text)
        messages, name = file.messages, ""
        for index in path:
            if not 0 <= index < len(messages):
                raise Unfit("not-protobuf", f"schema {schema_id} has no message at {list(path)}")
            name, messages = messages[index].name, messages[index].messages
        if not name:
            raise Unfit("not-protobuf", "no message is named")
        return name


def _title(found: WriterSchema, schema_id: int) -> str | None:
    try:
        root = json.loads(found.text)
    except (ValueError, RecursionError) as error:
        raise Unfit("bad-schema", f"schema {schema_id}: not a schema in JSON ({type(error).__name__})") from None
    title = root.get("title") if isinstance(root, dict) else None
    return title if isinstance(title, str) and title else None


def _path(value: bytes) -> tuple[tuple[int, ...], int]:
    """Protobuf's message indexes, and where they end; none when the bytes are none."""
    try:
        count, at = _zigzag(value, PREFIX_BYTES)
        if not count:
            return (0,), at
        path = []
        for _ in range(min(count, _PATH_MAX)):
            index, at = _zigzag(value, at)
            path.append(index)
    except IndexError:
        return (), len(value)
    return (tuple(path), at) if 0 < count <= _PATH_MAX else ((), at)


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return (number >> 1) ^ -(number & 1), at
