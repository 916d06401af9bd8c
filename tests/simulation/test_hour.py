"""The short forms of the retention hour and of the sick catalog."""

from __future__ import annotations

import pytest
from tests.simulation import hour


@pytest.mark.slow
def test_objects_return_to_a_constant() -> None:
    found = hour.run_retention(minutes=10)
    assert found["objects_constant"] == 1, found
    assert not found["violations"], found


@pytest.mark.slow
def test_a_sick_catalog_harms_no_other_table_and_is_named() -> None:
    found = hour.run_isolation(minutes=6, ill_from=1, ill_for=3)
    assert found["freshness_unharmed"] == 1, found
    assert found["sick_staleness_max_s"] > found["bound_s"], "the catalog was not sick"
