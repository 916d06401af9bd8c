"""CI form of the hostile-input test: 5,000 mutations, one seed, a real broker process, and landing that lands what the storm makes."""

from __future__ import annotations

import pathlib

import pytest
from tests.faults import mutations

pytestmark = [pytest.mark.server, pytest.mark.slow]


def test_a_storm_of_broken_requests_harms_nobody(tmp_path: pathlib.Path):
    result = mutations.run(5_000, 1, tmp_path, land=True)
    assert result["lost"] == 0
    assert len(result["kinds"]) == 20  # type: ignore[arg-type]
