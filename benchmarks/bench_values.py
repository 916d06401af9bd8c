"""Landing, one core, of the same events as Avro and as Protobuf: lz4 batches in the log → rows in a committed Parquet file.

    pip install orjson protobuf
    python benchmarks/bench_values.py [--out docs/results/bench-values.json] [--mb 128] [--decode]

As ``bench_landing``, whose JSON numbers stand in its own file; the schema is that of the registry, the columns are the schema's. Beside
it, on the same batches and in the same run, the library way: aiokafka, fastavro or Google's protobuf (upb), columns by pyarrow, append
by PyIceberg. All numbers are MB of the same records as compact JSON, per second of CPU time of the whole process.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import pathlib
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import fastavro
import pyarrow as pa

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from benchmarks.bench_landing import Load, batches_of, middle, run_frazil, run_library
from benchmarks.json_events import KINDS, events
from benchmarks.results import frame, write
from benchmarks.value_events import AS, AVRO, AVRO_HEAD, PROTOBUF_HEAD, message_class, schema_of
from frazil.schemas import DecodeOptions, decoder_for
from frazil.schemas.framing import FramedDecoder

FORMS = ("avro", "protobuf")
DISTINCT = 50_000
Columns = Callable[[list[bytes], pa.Schema], list[pa.Array]]


def make_load(form: str, kind: str, total: int) -> Load:
    """About ``total`` bytes of JSON in another form; beyond DISTINCT events they come again."""
    first = events(kind, min(DISTINCT, max(1, total // 200)))
    values = AS[form](kind, first)
    times = max(1, round(total / sum(map(len, first))))
    json_bytes = times * sum(map(len, first))
    return Load(
        kind=kind,
        batches=batches_of(values * times),
        records=times * len(values),
        json_bytes=json_bytes,
        value=form,
        schema=schema_of(form, kind),
    )


def by_fastavro(kind: str) -> Columns:
    """Dicts by schemaless_reader, then columns."""
    writer = fastavro.parse_schema(AVRO[kind])

    def columns(values: list[bytes], schema: pa.Schema) -> list[pa.Array]:
        rows = [fastavro.schemaless_reader(io.BytesIO(value[len(AVRO_HEAD) :]), writer) for value in values]
        table = pa.Table.from_pylist(rows, schema=schema)
        return [table.column(field.name) for field in schema]

    return columns


def by_protobuf(kind: str) -> Columns:
    """Messages by upb, their fields by hand (faster than MessageToDict), then columns."""
    parse = message_class(kind).FromString

    def columns(values: list[bytes], schema: pa.Schema) -> list[pa.Array]:
        messages = [parse(value[len(PROTOBUF_HEAD) :]) for value in values]
        return [pa.array([_plain(one, field.name, field.type) for one in messages], field.type) for field in schema]

    return columns


def _plain(message: Any, name: str, arrow: pa.DataType) -> object:  # noqa: ANN401 - classes made while it runs
    """A field as Arrow takes it."""
    if pa.types.is_timestamp(arrow):
        found = getattr(message, name)
        return found.seconds * 1_000_000 + found.nanos // 1000
    if isinstance(arrow, pa.StructType):
        return _struct(getattr(message, name), arrow)
    if isinstance(arrow, pa.ListType):
        inner = arrow.value_type
        found = getattr(message, name)
        return [_struct(one, inner) for one in found] if isinstance(inner, pa.StructType) else list(found)
    if name in _OPTIONAL and not message.HasField(name):
        return None
    return getattr(message, name)


_OPTIONAL = ("referrer", "coupon", "discount")


def _struct(message: Any, arrow: pa.StructType) -> dict[str, object]:  # noqa: ANN401 - as above
    return {field.name: _plain(message, field.name, field.type) for field in arrow}


LIBRARIES: dict[str, Callable[[str], Columns]] = {"avro": by_fastavro, "protobuf": by_protobuf}


def measure(form: str, kind: str, mb: int) -> dict[str, Any]:
    """All ways for one form of one kind of event. The kernel's first run, which pays for modules and memory, stands by itself."""
    load, small = make_load(form, kind, mb * 1_000_000), make_load(form, kind, max(8, mb // 8) * 1_000_000)
    first = asyncio.run(run_frazil(load, use_kernel=True))
    found: dict[str, Any] = {"record_bytes_as_json": round(load.json_bytes / load.records)}
    found["kernel"] = {**middle([asyncio.run(run_frazil(load, use_kernel=True)) for _ in range(5)]), "first_mb_s": first["mb_s"]}
    found["twin"] = asyncio.run(run_frazil(small, use_kernel=False))
    found["library"] = middle([run_library(small, LIBRARIES[form](kind)) for _ in range(3)])
    found["times_library"] = round(found["kernel"]["mb_s"] / found["library"]["mb_s"], 2)
    found["times_twin"] = round(found["kernel"]["mb_s"] / found["twin"]["mb_s"], 2)
    return found


def measure_decode(form: str, kind: str) -> dict[str, float]:
    """Decoding alone, from an Arrow column of values to columns: kernel and twin."""
    some = events(kind, 20_000)
    values = AS[form](kind, some)
    size = sum(map(len, some))
    found = {}
    for word, use_kernel, times in (("kernel", True, 20), ("twin", False, 1)):
        decoder = decoder_for(form, None, DecodeOptions(use_kernel=use_kernel))
        assert isinstance(decoder, FramedDecoder)
        decoder.learn({1: schema_of(form, kind)})
        schema = decoder.decode(values[:10]).batch.schema
        column = pa.array(values * times, pa.binary())
        started = time.process_time()
        assert not decoder.decode(column, schema).rejects
        found[word] = round(size * times / (time.process_time() - started) / 1e6, 1)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out")
    parser.add_argument("--mb", type=int, default=128, help="megabytes of JSON per run")
    parser.add_argument("--decode", action="store_true", help="only decoding, no result file")
    options = parser.parse_args()
    pa.set_cpu_count(1)
    decode = {form: {kind: measure_decode(form, kind) for kind in KINDS} for form in FORMS}
    print("decode, MB/s", decode)
    if options.decode:
        return
    results: dict[str, Any] = {}
    for form in FORMS:
        results[form] = {kind: {**measure(form, kind, options.mb), "decode_mb_s": decode[form][kind]} for kind in KINDS}
        results[f"{form}_mb_s_min"] = min(results[form][kind]["kernel"]["mb_s"] for kind in KINDS)
        for kind in KINDS:
            speeds = {way: found["mb_s"] for way, found in results[form][kind].items() if isinstance(found, dict) and "mb_s" in found}
            print(form, kind, speeds, flush=True)
    results["times_library_min"] = min(results[form][kind]["times_library"] for form in FORMS for kind in KINDS)
    if options.out:
        more = {name: version(name) for name in ("aiokafka", "fastavro", "protobuf")}
        what = "Avro and Protobuf in lz4 batches of 1 MB to committed Parquet (zstd 1), MB of the records as JSON per CPU second"
        write(options.out, frame("python " + sys.argv[0], what, results, more))


if __name__ == "__main__":
    main()
