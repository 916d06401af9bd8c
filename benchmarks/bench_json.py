"""JSON to typed Arrow: the kernel, its Python twin and the library ways over the same bytes, on one core.

    python benchmarks/bench_json.py [--out docs/results/bench-json.json] [--megabytes 64] [--rounds 5]

MB/s are bytes of JSON per second of process CPU time (all threads), the best round. Every way is given the values in the form
it likes best, made outside the clock: the kernel an Arrow array, pyarrow and DuckDB lines, the others a list. What each does
with bad records is not equal: only the kernel and the twin answer for each record alone (docs/json-semantics.md).
"""

from __future__ import annotations

import argparse
import io
import os
import pathlib
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import duckdb
import orjson
import pyarrow as pa
import pyarrow.json

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from benchmarks.json_events import KINDS, events_of_bytes, poisoned
from benchmarks.results import ROOT, frame, write
from frazil.kit.kernel import kernel
from frazil.schemas import DecodeOptions, Decoder, parse_columns
from frazil.schemas.ddl import describe
from frazil.schemas.json import JsonDecoder
from frazil.schemas.native import NativeJsonDecoder

SLICE_BYTES = 16_000_000
SLOW_BYTES = 8_000_000
"""Of the ways that would take minutes for all bytes."""
BAD_ONE_IN = 100

Work = Callable[[], int]
"""Decodes all values and returns how many rows came out."""


def slices(values: Sequence[bytes]) -> list[list[bytes]]:
    """The values in pieces as landing takes them."""
    found: list[list[bytes]] = [[]]
    size = 0
    for value in values:
        if size > SLICE_BYTES:
            found.append([])
            size = 0
        found[-1].append(value)
        size += len(value)
    return found


def best(work: Work, rounds: int) -> tuple[float, int]:
    """Seconds of CPU of the best round, and the rows."""
    seconds, rows = [], 0
    for _ in range(rounds):
        started = time.process_time()
        rows = work()
        seconds.append(time.process_time() - started)
    return min(seconds), rows


def decoding(decoder: Decoder, parts: Sequence[Any], schema: pa.Schema | None = None) -> Work:
    def work() -> int:
        return sum(decoder.decode(part, schema).batch.num_rows for part in parts)

    return work


def kernel_ways(values: Sequence[bytes], bad: Sequence[bytes], schema: pa.Schema) -> dict[str, Work]:
    module = kernel()
    if module is None:
        raise SystemExit("there is no kernel to measure: pip install ./native")
    options = DecodeOptions()
    arrays = [pa.array(part, pa.binary()) for part in slices(values)]
    bad_arrays = [pa.array(part, pa.binary()) for part in slices(bad)]
    inferring = NativeJsonDecoder(None, options, module)
    known = inferring.decode(arrays[0]).batch.schema
    declared = NativeJsonDecoder(schema, options, module)
    few = pa.schema([schema.field(0), schema.field(4)])
    return {
        "kernel": decoding(declared, arrays),
        "kernel_list": decoding(declared, slices(values)),
        "kernel_bad_1_percent": decoding(declared, bad_arrays),
        "kernel_inferred": decoding(inferring, arrays, known),
        "kernel_inferred_first": lambda: inferring.decode(arrays[0]).batch.num_rows,
        "kernel_two_columns": decoding(NativeJsonDecoder(few, options, module), arrays),
    }


def as_text(arrow: pa.DataType) -> pa.DataType:
    """orjson gives texts where the column is a time, and Arrow does not read them."""
    return pa.string() if pa.types.is_timestamp(arrow) else arrow


