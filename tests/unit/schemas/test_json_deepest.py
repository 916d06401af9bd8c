"""A document nested as deep as allowed becomes columns, with the kernel and without: it must not stop its table."""

from __future__ import annotations

import pytest

from frazil.schemas import DecodeOptions, decoder_for


@pytest.mark.parametrize("use_kernel", [False, True])
@pytest.mark.parametrize("levels", [1, 62, 63, 64])
def test_columns_nested_to_the_last_level_are_decoded_and_decoded_again(levels: int, use_kernel: bool) -> None:
    decoder = decoder_for("json", None, DecodeOptions(use_kernel=use_kernel))
    values = [b'{"a":' * levels + b"1" + b"}" * levels, b'{"b":2}']
    first = decoder.decode(values)
    again = decoder.decode(values, first.batch.schema)
    assert first.batch.num_rows == again.batch.num_rows == 2
    assert not first.rejects
    assert not again.rejects
