"""The batch kernel against its Python twin, over generated and mutated runs of batches.

python -m tests.differential.batch_kernel --count 1000000

Equal means: the same rows in every column, the same faults (offsets, code, raw bytes), the same bytes used and held, the same
exception in the same words; and, on every tenth input, the answer of ``scan``. Resumable: done chunks are kept in
docs/results/kernel-batches.json while the sources of both stay the same.
"""

from __future__ import annotations

import random
import sys
from collections import Counter

from tests.differential import resumable
from tests.differential.batch_cases import Case, random_case

from frazil.kit.errors import Corrupt
from frazil.records.scanning import BatchFault, scan
from frazil.records.tables import BYTES_MAX, RECORD_SCHEMA, Scanned, open_scanner

RESULT = resumable.RESULTS / "kernel-batches.json"
CHUNK = 10_000
SOURCES = ("src/frazil/records", "native/src/batches", "tests/differential/batch_cases.py")


class Differ(AssertionError):
    """The two do not answer the same."""


def plain(fault: BatchFault) -> tuple[object, ...]:
    """What must be equal of a fault: words may differ."""
    return fault.first_offset, fault.last_offset, fault.code, fault.raw


def answer(scanned: Scanned, rows: int, held: int) -> tuple[object, ...]:
    stopped = None if scanned.stopped is None else (type(scanned.stopped), str(scanned.stopped), scanned.stopped.where)
    return scanned.bytes_used, scanned.next_offset, tuple(map(plain, scanned.faults)), stopped, rows, held


def compare(case: Case, where: str, *, with_scan: bool) -> Counter[str]:
    """Scans one case by both. Returns what came of it."""
    native, twin = open_scanner(case.limits), open_scanner(case.limits, use_kernel=False)
    how = {"first_offset": case.first_offset, "where": "w", "stop_at_damage": case.stop_at_damage}
    run = case.run if len(case.run) % 3 else memoryview(bytearray(case.run))
    left, right = native.add(run, **how), twin.add(case.run, **how)
    answers = answer(left, len(native), native.bytes_held), answer(right, len(twin), twin.bytes_held)
    if answers[0] != answers[1]:
        raise Differ(f"{where}:\n{answers[0]}\n{answers[1]}\n{left.faults} {right.faults}")
    table, other = native.finish(), twin.finish()
    table.validate(full=True)
    if not table.schema.equals(RECORD_SCHEMA) or not table.equals(other, check_metadata=True):
        raise Differ(f"{where}:\n{table.to_pylist()}\n{other.to_pylist()}")
    if with_scan:
        check_scan(case, where)
    found = Counter(fault.code for fault in left.faults)
    found["row"], found["stopped"] = table.num_rows, left.stopped is not None
    return found


def check_scan(case: Case, where: str) -> None:
    """The kernel without limits and ``scan`` say the same."""
    limits = type(case.limits)(uncompressed_bytes_max=case.limits.uncompressed_bytes_max, rows_max=BYTES_MAX, bytes_max=BYTES_MAX)
    native = open_scanner(limits)
    scanned = native.add(case.run, where="w")
    try:
        columns, faults = scan(case.run, uncompressed_bytes_max=case.limits.uncompressed_bytes_max, where="w")
    except Corrupt as error:
        if scanned.stopped is None or str(scanned.stopped) != str(error):
            raise Differ(f"{where}: {scanned.stopped} {error}") from error
        return
    table = native.finish()
    pairs = [tuple((pair["key"], pair["value"]) for pair in row) for row in table.column("headers").to_pylist()]
    found = [
        *(table.column(name).to_pylist() for name in ("offset", "timestamp_ms", "key", "value")),
        pairs,
        tuple(map(plain, scanned.faults)),
    ]
    theirs = [
        columns.offsets.tolist(),
        columns.timestamps_ms.tolist(),
        columns.keys,
        columns.values,
        columns.headers,
        tuple(map(plain, faults)),
    ]
    if scanned.stopped is not None or found != theirs:
        raise Differ(f"{where}: {scanned.stopped}\n{found}\n{theirs}")


def run_chunk(seed: int, count: int) -> Counter[str]:
    """``count`` inputs of one seed."""
    found: Counter[str] = Counter()
    for number in range(count):
        case = random_case(random.Random(f"{seed}/{number}"))
        found += compare(case, f"seed {seed}, input {number}", with_scan=number % 10 == 0)
    return found


def main() -> int:
    return resumable.compare("tests.differential.batch_kernel", RESULT, {path: path for path in SOURCES}, run_chunk, chunk=CHUNK)


if __name__ == "__main__":
    sys.exit(main())
