"""The client's two directions: requests out, responses in. Used by the admin client and by tests."""

from __future__ import annotations

from frazil.wire.codec import decode, encode_parts, layouts_of
from frazil.wire.layout import Message


def encode_request(api_key: int, version: int, message: Message) -> bytes:
    """The request body, without size and header. Refused: API or version unknown. Bug: ``message`` does not fit."""
    return b"".join(encode_parts(layouts_of(api_key)[0], version, message))


def decode_response(api_key: int, version: int, frame: memoryview, position: int) -> Message:
    """The response body that fills ``frame`` from ``position``; errors as ``decode_request``."""
    return decode(layouts_of(api_key)[1], version, frame, position)
