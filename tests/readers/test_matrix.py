"""Every type of every format, landed by the product and read equal by three readers: one table per format.

The full form, with the tables of one value too, is ``python -m tests.readers.matrix``.
"""

from __future__ import annotations

import pathlib

import pytest
from tests.readers import spark_setup
from tests.readers.engines import Reader
from tests.readers.matrix import compare, compare_evolved, land
from tests.readers.typematrix import loads

pytestmark = [pytest.mark.server, pytest.mark.skipif(bool(spark_setup.missing()), reason=f"Spark: {spark_setup.missing()}")]


def test_f41_f94_every_type_and_a_table_that_evolved_is_read_equal_by_every_reader(tmp_path: pathlib.Path, readers: list[Reader]) -> None:
    tables = [load for load in (*loads(time=False), *loads(time=True)) if not load.name.startswith("one_")]
    catalog = land(tmp_path, tables)
    found = compare(catalog, tables, readers)
    assert not found.differences, "\n".join(found.differences[:20])
    assert found.refused == {"spark": ["types.json_declared_time", "types.avro_time"]}, "Spark has no time of day"
    assert found.types > 100 and found.dead > 60 and min(found.values.values()) > 400
    changed = compare_evolved(catalog, readers)
    assert not changed.differences, "\n".join(changed.differences[:20])
