"""A decoder whose mind changes from one start of landing to the next, as with a new version or a registry that is back (R15)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

import pyarrow as pa
from tests.simulation.loop import OWNER

from frazil.landing import target


class Fickle:
    """Values marked ``doubtful`` are bad at every second start."""

    def __init__(self, decoder: Any, *, strict: bool) -> None:
        self._decoder, self._strict = decoder, strict

    @property
    def schema(self) -> Any:
        return self._decoder.schema

    def decode(self, values: Sequence[bytes | None] | pa.Array, schema: Any = None) -> Any:
        if self._strict:
            values = values.to_pylist() if isinstance(values, pa.Array) else values
            values = [b"no more" if value is not None and b'"doubtful"' in value else value for value in values]
        return self._decoder.decode(values, schema)


@contextlib.contextmanager
def fickle_decoders() -> Iterator[None]:
    """Landing processes started meanwhile get such a decoder."""
    original = target.decoder_for

    def decoder_for(*arguments: Any) -> Fickle:
        owner: Any = OWNER.get()
        return Fickle(original(*arguments), strict=owner.boot % 2 == 0)

    with mock.patch.object(target, "decoder_for", decoder_for):
        yield
