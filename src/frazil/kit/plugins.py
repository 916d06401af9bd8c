"""The only place that imports by name: back-ends registered as entry points."""

from __future__ import annotations

from importlib import metadata
from typing import Any

from frazil.kit.errors import Refused


def load_backend(group: str, name: str) -> Any:  # noqa: ANN401 - a back-end's own type is known only to its caller
    """The object registered as ``name`` in entry-point group ``group`` (for example ``frazil.objects``).

    Raises Refused with the known names when there is none, or with the missing package when it cannot be imported.
    """
    found = {point.name: point for point in metadata.entry_points(group=group)}
    if name not in found:
        known = ", ".join(sorted(found)) or "none installed"
        raise Refused(f"no back-end {name!r} in {group}; known: {known}")
    try:
        return found[name].load()
    except ImportError as error:
        raise Refused(f"back-end {name!r} of {group} needs the Python package {error.name!r}; install it with pip") from error
