"""Kernel and twin cut the same bursts (the full form: python -m tests.differential.produce_kernel)."""

from __future__ import annotations

import pytest
from tests.differential.produce_kernel import run_chunk

from frazil.kit.kernel import kernel


@pytest.mark.skipif(kernel() is None, reason="no kernel here (tests/architecture demands it where cargo is)")
def test_kernel_and_twin_cut_the_same_bursts() -> None:
    found = run_chunk(1, 10_000)
    assert found["burst"] > 2_000
    assert found["none"] > 2_000
    assert found["requests"] > found["burst"] * 1.15


@pytest.mark.skipif(kernel() is None, reason="no kernel here (tests/architecture demands it where cargo is)")
@pytest.mark.parametrize(("start", "end"), [(0, 11), (10, 10), (9, 3), (2**62, 2**62 + 1)])
def test_the_kernel_refuses_places_outside_the_buffer(start: int, end: int) -> None:
    scan = getattr(kernel(), "scan_produce")  # noqa: B009 - the module has no types
    with pytest.raises(ValueError, match="outside"):
        scan(memoryview(bytearray(10)), start, end, 5)
