"""The one exception inside the room: a value that does not fit its column. It never leaves the room; it becomes a Reject."""

from __future__ import annotations

from frazil.schemas.port import Reject, clip

_SHOWN_CHARACTERS_MAX = 60


class Unfit(Exception):
    """``code`` and ``why`` as in Reject; ``value`` is shown cut; ``path`` grows from the inside out while it is raised."""

    def __init__(self, code: str, why: str, value: object = None) -> None:
        super().__init__(code)
        self.code = code
        self.why = why
        self.value = value
        self.path: list[str | int] = []

    def reject(self, row: int) -> Reject:
        """The reject of record ``row``."""
        where = path_text(self.path)
        shown = "" if self.value is None else f": {show(self.value)}"
        return Reject(row=row, code=self.code, why=clip(f"{where + ': ' if where else ''}{self.why}{shown}"))


def ambiguous(first: str, second: str) -> Unfit:
    """The verdict for two fields of one object that belong to one column."""
    names = (repr(clip(name, _SHOWN_CHARACTERS_MAX)) for name in (first, second))
    return Unfit("ambiguous-name", f"{' and '.join(names)} belong to the same column")


def path_text(inside_out: list[str | int]) -> str:
    """``a.b[2].c``; a name that would be misread is quoted in brackets."""
    parts: list[str] = []
    for step in reversed(inside_out):
        if isinstance(step, int):
            parts.append(f"[{step}]")
        elif len(step) > _SHOWN_CHARACTERS_MAX:
            parts.append(f"[{clip(step, _SHOWN_CHARACTERS_MAX)!r}]")
        elif step.replace("_", "a").replace("-", "a").isalnum():
            parts.append(f".{step}" if parts else step)
        else:
            parts.append(f"[{step!r}]")
    return "".join(parts)


def show(value: object) -> str:
    """A short sight of a JSON value for a person: its JSON type, and its text when it is a scalar."""
    if isinstance(value, dict):
        return f"object of {len(value)}"
    if isinstance(value, list):
        return f"array of {len(value)}"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if type(value) is str:
        return f"text {clip(value, _SHOWN_CHARACTERS_MAX)!r}"
    return f"number {clip(str(value), _SHOWN_CHARACTERS_MAX)}"
