"""Numbers of up to 64 bits, seven in each byte, the lowest first: what Avro, Protobuf and message indexes count with."""

from __future__ import annotations

from typing import Final

_SHIFT_MAX: Final = 63


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A number without sign, and the position behind it. Raises IndexError at the end of the bytes, OverflowError beyond 64 bits."""
    byte = data[at]
    at += 1
    if byte < 128:
        return byte, at
    number, shift = byte & 127, 7
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift > _SHIFT_MAX:
            raise OverflowError
    if number >> 64:
        raise OverflowError
    return number, at


def unzigzag(number: int) -> int:
    """The signed number that stands as 0, -1, 1, -2, … in the order of numbers without sign."""
    return (number >> 1) ^ -(number & 1)
