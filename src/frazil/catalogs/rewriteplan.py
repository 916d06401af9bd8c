"""Which files of a table to write again (pure): small ones that add up, and ones whose deletes cost readers (R24, F48, F93)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from frazil.catalogs.deletes import EQUALITY, POSITION
from frazil.catalogs.live import Live
from frazil.catalogs.manifests import Entry

_FULL: Final = 0.75
"""A file of this share of the target is not small."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteSettings:
    """When files are written again, and how much at once."""

    target_bytes: int = 64 * 1024 * 1024
    """Files are merged up to this size on disk, or to the table's own target where that is less."""
    group_rows_max: int = 1_500_000
    """Rows read for one rewrite: bounds its memory, together with ``target_bytes``."""
    cheap_bytes: int = 8 * 1024 * 1024
    """Small files of a partition that are together no more than this are merged whenever there are ``cheap_files``."""
    cheap_files: int = 3
    merge_ratio: int = 2
    """Above that a file is merged once the smaller ones together have this part of its size: each byte is moved a few times at most."""
    dead_share: float = 0.005
    """Rows deleted by place, of all: above it files are written without them, those with the most first, until half of it is left."""
    dead_rows_min: int = 1_000
    """Fewer do not matter."""
    equality_rows_max: int = 1_000
    """Keys in equality deletes; above it they are looked up and become places. DuckDB compares each of them with each row."""
    delete_files_max: int = 50
    """Live delete files; must stay well below 100 (F93)."""
    groups_max: int = 64
    """Rewrites of one pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Data files to be written again together; all of one spec and partition."""

    entries: tuple[Entry, ...]
    why: str
    """``merge`` or ``fold``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one pass does, in order."""

    groups: tuple[Group, ...]
    gather: bool = False
    """Position deletes are to be written together, as there are too many files of them."""


def wants_conversion(live: Live, settings: RewriteSettings) -> bool:
    """Whether there are too many equality deletes to be left for readers."""
    equality = live.of_content(EQUALITY)
    return len(equality) > settings.delete_files_max // 2 or sum(entry.file.record_count for entry in equality) > settings.equality_rows_max


def plan_rewrite(live: Live, dead: Mapping[str, int], settings: RewriteSettings) -> Plan:
    """``dead``: rows deleted by place, by data file."""
    folds = _folds(live, dead, settings)
    taken = {entry.file.path for group in folds for entry in group.entries}
    merges = _merges([entry for entry in live.data if entry.file.path not in taken], settings)
    positions = len(live.of_content(POSITION))
    return Plan(groups=tuple([*folds, *merges][: settings.groups_max]), gather=positions > settings.delete_files_max)


# --- folding -----------------------------------------------------------------------------------------------------------


def _folds(live: Live, dead: Mapping[str, int], settings: RewriteSettings) -> list[Group]:
    chosen: dict[str, Entry] = {}
    bound = max(settings.dead_rows_min, settings.dead_share * sum(entry.file.record_count for entry in live.data))
    left = sum(dead.get(entry.file.path, 0) for entry in live.data)
    if left > bound:
        for entry in sorted(live.data, key=lambda entry: -dead.get(entry.file.path, 0) / entry.file.record_count):
            if left <= bound / 2:
                break
            if dead.get(entry.file.path, 0):
                chosen[entry.file.path] = entry
                left -= dead[entry.file.path]
    return _pack(list(chosen.values()), settings, "fold")


def _pack(entries: Sequence[Entry], settings: RewriteSettings, why: str) -> list[Group]:
    """Groups of one partition each, within the bounds of one rewrite."""
    groups: list[list[Entry]] = []
    open_groups: dict[object, list[Entry]] = {}
    for entry in entries:
        place = _place(entry)
        group = open_groups.get(place)
        if group is None or not _fits([*group, entry], settings):
            group = open_groups[place] = []
            groups.append(group)
        group.append(entry)
    return [Group(entries=tuple(group), why=why) for group in groups]


def _fits(entries: Sequence[Entry], settings: RewriteSettings) -> bool:
    size = sum(entry.file.size_bytes for entry in entries)
    rows = sum(entry.file.record_count for entry in entries)
    return len(entries) == 1 or (size <= settings.target_bytes and rows <= settings.group_rows_max)


def _place(entry: Entry) -> tuple[int, tuple[object, ...]]:
    return entry.file.spec_id, entry.file.partition


# --- merging -----------------------------------------------------------------------------------------------------------


def _merges(entries: Sequence[Entry], settings: RewriteSettings) -> list[Group]:
    by_place: dict[object, list[Entry]] = {}
    for entry in entries:
        if entry.file.size_bytes < _FULL * settings.target_bytes and entry.file.record_count < _FULL * settings.group_rows_max:
            by_place.setdefault(_place(entry), []).append(entry)
    groups: list[Group] = []
    for small in by_place.values():
        worth = _worth(sorted(small, key=lambda entry: entry.file.size_bytes), settings)
        groups += [group for group in _pack(worth, settings, "merge") if len(group.entries) > 1]
    return sorted(groups, key=lambda group: -len(group.entries))


def _worth(small: list[Entry], settings: RewriteSettings) -> list[Entry]:
    """Those that it pays to move, smallest first: a large one only when the smaller ones have become as large together."""
    while len(small) > 1:
        total = sum(entry.file.size_bytes for entry in small)
        rest = total - small[-1].file.size_bytes
        if total <= settings.cheap_bytes:
            return small if len(small) >= settings.cheap_files else []
        if rest * settings.merge_ratio >= small[-1].file.size_bytes:
            return small
        small = small[:-1]
    return []
