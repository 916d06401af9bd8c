"""Fixtures that more than one folder uses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers import SeaweedFs, running_seaweedfs


@pytest.fixture(scope="session")
def seaweedfs() -> Iterator[SeaweedFs]:
    """S3 and Iceberg REST catalog; one server per test worker. Mark the test ``server``."""
    with running_seaweedfs() as server:
        yield server
