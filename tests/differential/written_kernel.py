"""The kernel's road for Avro and Protobuf against the twin's: what both have in common."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from types import ModuleType

import pyarrow as pa
from tests.differential.json_kernel import check_equal
from tests.differential.written_tables import Table

from frazil.schemas.avro.native import NativeWrittenDecoder
from frazil.schemas.avro.written import Compile, WrittenDecoder

SLICE_ROWS = 40
PLAIN = "plain"
"""Counts the records that the kernel laid without the twin."""


def compare(table: Table, kind: str, build: Compile, module: ModuleType, where: str) -> Counter[str]:
    """Decodes one slice both ways. Returns what came of the records, by code ("row" for good ones)."""
    values = table.values
    twin = WrittenDecoder(table.declared, table.options, kind, build, part_rows=1000)
    native = NativeWrittenDecoder(table.declared, table.options, kind, build, module, unsure_parts=1 if len(values) % 3 else 4)
    for decoder in (twin, native):
        decoder.learn(table.found)
    column = pa.array([b"\x00\x00", *values, None], pa.large_binary() if len(values) % 2 else pa.binary()).slice(1, len(values))
    answer = twin.decode(values, table.had)
    check_equal(answer, native.decode(column, table.had), where)
    found = Counter(reject.code for reject in answer.rejects)
    found["row"] = len(answer.rows)
    found[PLAIN] = native.plain_rows
    return found


def run_chunk(
    make: Callable[[random.Random, int], Table], kind: str, build: Compile, seed: int, rows: int, module: ModuleType
) -> Counter[str]:
    """``rows`` records of one seed."""
    chance = random.Random(seed)
    found: Counter[str] = Counter()
    for begin in range(0, rows, SLICE_ROWS):
        count = min(SLICE_ROWS, rows - begin) - chance.randrange(3)
        found += compare(make(chance, count), kind, build, module, f"seed {seed}, slice {begin // SLICE_ROWS}")
    return found
