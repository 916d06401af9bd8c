"""CI form of the kill test: every point fires once with each kind of producer, real processes, foreign judges."""

from __future__ import annotations

import pytest
from tests.faults import full

pytestmark = [pytest.mark.server, pytest.mark.slow]


@pytest.mark.parametrize("point", full.BROKER_POINTS + full.LANDING_POINTS)
def test_exactly_once_after_kill_at(point: str) -> None:
    row = full.merged([full.run_point(point, 1, 1), full.run_point(point, 1, 2)])
    assert row["fires"] == 2
