from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest
from tests.compat.process import Processes


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    """One broker process for the tests of a module; its log must hold no traceback at the end."""
    directory: pathlib.Path = tmp_path_factory.mktemp("broker")
    with Processes(directory) as processes:
        processes.start("broker")
        yield processes
        assert processes.alive("broker"), processes.log("broker")[-3000:]
        assert "Traceback" not in processes.log("broker"), processes.log("broker")[-6000:]
