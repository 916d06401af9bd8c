"""``${VARIABLE}`` in the texts of a manifest; ``$${`` stands for ``${`` itself. What is put in is never read as YAML."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from frazil.admin.manifests.place import ManifestFault, Place, shown

_USE: Final = re.compile(r"\$\$\{|\$\{([^}]*)\}?")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def interpolate(text: str, variables: Mapping[str, str], place: Place) -> str:
    """``text`` with the values of its variables. Raises ManifestFault for one that is not set or not written right."""

    def put(found: re.Match[str]) -> str:
        if found[0] == "$${":
            return "${"
        name = found[1]
        if not found[0].endswith("}") or _NAME.fullmatch(name) is None:
            raise ManifestFault(place, f"{shown(found[0])} is no variable; write ${{NAME}}, or $${{ for the characters themselves")
        if name not in variables:
            raise ManifestFault(place, f"variable {name} is not set; export it before the command, or write the value here")
        return variables[name]

    return _USE.sub(put, text)


def is_template(text: str) -> bool:
    """Whether ``text`` has a variable in it."""
    return any(found[0] != "$${" for found in _USE.finditer(text))
