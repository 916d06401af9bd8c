from __future__ import annotations

from frazil.schemas import DecodeOptions, decoder_for, parse_columns


def test_good_and_bad_records_keep_their_places() -> None:
    decoder = decoder_for("json", parse_columns(["id long", "at timestamptz"]), DecodeOptions())
    decoded = decoder.decode([b'{"id": 1.0}', b'{"id": "1"}', None, b'{"id": 2, "at": "2025-07-01 10:00:00+0000"}'])
    assert list(decoded.rows) == [0, 2, 3]
    assert decoded.batch.column("id").to_pylist() == [1, None, 2]
    assert [(reject.row, reject.code) for reject in decoded.rejects] == [(1, "wrong-type")]
