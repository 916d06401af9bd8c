"""The native kernel, when it is installed: the Python package ``frazil_native``, built from ``native/`` of the same version.

Every function of it has a Python twin with the same contract, which runs where there is no kernel; tests compare the two.
"""

from __future__ import annotations

import logging
from functools import cache
from types import ModuleType
from typing import Final

KERNEL_VERSION: Final = "0.1.0"
"""The only version that is used: another one may mean something else by the same call."""

_LOG = logging.getLogger("frazil.kernel")


@cache
def kernel() -> ModuleType | None:
    """The kernel, or None after one warning that says why everything is slower now."""
    module, trouble = _find()
    if trouble:
        _LOG.warning("%s; records are decoded in Python, several times slower", trouble)
    return module


def keep_blocks(bytes_max: int) -> None:
    """Bounds what the kernel keeps of freed memory, so that the next slice finds it; nothing without a kernel."""
    if (module := kernel()) is not None:
        module.keep_bytes(bytes_max)


def kernel_trouble() -> str:
    """Why the kernel does not run, with what to do; empty when it does."""
    return _find()[1]


def _find() -> tuple[ModuleType | None, str]:
    try:
        import frazil_native
    except ImportError as error:
        if error.name == "frazil_native":
            return None, "the native kernel is not installed (pip install ./native, needs cargo)"
        return None, f"the native kernel cannot be loaded: {error}"
    return judge(frazil_native)


def judge(module: ModuleType) -> tuple[ModuleType | None, str]:
    """``module`` when it is the kernel of this version; else None and why not."""
    found = getattr(module, "VERSION", "unknown")
    if found != KERNEL_VERSION:
        return None, f"the native kernel has version {found}, this Frazil needs {KERNEL_VERSION} (pip install ./native)"
    return module, ""
