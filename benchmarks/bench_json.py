"""Records per second of the JSON decoder, one core. Run: python benchmarks/bench_json.py [records]"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

from frazil.schemas import DecodeOptions, decoder_for, parse_columns
from frazil.schemas.json import JsonDecoder

COLUMNS = [
    "id long", "user_id string", "event string", "ts timestamptz", "price double", "qty long", "ok boolean", "country string",
    "city string", "lat double", "lon double", "ref string", "session string", "page string", "duration long", "score double",
    "flags int", "device string", "ver string",
]  # fmt: skip


def record(number: int) -> dict[str, object]:
    return {
        "id": 123456789 + number, "user_id": f"u-{number % 9999:07}", "event": "page_view",
        "ts": f"2025-07-01T12:00:{number % 60:02}.123456Z",
        "price": number / 8, "qty": number % 7, "ok": number % 2 == 0, "country": "DE", "city": "Berlin", "lat": 52.5 + number / 1e6,
        "lon": 13.405, "ref": None, "session": f"{number:016x}", "page": "/a/b/c", "duration": number % 5000, "score": 0.25,
        "flags": number % 128, "device": "mobile", "ver": "1.2.3",
    }  # fmt: skip


def best(work: Callable[[], object], times: int = 3) -> float:
    spans = []
    for _ in range(times):
        started = time.process_time()
        work()
        spans.append(time.process_time() - started)
    return min(spans)


def main() -> None:
    records = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    documents = [record(number) for number in range(records)]
    values = [json.dumps(document, separators=(",", ":")).encode() for document in documents]
    size = sum(map(len, values))
    schema, options = parse_columns(COLUMNS), DecodeOptions()
    decimals = parse_columns([column if column != "price double" else "price decimal(18,6)" for column in COLUMNS])
    poisoned = [b'{"id":"x"}' if number % 100 == 0 else value for number, value in enumerate(values)]
    missing = [
        json.dumps({name: value for name, value in document.items() if name != "city"} | {"more": 1}).encode() for document in documents
    ]
    inferred = decoder_for("json", None, options)
    grown = inferred.decode(values).batch.schema
    cases: dict[str, Callable[[], object]] = {
        "declared, clean": lambda: decoder_for("json", schema, options).decode(values),
        "declared, 1 % rejects": lambda: decoder_for("json", schema, options).decode(poisoned),
        "declared, one missing and one unknown field": lambda: decoder_for("json", schema, options).decode(missing),
        "declared, a decimal column": lambda: decoder_for("json", decimals, options).decode(values),
        "inferred, schema known": lambda: inferred.decode(values, grown),
        "inferred, first slice": lambda: inferred.decode(values),
        "exact road only": lambda: JsonDecoder(schema, options, quick=False).decode(values),
    }
    print(f"{records} records, {size / records:.0f} bytes and {len(COLUMNS)} fields each")
    for name, work in cases.items():
        seconds = best(work)
        print(f"{name:45} {records / seconds:10,.0f} records/s {size / seconds / 1e6:7.1f} MB/s")


if __name__ == "__main__":
    main()
