"""How files of a table are to be written, from its properties (Iceberg's ``write.*``). Pure.

A value that cannot be read counts as not given: a table somebody else made is not refused for a property other writers ignore too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from frazil.catalogs.bounds import LENGTH_MAX
from frazil.catalogs.port import JsonObject
from frazil.catalogs.schema import leaves

DELTA_PROPERTY: Final = "frazil.parquet.delta"
"""Table property: ``false`` for readers that do not know DELTA_BINARY_PACKED (Iceberg's Java reader before 1.10 when vectorized)."""
TARGET_PROPERTY: Final = "write.target-file-size-bytes"
ROW_GROUP_BYTES: Final = 64 * 1024 * 1024
"""Bound of one row group, in bytes of Arrow memory: what a writer and each reader must hold at once."""
TARGET_BYTES: Final = 512 * 1024 * 1024
"""Iceberg's default."""
METRICS_COLUMNS_MAX: Final = 100
"""Columns that get counts and bounds; Iceberg's default, so that a very wide table does not make every manifest huge (F60)."""
METRICS_VALUES_MAX: Final = 100_000
"""Columns with metrics times files of one write: about 7 MB of manifest before compression (F74)."""
_METRICS_COLUMNS_MIN: Final = 8
_METRICS: Final = "write.metadata.metrics."
_TRUNCATE: Final = re.compile(r"truncate\((\d+)\)")
_CODECS: Final = {name: name for name in ("zstd", "gzip", "snappy", "lz4", "brotli")} | {"uncompressed": "none"}
_LEVELS: Final = {"zstd": range(1, 23), "gzip": range(1, 10), "brotli": range(12)}
COUNTS_ONLY: Final = 0
FULL: Final = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """What the table's properties say about its Parquet files."""

    codec: str = "zstd"
    level: int | None = 1
    delta: bool = True
    row_group_bytes: int = ROW_GROUP_BYTES
    target_bytes: int = TARGET_BYTES
    """On disk; files are cut where they would grow beyond."""


def write_options(properties: Mapping[str, str]) -> WriteOptions:
    """The options of a table."""
    codec = _CODECS.get(str(properties.get("write.parquet.compression-codec", "zstd")).lower(), "zstd")
    level = _number(properties, "write.parquet.compression-level", -1)
    return WriteOptions(
        codec=codec,
        level=(level if level in _LEVELS[codec] else 1 if codec == "zstd" else None) if codec in _LEVELS else None,
        delta=str(properties.get(DELTA_PROPERTY, "true")).lower() != "false",
        row_group_bytes=min(ROW_GROUP_BYTES, max(1, _number(properties, "write.parquet.row-group-size-bytes", ROW_GROUP_BYTES))),
        target_bytes=max(1, _number(properties, TARGET_PROPERTY, TARGET_BYTES)),
    )


def metrics_lengths(schema: JsonObject, properties: Mapping[str, str], *, first: Collection[int] = (), files: int = 1) -> Mapping[int, int]:
    """Columns with metrics, by field id: how long their bounds may be, ``COUNTS_ONLY`` for none.

    ``first``: columns by which the table is partitioned or sorted; they always have bounds. ``files`` made at once share a budget, so that
    a slice over thousands of partitions does not make a manifest of hundreds of megabytes.
    """
    columns = list(leaves(schema["fields"]))
    default = _length(str(properties.get(f"{_METRICS}default", "")), LENGTH_MAX)
    limit = max(0, _number(properties, f"{_METRICS}max-inferred-column-defaults", METRICS_COLUMNS_MAX))
    budget = max(_METRICS_COLUMNS_MIN, METRICS_VALUES_MAX // files)
    found: dict[int, int] = {}
    for at, leaf in enumerate(columns):
        inferred = default if at < limit else None
        length = _length(str(properties.get(f"{_METRICS}column.{'.'.join(leaf.path)}", "")), inferred)
        if leaf.field_id in first and not length:
            length = LENGTH_MAX
        if length is not None:
            found[leaf.field_id] = length
    return found if len(found) <= budget else _cut(found, first, budget)


def _cut(found: Mapping[int, int], first: Collection[int], budget: int) -> Mapping[int, int]:
    order: Sequence[int] = [*(each for each in found if each in first), *(each for each in found if each not in first)]
    return {field_id: found[field_id] for field_id in order[:budget]}


def _length(mode: str, default: int | None) -> int | None:
    """``none``: None."""
    mode = mode.lower()
    if found := _TRUNCATE.fullmatch(mode):
        return max(1, int(found.group(1)))
    return {"none": None, "counts": COUNTS_ONLY, "full": FULL}.get(mode, default)


def _number(properties: Mapping[str, str], name: str, default: int) -> int:
    text = str(properties.get(name, ""))
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else default
