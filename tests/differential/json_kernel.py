"""The JSON kernel against its Python twin, over generated schemas and documents and mutated bytes.

python -m tests.differential.json_kernel --count 1000000

Equal means: the same rows, the same rejects with the same code and the same words, the same new columns, the same schema, and
batches whose every value is equal (told apart by their printed form too, so 0.0 is not -0.0), validated fully. Resumable: done
chunks are kept in docs/results/kernel-json.json while the sources of the decoder stay the same.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from types import ModuleType

import pyarrow as pa
from tests.differential import resumable
from tests.differential.json_values import Table, random_table, random_values

from frazil.kit.kernel import kernel
from frazil.schemas import Decoded
from frazil.schemas.json import JsonDecoder
from frazil.schemas.native import NativeJsonDecoder

RESULT = resumable.RESULTS / "kernel-json.json"
SLICE_ROWS = 40
CHUNK_ROWS = 20_000


class Differ(AssertionError):
    """The two do not answer the same."""


def check_equal(twin: Decoded, native: Decoded, where: str) -> None:
    if twin.rejects != native.rejects:
        raise Differ(f"{where}: rejects {sorted(set(twin.rejects) ^ set(native.rejects), key=lambda reject: reject.row)}")
    if twin.rows != native.rows:
        raise Differ(f"{where}: rows {twin.rows} {native.rows}")
    if twin.additions != native.additions:
        raise Differ(f"{where}: additions {twin.additions} {native.additions}")
    if not twin.batch.schema.equals(native.batch.schema, check_metadata=True):
        raise Differ(f"{where}: schemas {twin.batch.schema} {native.batch.schema}")
    native.batch.validate(full=True)
    left, right = repr(twin.batch.to_pylist()), repr(native.batch.to_pylist())
    if left != right or not (twin.batch.equals(native.batch) or "nan" in left):
        raise Differ(f"{where}: values\n{left}\n{right}")


def compare(table: Table, values: list[bytes | None], module: ModuleType, where: str) -> Counter[str]:
    """Decodes one slice both ways. Returns what came of the records, by code ("row" for good ones)."""
    twin = JsonDecoder(table.declared, table.options, sample=table.sample).decode(values, table.had)
    native = NativeJsonDecoder(table.declared, table.options, module, sample=table.sample)
    column = pa.array([b"}{", *values, None], pa.large_binary() if len(values) % 2 else pa.binary()).slice(1, len(values))
    check_equal(twin, native.decode(column, table.had), where)
    found = Counter(reject.code for reject in twin.rejects)
    found["row"] = len(twin.rows)
    return found


def run_chunk(seed: int, rows: int, module: ModuleType) -> Counter[str]:
    """``rows`` records of one seed."""
    chance = random.Random(seed)
    found: Counter[str] = Counter()
    for begin in range(0, rows, SLICE_ROWS):
        table = random_table(chance)
        values = random_values(chance, table, min(SLICE_ROWS, rows - begin))
        found += compare(table, values, module, f"seed {seed}, slice {begin // SLICE_ROWS}")
    return found


def main() -> int:
    sources = {"schemas": "src/frazil/schemas", "kernel": "native/src/json"}

    def chunk(seed: int, count: int) -> Counter[str]:
        module = kernel()
        assert module is not None, "compare has looked"
        return run_chunk(seed, count, module)

    return resumable.compare("tests.differential.json_kernel", RESULT, sources, chunk, chunk=CHUNK_ROWS)


if __name__ == "__main__":
    sys.exit(main())
