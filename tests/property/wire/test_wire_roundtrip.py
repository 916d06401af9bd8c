"""Random messages of every API and version survive our own writer and reader."""

from __future__ import annotations

import random

import pytest
from tests.property.wire.instances import all_layouts, random_bytes_of

from frazil.wire.codec import decode, encode_parts

CASES = [pytest.param(layouts, version, id=f"{layouts.name}-v{version}") for layouts, version in all_layouts()]


@pytest.mark.parametrize(("layouts", "version"), CASES)
def test_written_read_and_written_again_is_the_same(layouts, version):
    chance = random.Random(f"{layouts.name} {version}")
    for _ in range(6):
        _, data = random_bytes_of(layouts, version, chance)
        read = decode(layouts, version, memoryview(data), 0)
        assert b"".join(encode_parts(layouts, version, read)) == data
        assert decode(layouts, version, memoryview(data), 0) == read


@pytest.mark.parametrize(("layouts", "version"), CASES)
def test_newest_field_values_come_back(layouts, version):
    """Every field that differs from its default after reading is the one written: nothing is swapped or invented."""
    chance = random.Random(f"values {layouts.name} {version}")
    for _ in range(4):
        message, data = random_bytes_of(layouts, version, chance)
        _check(message, decode(layouts, version, memoryview(data), 0))


def _check(written, read):
    plain = type(read)()
    for name in read.__slots__:
        got, gave, default = getattr(read, name), getattr(written, name), getattr(plain, name)
        if isinstance(got, list) and got and hasattr(got[0], "__slots__"):
            assert len(got) == len(gave)
            for one, other in zip(gave, got, strict=True):
                _check(one, other)
        elif hasattr(got, "__slots__"):
            _check(gave, got)
        else:
            same = got == gave or (isinstance(got, list) and got == list(gave))
            assert same or got == default or (got == [] and default == ()), name
