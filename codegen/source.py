"""Lines of Python being written, with indentation and the struct constants they use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_INDENT = "    "


class Constants:
    """``Struct`` objects used by a module: one name per format and direction."""

    def __init__(self) -> None:
        self._formats: dict[str, str] = {}

    def name(self, direction: str, codes: list[str]) -> str:
        """The constant for ``codes``; direction ``read`` or ``write``."""
        text = "".join(codes)
        name = f"_{direction}_{text.replace('?', 'o')}"
        method = "unpack_from" if direction == "read" else "pack"
        self._formats[name] = f'{name} = Struct(">{text}").{method}'
        return name

    def lines(self) -> list[str]:
        return [self._formats[name] for name in sorted(self._formats)]


class Source:
    """Lines under construction."""

    def __init__(self, depth: int = 0) -> None:
        self.lines: list[str] = []
        self._depth = depth
        self._names = 0

    def add(self, *lines: str) -> None:
        self.lines.extend(_INDENT * self._depth + line if line else "" for line in lines)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """``head`` and an indented body."""
        self.add(head)
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, stem: str) -> str:
        """A local name not used yet in this function."""
        self._names += 1
        return f"{stem}{self._names}"
