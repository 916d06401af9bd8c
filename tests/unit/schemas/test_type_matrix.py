"""Every row of the type matrix, decoded: its column, its values, its rejects, on the twin and on the kernel."""

from __future__ import annotations

import pathlib

import pyarrow as pa
import pytest
from tests.readers.typematrix import ROWS, Load, framed, load_of, loads
from tests.readers.typepage import types_page
from tests.readers.values import same

from frazil.landing.columns import METADATA_NAMES
from frazil.schemas import DecodeOptions, decoder_for, parse_columns
from frazil.schemas.ddl import describe
from frazil.schemas.framing import FramedDecoder, WriterSchema

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "types.md"
SINGLE = [load_of(f"{number}-{row.source}-{str(row.schema)[:40]}", [row]) for number, row in enumerate(ROWS) if row.source != "One value"]
TOGETHER = [*loads(time=False), *loads(time=True)]


def check(load: Load, *, use_kernel: bool) -> None:
    declared = parse_columns(load.columns) if load.columns else None
    decoder = decoder_for(load.kind, declared, DecodeOptions(reserved=METADATA_NAMES, use_kernel=use_kernel))
    if load.schema is not None:
        assert isinstance(decoder, FramedDecoder)
        decoder.learn({7: WriterSchema(kind=load.schema[0], text=load.schema[1])})
    values = framed(load, 7)
    columns: pa.Schema | None = None
    if declared is None and not load.kind.startswith("one"):
        columns = decoder.decode([value for value, code in zip(values, load.codes, strict=True) if not code]).batch.schema
    decoded = decoder.decode(values, columns)
    assert [(reject.row, reject.code) for reject in decoded.rejects] == [(row, code) for row, code in enumerate(load.codes) if code]
    assert describe(decoded.batch.schema) == load.types
    wanted = [{name: same(value) for name, value in row.items()} for row in load.read if row is not None]
    found = [{name: same(value) for name, value in row.items()} for row in decoded.batch.to_pylist()]
    assert found == wanted


@pytest.mark.parametrize("use_kernel", [False, True], ids=["twin", "kernel"])
@pytest.mark.parametrize("load", [*SINGLE, *TOGETHER], ids=lambda load: load.name)
def test_f41_a_type_of_the_matrix(load: Load, use_kernel: bool) -> None:
    check(load, use_kernel=use_kernel)


def test_the_page_is_the_matrix() -> None:
    assert PAGE.read_text() == types_page(), "make generated"
