"""Message bodies ⇄ bytes, for any API and version Kafka 4.3 defines. The server's side; ``client`` holds the other two directions."""

from __future__ import annotations

import functools
import struct

from frazil.kit.errors import Bug, Corrupt, Refused
from frazil.wire.layout import Blob, Layouts, Message
from frazil.wire.messages.registry import APIS


@functools.cache
def layouts_of(api_key: int) -> tuple[Layouts, Layouts]:
    """(request, response) layouts of an API; its module is imported on first use. Refused for a key not spoken here."""
    api = APIS.get(api_key)
    if api is None:
        raise Refused(f"API key {api_key} is not spoken here; known keys: {', '.join(map(str, APIS))}")
    return api.load()


def decode_request(api_key: int, version: int, frame: memoryview, position: int) -> Message:
    """The request body that fills ``frame`` from ``position`` to its end.

    Record blobs stay views into ``frame``. Refused: API or version unknown. Corrupt: the bytes are not that message.
    Memory made is at most about 64 times the frame's size, so the frame limit is the memory limit.
    """
    return decode(layouts_of(api_key)[0], version, frame, position)


def encode_response(api_key: int, version: int, message: Message) -> bytes:
    """The response body, without size and header (``frame`` writes those). Bug when ``message`` does not fit its layout."""
    return b"".join(encode_parts(layouts_of(api_key)[1], version, message))


def decode(layouts: Layouts, version: int, data: memoryview, position: int) -> Message:
    """One message that fills ``data`` from ``position`` to its end; errors as ``decode_request``."""
    reader = layouts.readers.get(version)
    if reader is None:
        raise Refused(_unknown_version(layouts, version))
    limit = len(data)
    try:
        message, end = reader(data, position, limit)
    except Corrupt as fault:
        raise Corrupt(fault.why, where=f"{layouts.name} v{version}, {fault.where}") from None
    if end != limit:
        raise Corrupt(f"{limit - end} bytes are left after the message", where=f"{layouts.name} v{version}, byte {end}")
    return message


def encode_parts(layouts: Layouts, version: int, message: Message) -> list[Blob]:
    """The message's bytes as parts in order, record blobs uncopied among them. Refused: version unknown. Bug: values do not fit."""
    writer = layouts.writers.get(version)
    if writer is None:
        raise Refused(_unknown_version(layouts, version))
    if type(message) is not layouts.kind:
        raise Bug(f"{layouts.name} expected, {type(message).__name__} given")
    parts: list[Blob] = []
    try:
        writer(message, parts.append)
    except (struct.error, TypeError, AttributeError, UnicodeEncodeError) as fault:
        raise Bug(f"{layouts.name} v{version} cannot be written: {fault}") from fault
    return parts


def _unknown_version(layouts: Layouts, version: int) -> str:
    known = sorted(layouts.readers)
    return f"{layouts.name} has no version {version}; known: {known[0]} to {known[-1]}"