def library_ways(values: Sequence[bytes], schema: pa.Schema, lines: pathlib.Path) -> dict[str, Work]:
    joined = b"\n".join(values)
    lines.write_bytes(joined)
    read = pyarrow.json.ReadOptions(use_threads=False, block_size=1 << 20)
    explicit = pyarrow.json.ParseOptions(explicit_schema=schema)
    plain = pa.schema([field.with_type(as_text(field.type)) for field in schema])
    database = duckdb.connect(config={"threads": 1})
    columns = ", ".join(f"'{name}': '{duck_type(field_type)}'" for name, field_type in zip(schema.names, schema.types, strict=True))
    query = f"select * from read_json('{lines}', format='newline_delimited', columns={{{columns}}}, maximum_object_size=1000000)"
    few = values[: SLOW_BYTES // (len(joined) // len(values))]
    return {
        "pyarrow_json": lambda: pyarrow.json.read_json(io.BytesIO(joined), read_options=read, parse_options=explicit).num_rows,
        "pyarrow_json_inferred": lambda: pyarrow.json.read_json(io.BytesIO(joined), read_options=read).num_rows,
        "duckdb_read_json": lambda: len(database.execute(query).to_arrow_table()),
        "orjson_array": lambda: len(pa.array([orjson.loads(value) for value in few], pa.struct(list(plain)))),
        "orjson_from_pylist": lambda: len(pa.Table.from_pylist([orjson.loads(value) for value in few], schema=plain)),
        "twin": decoding(JsonDecoder(schema, DecodeOptions()), [few]),
    }


def duck_type(arrow: pa.DataType) -> str:
    """DuckDB's name of a type."""
    if isinstance(arrow, pa.StructType):
        return "STRUCT(" + ", ".join(f'"{field.name}" {duck_type(field.type)}' for field in arrow) + ")"
    if isinstance(arrow, pa.ListType):
        return duck_type(arrow.value_type) + "[]"
    word = describe(pa.schema([pa.field("x", arrow)]))[0].split(" ", 1)[1]
    return {"long": "BIGINT", "string": "VARCHAR", "timestamptz": "TIMESTAMPTZ"}.get(word, word.upper())


def measure(kind: str, size: int, rounds: int) -> dict[str, Any]:
    values = events_of_bytes(kind, size)
    schema = parse_columns(KINDS[kind].columns)
    bad = poisoned(values, BAD_ONE_IN)
    total = sum(map(len, values))
    answer: dict[str, Any] = {"records": len(values), "bytes_per_record": round(total / len(values), 1), "mb_s": {}, "records_s": {}}
    # read where no disk is in the way
    place = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=place) as directory:
        ways = kernel_ways(values, bad, schema) | library_ways(values, schema, pathlib.Path(directory) / "lines.json")
        for name, work in ways.items():
            seconds, rows = best(work, rounds)
            records = rows * BAD_ONE_IN / (BAD_ONE_IN - 1) if "bad" in name else rows
            answer["mb_s"][name] = round(records * total / len(values) / seconds / 1e6, 1)
            answer["records_s"][name] = round(records / seconds)
            print(f"{kind} {name:24} {answer['mb_s'][name]:8.1f} MB/s {answer['records_s'][name]:12,} records/s", flush=True)
    speeds = answer["mb_s"]
    answer["bad_share_of_speed"] = round(speeds["kernel_bad_1_percent"] / speeds["kernel"], 2)
    answer["times_pyarrow"] = round(speeds["kernel"] / speeds["pyarrow_json"], 2)
    answer["same_rows_as_pyarrow"] = int(same_rows(values[:20_000], schema))
    return answer


def same_rows(values: Sequence[bytes], schema: pa.Schema) -> bool:
    """Whether the kernel's rows are those pyarrow.json makes."""
    module = kernel()
    theirs = pyarrow.json.read_json(io.BytesIO(b"\n".join(values)), parse_options=pyarrow.json.ParseOptions(explicit_schema=schema))
    ours = NativeJsonDecoder(schema, DecodeOptions(), module).decode(values).batch if module else None
    return ours is not None and theirs.combine_chunks().equals(pa.Table.from_batches([ours]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=str(ROOT / "docs" / "results" / "bench-json.json"))
    parser.add_argument("--megabytes", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    results = {kind: measure(kind, options.megabytes * 1_000_000, options.rounds) for kind in KINDS}
    command = f"python benchmarks/bench_json.py --megabytes {options.megabytes} --rounds {options.rounds}"
    what = "JSON to typed Arrow on one core: MB of JSON per second of CPU, best round"
    write(options.out, frame(command, what, results, {"orjson": orjson.__version__}))


if __name__ == "__main__":
    main()
