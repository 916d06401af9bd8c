"""The three readers, once for all tests of this folder: Spark takes seconds to start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.readers.engines import DuckDB, PyIceberg, Reader, Spark


@pytest.fixture(scope="session")
def readers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Reader]]:
    spark = Spark(tmp_path_factory.mktemp("spark"))
    yield [DuckDB(), PyIceberg(), spark]
    spark.close()
