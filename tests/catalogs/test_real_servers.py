"""Iceberg's own REST server (Java) through the suites and a landing that is killed; the other servers are in the full form."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest
from tests.catalogs import javaservers
from tests.catalogs.javaservers import Server
from tests.catalogs.servers import killed_landing, suite

pytestmark = [pytest.mark.server, pytest.mark.skipif(bool(javaservers.missing()), reason=javaservers.missing() or "runs")]


@pytest.fixture(scope="module")
def fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with javaservers.running("fixture", tmp_path_factory.mktemp("fixture")) as server:
        yield server


def test_iceberg_own_server_passes_the_suites(fixture: Server, tmp_path: pathlib.Path) -> None:
    """Every requirement and update is judged by Iceberg's reference implementation."""
    said = suite(fixture, tmp_path)
    assert set(said.values()) == {"ok"}, said


def test_a_killed_landing_on_icebergs_own_server_is_exact(fixture: Server, tmp_path: pathlib.Path) -> None:
    killed_landing(fixture, tmp_path / "landing", ("P5",))
