"""Settings as data: a tree of frozen dataclasses filled once from defaults < well-known variables < YAML < environment < flags.

A leaf's name is its dotted path (``broker.flush_interval_ms``); its variable is derived from it
(``FRAZIL_BROKER_FLUSH_INTERVAL_MS``). Unknown names are refused with the nearest known one.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar, get_type_hints

from frazil.kit.errors import Refused

T = TypeVar("T")
Scalar = str | int | float | bool
S = TypeVar("S", str, int, float, bool)

NUMBER_MAX = 2**53
"""No setting needs a larger number, and every one up to it is exact as float, JSON and YAML."""
_TRUE = {"true", "yes", "on", "1"}
_FALSE = {"false", "no", "off", "0"}
_USER_IN_ADDRESS = re.compile(r"://[^/?#@\s]*@")


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """One leaf: where its value came from and what it is for. Secrets are masked."""

    name: str
    value: str
    source: str
    variable: str
    about: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded(Generic[T]):
    """The filled tree and the story of each leaf."""

    settings: T
    explained: tuple[Explained, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Leaf:
    name: str
    kind: type
    default: Scalar
    about: str
    secret: bool
    least: float | None
    most: float
    also: tuple[str, ...]

    @property
    def variable(self) -> str:
        return "FRAZIL_" + self.name.upper().replace(".", "_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What the process was given: parsed YAML, the environment, and flags as dotted name → text."""

    file: Mapping[str, object]
    file_name: str
    environment: Mapping[str, str]
    flags: Mapping[str, str]


def load(tree: type[T], sources: Sources) -> Loaded[T]:
    """Fills ``tree`` (a dataclass of dataclasses of scalars with defaults).

    Raises Refused naming the setting, the source and what would be right.
    """
    leaves = {leaf.name: leaf for leaf in _leaves(tree, "")}
    values: dict[str, tuple[Scalar, str]] = {name: (leaf.default, "default") for name, leaf in leaves.items()}
    for leaf in leaves.values():
        for variable in leaf.also:
            if values[leaf.name][1] == "default" and sources.environment.get(variable):
                values[leaf.name] = (_coerce(leaf, sources.environment[variable], f"variable {variable}"), f"env {variable}")
    for name, raw in _flatten(sources.file, ""):
        if raw is None and any(known.startswith(f"{name}.") for known in leaves):
            continue  # a group whose lines are all comments
        values[name] = (_coerce(_known(leaves, name, sources.file_name), raw, sources.file_name), sources.file_name)
    by_variable = {leaf.variable: leaf for leaf in leaves.values()}
    for variable, text in sorted(sources.environment.items()):
        if variable.startswith("FRAZIL_") and variable in by_variable:
            leaf = by_variable[variable]
            values[leaf.name] = (_coerce(leaf, text, f"variable {variable}"), f"env {variable}")
        elif variable.startswith("FRAZIL_") and variable not in ("FRAZIL_SECRETS_DIR", "FRAZIL_FAULT", "FRAZIL_PURE", "FRAZIL_CONFIG"):
            raise Refused(f"unknown variable {variable}{_nearest(variable, by_variable)}")
    for name, text in sources.flags.items():
        values[name] = (_coerce(_known(leaves, name, "flag"), text, f"flag {name}"), "flag")
    explained = tuple(
        Explained(
            name=name,
            value="********" if leaves[name].secret and value else _shown(value),
            source=source,
            variable=leaves[name].variable,
            about=leaves[name].about,
        )
        for name, (value, source) in values.items()
    )
    return Loaded(settings=_build(tree, "", {name: value for name, (value, _) in values.items()}), explained=explained)


def setting(
    default: S, about: str, *, secret: bool = False, least: float | None = None, most: float = NUMBER_MAX, also: tuple[str, ...] = ()
) -> S:
    """A leaf of a settings tree. ``least`` and ``most`` bound a number.

    ``also``: variables that other programs know and that hold where neither YAML, nor its own variable, nor a flag says otherwise.
    """
    metadata = {"about": about, "secret": secret, "least": least, "most": most, "also": also}
    leaf: S = dataclasses.field(default=default, repr=not secret, metadata=metadata)
    return leaf


def _leaves(tree: type, prefix: str) -> Iterator[_Leaf]:
    hints = get_type_hints(tree)
    for field in dataclasses.fields(tree):
        kind: type = hints[field.name]
        if dataclasses.is_dataclass(kind):
            yield from _leaves(kind, f"{prefix}{field.name}.")
        else:
            yield _Leaf(
                name=prefix + field.name,
                kind=kind,
                default=field.default,  # type: ignore[arg-type] # every leaf is made by ``setting`` and has a default
                about=field.metadata.get("about", ""),
                secret=field.metadata.get("secret", False),
                least=field.metadata.get("least"),
                most=field.metadata.get("most", NUMBER_MAX),
                also=field.metadata.get("also", ()),
            )


def _build(tree: type[T], prefix: str, values: Mapping[str, Scalar]) -> T:
    hints = get_type_hints(tree)
    arguments: dict[str, object] = {}
    for field in dataclasses.fields(tree):  # type: ignore[arg-type] # T is a dataclass type
        kind = hints[field.name]
        if dataclasses.is_dataclass(kind) and isinstance(kind, type):
            arguments[field.name] = _build(kind, f"{prefix}{field.name}.", values)
        else:
            arguments[field.name] = values[prefix + field.name]
    return tree(**arguments)


def _flatten(node: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    for key, value in node.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _known(leaves: Mapping[str, _Leaf], name: str, source: str) -> _Leaf:
    leaf = leaves.get(name)
    if leaf is None:
        inside = [known for known in leaves if known.startswith(f"{name}.")]
        if inside:
            raise Refused(f"{source}: {name!r} is a group of settings; write {inside[0]!r} or another of them")
        raise Refused(f"{source}: unknown setting {name!r}{_nearest(name, leaves)}")
    return leaf


def _nearest(name: str, known: Mapping[str, object]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else "; `frazil config explain` lists all settings"


def _coerce(leaf: _Leaf, raw: object, source: str) -> Scalar:
    value = _typed(leaf, raw)
    if value is None:
        got = f"a {type(raw).__name__}" if leaf.secret else repr(raw)
        raise Refused(f"{source}: {leaf.name} must be {_wanted(leaf)}, not {got}")
    if leaf.least is not None and isinstance(value, int | float) and value < leaf.least:
        raise Refused(f"{source}: {leaf.name} must be at least {leaf.least:g}, not {value}")
    if isinstance(value, int | float) and value > leaf.most:
        raise Refused(f"{source}: {leaf.name} must be at most {leaf.most:.15g}, not {value}")
    return value


def without_user(address: str) -> str:
    """An address as messages may show it: user and password in it are masked."""
    return _USER_IN_ADDRESS.sub("://********@", address)


def _shown(value: Scalar) -> str:
    """As one would write it in YAML, so that it can be copied."""
    return str(value).lower() if isinstance(value, bool) else without_user(str(value))


def _typed(leaf: _Leaf, raw: object) -> Scalar | None:
    if leaf.kind is bool:
        text = str(raw).strip().lower()
        return True if text in _TRUE else False if text in _FALSE else None
    if leaf.kind is str:
        return raw if isinstance(raw, str) else str(raw) if isinstance(raw, int | float) else None
    if isinstance(raw, bool) or not isinstance(raw, str | int | float):
        return None
    try:
        return int(str(raw)) if leaf.kind is int else float(raw)
    except ValueError:
        return None


def _wanted(leaf: _Leaf) -> str:
    return {bool: "true or false", int: "a whole number", float: "a number"}.get(leaf.kind, "text")
