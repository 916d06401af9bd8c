"""Which column a field of an object belongs to. One mapping, without memory, for every policy:

1. the *landing name* of a field is its name with each ``.`` made ``_`` (a dot in an Iceberg name cannot be told from a path);
2. at the top level, a name equal (ignoring case) to a reserved name followed by any number of ``_`` gets one more ``_``;
   so ``_offset`` lands in ``_offset_`` and ``_offset_`` in ``_offset__``, and no two fields meet;
3. a field belongs to the column of exactly that name, else to the column equal to its landing name ignoring case.
   Two fields of one object that belong to one column are ambiguous: the caller rejects the record.
4. at the top level, a landing name that was renamed (``policy.Policy.renames``) is the new name. One column, the one for what has
   no other, may be hidden: it belongs to no field.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

NameTables: TypeAlias = tuple[list[tuple[str, int]], dict[str, int]]
NAME_CHARACTERS_MAX = 255
_NO_RENAMES: Mapping[str, str] = {}
_NO_FIELD = "\ud800"
"""Half a surrogate pair, which no text of a record holds."""


def why_unfit(name: str) -> str | None:
    """Why no new column can have this name; None if one can."""
    if not name:
        return "the name is empty"
    if len(name) > NAME_CHARACTERS_MAX:
        return f"the name has more than {NAME_CHARACTERS_MAX} characters"
    if not name.isprintable() or not name.strip():
        return "the name is blank or holds control characters"
    return None


class NameIndex:
    """Finds columns by field name. ``sources``: the exact field name that each column takes, to its position."""

    __slots__ = ("_folded", "_hidden", "_renames", "_stems", "sources")

    def __init__(
        self,
        columns: Iterable[str] = (),
        reserved: frozenset[str] = frozenset(),
        renames: Mapping[str, str] = _NO_RENAMES,
        hidden: str = "",
    ) -> None:
        """``renames``: old names in lower case to new ones; ``hidden``: the column of no field, a reserved name too."""
        self._stems = {word.lower().rstrip("_"): len(word) for word in sorted({*reserved, hidden} if hidden else reserved)}
        self._renames = renames
        self._hidden = hidden
        self.sources: dict[str, int] = {}
        self._folded: dict[str, int] = {}
        names = list(columns)
        for column in names:
            self.add(column)
        for position, column in enumerate(names):
            self._folded.setdefault(column.replace(".", "_").lower(), position)

    def add(self, column: str) -> None:
        """Knows one more column, at the end."""
        position = len(self.sources)
        if self._hidden and column.lower() == self._hidden.lower():
            self.sources[_NO_FIELD + column] = position
            self._folded.setdefault(_NO_FIELD + column, position)
            return
        renamed = column.endswith("_") and self._is_reserved(column[:-1])
        self.sources[column[:-1] if renamed else column] = position
        self._folded.setdefault(column.lower(), position)

    def drop_last(self) -> None:
        """Forgets the column added last; right only when ``find`` did not know its name before."""
        self.sources.popitem()
        self._folded.popitem()

    @property
    def stems(self) -> Mapping[str, int]:
        """The reserved names in lower case without ``_`` at their end, and their whole length."""
        return self._stems

    def tables(self) -> NameTables:
        """For the kernel: exact field names, and landing names in lower case, to positions."""
        sources = [(name, position) for name, position in self.sources.items() if not name.startswith(_NO_FIELD)]
        folded = {name: position for name, position in self._folded.items() if not name.startswith(_NO_FIELD)}
        for old, new in self._renames.items():
            if (position := self.find(new)) is not None:
                folded.setdefault(old, position)
        return sources, folded

    def _is_reserved(self, name: str) -> bool:
        """Whether a name is a reserved one, apart from case and further ``_`` at its end."""
        length = self._stems.get(name.lower().rstrip("_")) if self._stems else None
        return length is not None and len(name) >= length

    def landing_name(self, key: str) -> str:
        """The name of the new column that a field would get."""
        name = key.replace(".", "_")
        if self._renames:
            name = self._renames.get(name.lower(), name)
        return name + "_" if self._is_reserved(name) else name

    def fold(self, key: str) -> str:
        """What must be equal for two fields to belong together."""
        return self.landing_name(key).lower()

    def find(self, key: str) -> int | None:
        """The position of the column that the field ``key`` belongs to, or None."""
        position = self.sources.get(key)
        return self._folded.get(self.fold(key)) if position is None else position
