"""Differential test against kio: it reads what we write and writes the same bytes, for every API and version spoken."""

from __future__ import annotations

import io
import random

import pytest
from tests.property.wire.instances import all_layouts, random_bytes_of

from frazil.wire.codec import decode, encode_parts

index = pytest.importorskip("kio.index", reason="kio is the oracle here and is not installed")
serial = pytest.importorskip("kio.serial")
constants = pytest.importorskip("kio.static.constants")

CASES = [pytest.param(layouts, version, id=f"{layouts.name}-v{version}") for layouts, version in all_layouts()]


def kio_schema(layouts, version):
    from codegen.model import snake

    for suffix, kind in (("Request", constants.EntityType.request), ("Response", constants.EntityType.response)):
        if layouts.name.endswith(suffix):
            return index.load_entity_schema(snake(layouts.name.removesuffix(suffix)), version, kind)
    return index.load_entity_schema(snake(layouts.name), version, constants.EntityType.data)


@pytest.mark.parametrize(("layouts", "version"), CASES)
def test_kio_agrees_byte_for_byte(layouts, version):
    schema = kio_schema(layouts, version)
    read, write = serial.entity_reader(schema), serial.entity_writer(schema)
    chance = random.Random(f"kio {layouts.name} {version}")
    for _ in range(6):
        _, data = random_bytes_of(layouts, version, chance)
        entity, used = read(data, 0)
        assert used == len(data)
        out = io.BytesIO()
        write(out, entity)
        assert out.getvalue() == data
        ours = decode(layouts, version, memoryview(out.getvalue()), 0)
        assert b"".join(encode_parts(layouts, version, ours)) == data
