"""The failure catalogue is complete, and says where each entry is prevented."""

from __future__ import annotations

import importlib

import pytest
from tests.failures.registry import HERE, REQUIRED, load


def test_exactly_the_required_entries_have_a_check() -> None:
    assert tuple(load()) == REQUIRED


def test_each_entry_is_one_that_pytest_runs_under_its_own_name() -> None:
    for name, entries in load().items():
        for entry in entries:
            file, _, check = entry.test.partition("::")
            assert check.startswith(f"test_{name.lower()}_"), entry.test
            assert f"def {check}(" in (HERE / file).read_text(), entry.test


@pytest.mark.parametrize("name", REQUIRED)
def test_what_prevents_it_exists(name: str) -> None:
    for entry in load()[name]:
        assert entry.prevented
        for place in entry.prevented:
            module, _, symbol = place.partition(":")
            assert hasattr(importlib.import_module(module), symbol), place
