"""Three independent readers on tables that the product landed: equal contents, and no predicate loses or invents a row.

The full form, with many more predicates, is ``python -m tests.readers.full``.
"""

from __future__ import annotations

import asyncio
import pathlib

import pytest
from pyiceberg.types import StringType
from tests.readers import spark_setup
from tests.readers.engines import Reader
from tests.readers.full import TABLES, wish_of
from tests.readers.judge import answers_to, judge
from tests.readers.lake import PLANTED, Lake, land, plant_wrong_bound
from tests.readers.predicates import Check, Leaf

pytestmark = [pytest.mark.server, pytest.mark.skipif(bool(spark_setup.missing()), reason=f"Spark: {spark_setup.missing()}")]
PREDICATES = 4


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return land(tmp_path_factory.mktemp("lake"), seed=1, chunks=4, records=90)


@pytest.mark.parametrize("name", TABLES)
def test_all_readers_agree(lake: Lake, readers: list[Reader], name: str) -> None:
    many_files = name == "lake.parted"
    wish = wish_of(lake, name, per_column=3 if many_files else PREDICATES, seed=1)
    verdict = judge(lake.catalog().load_table(name), name, readers, wish)
    assert not verdict.differences, "\n".join(verdict.differences[:20])
    assert verdict.refused.keys() == ({"spark"} if name == "lake.clock" else set())
    assert verdict.rows > 0 and verdict.files > 1 and verdict.not_empty > 5
    for reader in readers:
        if reader.name not in verdict.refused:
            assert verdict.used[reader.name] > 10, f"{reader.name} did not use its predicates before reading"


def test_dead_letters_are_all_there(lake: Lake) -> None:
    assert lake.catalog().load_table("lake.wide_dead").scan().to_arrow().num_rows == lake.dead


def test_a_wrong_bound_is_seen_by_every_reader(lake: Lake, readers: list[Reader]) -> None:
    """The judge can fail: with an upper bound that is too low, each reader skips the file and loses the row."""
    asyncio.run(plant_wrong_bound(lake))
    table = lake.catalog().load_table("lake.planted")
    tree = Check(Leaf(("text",), StringType()), "=", (PLANTED,))
    found = answers_to(table, "lake.planted", readers, tree)
    assert {name: (answer.pushed[0], answer.filtered[0]) for name, answer in found.items()} == {
        "duckdb": (0, 1),
        "pyiceberg": (0, 1),
        "spark": (0, 1),
    }


def test_spark_comes_from_the_cache(tmp_path: pathlib.Path) -> None:
    """Nothing of Spark is in the environment that users install."""
    import importlib.util

    assert importlib.util.find_spec("pyspark") is None
    assert spark_setup.SITE.exists() and spark_setup.JAR.exists()
