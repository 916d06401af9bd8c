"""How a kind is declared: frozen dataclasses whose fields are made by ``entry``. Reader, JSON Schema and reference page follow from it.

Keys are field names in camelCase unless ``key`` says otherwise. A field may be text, a whole number, a flag, a ``Secret``, a list of
texts, a mapping of texts, another declared dataclass, or the last one ``| None``.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, get_args, get_origin, get_type_hints

from frazil.kit.errors import Bug

_NOT_GIVEN: Final = object()
Default: TypeAlias = str | int | bool | tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Secret:
    """Text that is never shown. ``template`` is what the manifest says, ``value`` what it comes to."""

    template: str
    value: str

    def __repr__(self) -> str:
        return "Secret('********')"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What a value must be besides its type."""

    about: str
    key: str = ""
    pattern: str = ""
    """A regular expression that the whole text must match."""
    wanted: str = ""
    """The pattern in words."""
    choices: tuple[str, ...] = ()
    least: int | None = None
    most: int | None = None
    items_least: int = 0
    characters_max: int = 1024
    example: str = ""
    numbers_too: bool = False
    """In a mapping of texts: numbers and flags are taken as the text they were written as."""
    hides: Callable[[str, str], bool] | None = None
    """In a mapping of texts: (name, text as written) → whether the value is a ``Secret``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One key of a mapping."""

    name: str
    """Of the field."""
    key: str
    kind: Any
    """``str``, ``int``, ``bool``, ``Secret``, ``tuple``, ``Mapping`` or a declared dataclass."""
    required: bool
    default: Any
    rule: Rule


def entry(rule: Rule, default: Any = _NOT_GIVEN) -> Any:  # noqa: ANN401 - as dataclasses.field: the annotation beside it has the type
    """A field of a kind. Without ``default`` the key is required; a default of ``{}`` means an empty mapping or the nested defaults."""
    if default is _NOT_GIVEN:
        return dataclasses.field(metadata={"rule": rule})
    if isinstance(default, type | types.FunctionType):
        return dataclasses.field(default_factory=default, metadata={"rule": rule})
    return dataclasses.field(default=default, metadata={"rule": rule})


def entries(kind: type) -> tuple[Entry, ...]:
    """The keys of a declared dataclass, in order."""
    return tuple(_entries(kind))


def exclusive(kind: type) -> tuple[tuple[str, ...], ...]:
    """Groups of keys of which at most one may be given, as the kind's class variable ``EXCLUSIVE`` has them."""
    return tuple(getattr(kind, "EXCLUSIVE", ()))


def required_when(kind: type) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """(key, value, keys that it then needs), as the kind's class variable ``REQUIRED_WHEN`` has them."""
    return tuple(getattr(kind, "REQUIRED_WHEN", ()))


def is_declared(kind: Any) -> bool:  # noqa: ANN401 - any annotation
    """Whether ``kind`` is a dataclass whose fields were made by ``entry``."""
    return isinstance(kind, type) and dataclasses.is_dataclass(kind) and kind is not Secret


def _entries(kind: type) -> Iterator[Entry]:
    hints = get_type_hints(kind)
    for field in dataclasses.fields(kind):
        rule = field.metadata.get("rule")
        if not isinstance(rule, Rule):
            raise Bug(f"field {kind.__name__}.{field.name} was not made by entry()")
        factory = field.default_factory
        default = factory() if factory is not dataclasses.MISSING else field.default
        yield Entry(
            name=field.name,
            key=rule.key or _camel(field.name),
            kind=_kind(hints[field.name]),
            required=default is dataclasses.MISSING,
            default=None if default is dataclasses.MISSING else default,
            rule=rule,
        )


def _kind(hint: Any) -> Any:  # noqa: ANN401 - annotations
    origin = get_origin(hint)
    if origin is types.UnionType:
        return _kind(next(part for part in get_args(hint) if part is not types.NoneType))
    if origin is tuple:
        return tuple
    return Mapping if origin is Mapping else hint


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
