"""Whether the packages beside Frazil are those it was made for: a wrong one is named at the start, not hours later on a rare path (F76)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import metadata

_REQUIREMENT = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?\s*\(?([^;)]*)\)?\s*(;.*)?$")
_CLAUSE = re.compile(r"^(===?|>=|<=|!=|~=|>|<)\s*([0-9][0-9A-Za-z.*+!-]*)$")
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """A package and the versions that will do."""

    name: str
    clauses: tuple[tuple[str, str], ...]

    def accepts(self, version: str) -> bool:
        """Whether ``version`` is one of them. Pre-releases and local parts are not looked at."""
        return all(_holds(how, version, bound) for how, bound in self.clauses)

    def __str__(self) -> str:
        return self.name + ",".join(how + bound for how, bound in self.clauses)


def requirements(texts: Iterable[str] | None = None) -> tuple[Requirement, ...]:
    """What this installation of Frazil declares, without its extras."""
    found = []
    for text in metadata.requires("frazil") or () if texts is None else texts:
        match = _REQUIREMENT.match(text.strip())
        if match is None or "extra" in (match[3] or ""):
            continue
        clauses = tuple((clause[1], clause[2]) for part in match[2].split(",") if (clause := _CLAUSE.match(part.strip())))
        found.append(Requirement(name=match[1], clauses=clauses))
    return tuple(found)


def version_of(name: str) -> str | None:
    """The installed version, None when there is none."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def package_troubles(wanted: Iterable[Requirement], installed: Callable[[str], str | None] = version_of) -> tuple[str, ...]:
    """A sentence for every package that is missing or of another version."""
    found = []
    for requirement in wanted:
        version = installed(requirement.name)
        if version is None:
            found.append(f"{requirement.name} is not installed; frazil needs {requirement}: reinstall frazil")
        elif not requirement.accepts(version):
            way = "install that, or give frazil an environment of its own"
            found.append(f"{requirement.name} is {version}; frazil needs {requirement}: {way}")
    return tuple(found)


def _holds(how: str, version: str, bound: str) -> bool:
    if bound.endswith(".*"):
        inside = _parts(version)[: bound.count(".")] == _parts(bound[:-2])
        return inside if how == "==" else not inside
    left, right = _parts(version), _parts(bound)
    width = max(len(left), len(right))
    one, other = (part + (0,) * (width - len(part)) for part in (left, right))
    match how:
        case ">=":
            return one >= other
        case "<=":
            return one <= other
        case ">":
            return one > other
        case "<":
            return one < other
        case "!=":
            return one != other
        case "~=":
            return one >= other and left[: len(right) - 1] == right[:-1]
    return one == other


def _parts(version: str) -> tuple[int, ...]:
    release = re.split(r"[^0-9.]", version, maxsplit=1)[0].strip(".")
    return tuple(int(number) for number in _NUMBER.findall(release))
