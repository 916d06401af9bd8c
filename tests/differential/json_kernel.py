"""The JSON kernel against its Python twin, over generated schemas and documents and mutated bytes.

python -m tests.differential.json_kernel --count 1000000

Equal means: the same rows, the same rejects with the same code and the same words, the same new columns, the same schema, and
batches whose every value is equal (told apart by their printed form too, so 0.0 is not -0.0), validated fully. Resumable: done
chunks are kept in docs/results/kernel-json.json while the sources of the decoder stay the same.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import random
import subprocess
import sys
import time
from collections import Counter
from types import ModuleType

import pyarrow as pa
from tests.differential.json_values import Table, random_table, random_values

from frazil.kit.kernel import kernel
from frazil.schemas import Decoded
from frazil.schemas.json import JsonDecoder
from frazil.schemas.native import NativeJsonDecoder

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULT = ROOT / "docs" / "results" / "kernel-json.json"
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


def source() -> dict[str, str]:
    """The commit, and the git trees of both decoders: the result holds as long as they stay."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True, cwd=ROOT).stdout.strip()

    trees = {"schemas": git("rev-parse", "HEAD:src/frazil/schemas"), "kernel": git("rev-parse", "HEAD:native/src/json")}
    dirty = git("status", "--porcelain", "--", "src/frazil/schemas", "native/src/json")
    return {"commit": git("rev-parse", "HEAD"), **trees, "dirty": dirty}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--again", action="store_true", help="forget earlier results")
    options = parser.parse_args()
    module = kernel()
    if module is None:
        print("there is no kernel here", file=sys.stderr)
        return 1
    version = source()
    known = json.loads(RESULT.read_text()) if RESULT.exists() and not options.again else {}
    same = all(known.get(key) == version[key] for key in ("schemas", "kernel", "dirty")) and known.get("seed") == options.seed
    done, found, seconds = (known["inputs"], Counter(known["found"]), known["seconds"]) if same else (0, Counter(), 0.0)
    while done < options.count:
        started = time.monotonic()
        found += run_chunk(options.seed * 1_000_000 + done // CHUNK_ROWS, CHUNK_ROWS, module)
        done, seconds = done + CHUNK_ROWS, seconds + time.monotonic() - started
        command = f"python -m tests.differential.json_kernel --count {options.count} --seed {options.seed}"
        values = {"command": command, "inputs": done, "differences": 0, "seed": options.seed, "seconds": round(seconds, 1)}
        RESULT.write_text(json.dumps({**version, **values, "found": dict(sorted(found.items()))}, indent=1) + "\n")
        print(f"{done} inputs, {seconds:.0f} s, no difference", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
