"""The Protobuf kernel against its Python twin, over generated files, tables and messages and mutated bytes.

python -m tests.differential.protobuf_kernel --count 1000000

Equal means what it means for JSON (``json_kernel``). Resumable: done chunks are kept in docs/results/kernel-protobuf.json.
"""

from __future__ import annotations

import sys
from collections import Counter
from types import ModuleType

from tests.differential import resumable, written_kernel
from tests.differential.protobuf_values import random_slice

from frazil.kit.kernel import kernel
from frazil.schemas.protobuf.schemas import compile_protobuf

RESULT = resumable.RESULTS / "kernel-protobuf.json"
CHUNK_ROWS = 20_000
SOURCES = {"schemas": "src/frazil/schemas", "kernel": "native/src/written", "columns": "native/src/json"}


def run_chunk(seed: int, rows: int, module: ModuleType) -> Counter[str]:
    """``rows`` records of one seed."""
    return written_kernel.run_chunk(random_slice, "PROTOBUF", compile_protobuf, seed, rows, module)


def main() -> int:
    def chunk(seed: int, count: int) -> Counter[str]:
        module = kernel()
        assert module is not None, "compare has looked"
        return run_chunk(seed, count, module)

    return resumable.compare("tests.differential.protobuf_kernel", RESULT, SOURCES, chunk, chunk=CHUNK_ROWS)


if __name__ == "__main__":
    sys.exit(main())
