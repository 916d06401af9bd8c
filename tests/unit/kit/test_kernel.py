"""The loader of the native kernel: right version or none, one warning, never silent."""

from __future__ import annotations

import pathlib
import re
import shutil
import sys
import types

import pytest

from frazil import __version__
from frazil.kit import kernel as loader

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def fresh_cache():
    loader.kernel.cache_clear()
    yield
    loader.kernel.cache_clear()


def pretend(monkeypatch: pytest.MonkeyPatch, module: types.ModuleType | None) -> None:
    monkeypatch.setitem(sys.modules, "frazil_native", module)


def test_the_kernel_is_here_where_cargo_is() -> None:
    """CI builds it (make): a change that makes it fall away is not to pass as "slow but green"."""
    if shutil.which("cargo") is None:
        pytest.skip("no cargo: Frazil runs on the Python twins")
    assert loader.kernel_trouble() == ""
    assert loader.kernel() is not None


def test_one_version_everywhere() -> None:
    for name in ("Cargo.toml", "pyproject.toml"):
        found = re.search(r'^version = "(.+)"$', (ROOT / "native" / name).read_text(), re.MULTILINE)
        assert found is not None
        assert found.group(1) == loader.KERNEL_VERSION == __version__


def test_without_the_kernel_there_is_one_warning(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    pretend(monkeypatch, None)
    assert loader.kernel() is None
    assert loader.kernel() is None
    assert len(caplog.records) == 1
    assert "not installed" in caplog.text
    assert "pip install ./native" in loader.kernel_trouble()


@pytest.mark.parametrize("version", ["0.0.9", "1.0.0", None])
def test_a_kernel_of_another_version_is_not_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, version: str | None
) -> None:
    other = types.ModuleType("frazil_native")
    if version is not None:
        other.VERSION = version  # type: ignore[attr-defined]
    pretend(monkeypatch, other)
    assert loader.kernel() is None
    assert f"has version {version or 'unknown'}" in caplog.text
