"""The rows that the kernel laid and those that a twin settled, as one batch in the order of the records."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

import pyarrow as pa


class Numbers:
    """Row numbers of slices. Cut from one run of numbers that is kept, as counting costs a tenth of a slice."""

    def __init__(self) -> None:
        self._run = array("q")

    def others(self, rows: Sequence[int], count: int) -> array[int]:
        """All of 0…count-1 but ``rows`` (ascending)."""
        run = self._run
        if len(run) < count:
            run = self._run = array("q", range(count))
        found, begin = array("q"), 0
        for row in rows:
            found.extend(run[begin:row])
            begin = row + 1
        found.extend(run[begin:count])
        return found


def merged(batch: pa.RecordBatch, extra: pa.RecordBatch, rows: Sequence[int], unlaid: Iterable[int]) -> pa.RecordBatch:
    """``batch`` with ``extra``, whose rows are the records ``rows``, in their places.

    ``unlaid``: all records, ascending, that ``batch`` has no row of. Both batches have columns, and the same ones.
    """
    parts: list[pa.RecordBatch] = []
    done, passed = 0, 0
    missing = iter(unlaid)
    for number, row in enumerate(rows):
        while next(missing) != row:
            passed += 1
        laid = row - number - passed
        parts += (batch.slice(done, laid - done), extra.slice(number, 1))
        done = laid
    parts.append(batch.slice(done))
    return pa.Table.from_batches(parts, extra.schema).combine_chunks().to_batches()[0]
