"""The client matrix: every client x codec x {produce, consume}, the codec read back from the stored attributes.

python -m tests.compat.matrix [--records 100000] [--clients kafkajs,java] [--codecs zstd] [--again]

Also writes docs/compatibility.md.
Resumable: cells of the same source that are in docs/results/client-matrix.json already are kept, unless ``--again``.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from tests.compat import beside, builds, cells, page, rows
from tests.compat.process import Processes
from tests.faults import results

RESULT = "client-matrix.json"


def mark(cell: dict[str, Any] | None) -> str:
    """A cell in a few letters."""
    if cell is None:
        return "-"
    return f"FAILED: {cell['problem']}" if cell["problem"] else f"{cell['stored']} / {sum(cell['own_read']) + sum(cell['reference_read'])}"


def print_table(found: dict[str, dict[str, Any]], left_out: dict[str, str]) -> None:
    print(f"{'produced / consumed':<28}" + "".join(f"{codec:<18}" for codec in cells.CODECS))
    for row in rows.ROWS:
        if row.name in left_out:
            print(f"{row.name:<28}left out: {left_out[row.name]}")
        else:
            print(f"{row.name:<28}" + "".join(f"{mark(found.get(f'{row.name}|{codec}'))[:60]:<18}" for codec in cells.CODECS))


def lacks(row: rows.Row, extra: dict[str, dict[str, str]]) -> bool:
    """True when a client was not yet asked for what is beside the matrix, or failed at it."""
    failed = any(text.startswith("FAILED") for text in extra.get(row.name, {}).values())
    return row in beside.SINGLE and (failed or row.name not in extra)


def take_beside(program: rows.Program, place: cells.Place, folder: pathlib.Path) -> dict[str, str]:
    """Group changes, administration and the refusal of transactions, as far as the client has them."""
    said: dict[str, str] = {}

    def note(name: str, verb: Callable[[], str | None]) -> None:
        try:
            said[name] = verb() or "ok"
        except AssertionError as error:
            said[name] = f"FAILED: {error}"[:500]

    if program.row in beside.PAIRED:
        note("second member", lambda: beside.second_member(program.row, place, folder))
    if program.row.admin:
        note("admin", lambda: beside.administer(program, place))
    if program.row.transactions:
        note("transaction", lambda: beside.transaction(program, place))
    return said


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--clients", default="", help="only rows whose name contains one of these words")
    parser.add_argument("--codecs", default=",".join(cells.CODECS))
    parser.add_argument("--again", action="store_true")
    options = parser.parse_args()
    words = [word.lower() for word in options.clients.split(",") if word]
    version = results.source_version()  # of the broker started below; src may move on meanwhile
    before = {} if options.again else results.load(RESULT)
    before = before if before.get("records") == options.records else {}
    found: dict[str, dict[str, Any]] = {name: cell for name, cell in before.get("cells", {}).items() if not cell["problem"]}
    versions: dict[str, dict[str, str]] = before.get("versions", {})
    left_out: dict[str, str] = {}
    extra: dict[str, dict[str, str]] = before.get("beside", {})

    def save() -> None:
        command = f"python -m tests.compat.matrix --records {options.records}"
        names = [f"{row.name}|{codec}" for row in rows.ROWS for codec in cells.CODECS]
        ordered = {name: found[name] for name in names if name in found}
        values = {**version, "records": options.records, "versions": versions, "left_out": left_out, "cells": ordered, "beside": extra}
        results.save(RESULT, command, values)
        (results.RESULTS.parent / "compatibility.md").write_text(page.page())

    with tempfile.TemporaryDirectory() as folder, Processes(pathlib.Path(folder)) as processes:
        processes.start("broker")
        place = cells.Place(processes.bootstrap, pathlib.Path(folder) / "data")
        references = cells.References(place, options.records, pathlib.Path(folder))
        for row in rows.ROWS:
            wanted = [c for c in options.codecs.split(",") if f"{row.name}|{c}" not in found]
            if (words and not any(word in row.name.lower() for word in words)) or not (wanted or lacks(row, extra)):
                continue
            try:
                program = rows.Program(row, pathlib.Path(folder))
            except builds.CannotBuild as error:
                left_out[row.name] = str(error)
                continue
            with program:
                versions[row.name] = {str(name): str(value) for name, value in program.ask("hello").items()}
                for codec in wanted:
                    cell = cells.take(program, place, codec, records=options.records, references=references)
                    found[f"{row.name}|{codec}"] = cell.as_json()
                    print(f"{row.name}, {codec}: {mark(cell.as_json())}", flush=True)
                    save()
                if lacks(row, extra):
                    extra[row.name] = take_beside(program, place, pathlib.Path(folder))
                    print(f"{row.name}: {extra[row.name]}", flush=True)
                    save()
    print_table(found, left_out)
    bad = [text for said in extra.values() for text in said.values() if text.startswith("FAILED")]
    return 1 if bad or any(cell["problem"] for cell in found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
