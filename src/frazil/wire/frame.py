"""Frames and headers: size prefix, request header v0 to v2, response header v0 and v1.

A frame is what follows the four size bytes: header, then body. Positions count from the frame's first byte.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from frazil.kit.errors import Corrupt
from frazil.wire.layout import FAULTS, Blob, bad_length, skip_tags
from frazil.wire.messages.registry import APIS

SIZE_BYTES = 4
FRAME_BYTES_MAX = 100 * 1024 * 1024
"""Kafka's own default for socket.request.max.bytes."""
_SIZE = struct.Struct(">i")
_FIXED = struct.Struct(">hhi")
_read_fixed = _FIXED.unpack_from
_read_length = struct.Struct(">h").unpack_from
_CONTROLLED_SHUTDOWN = 7


@dataclass(slots=True)
class RequestHeader:
    """Who asks what. ``position`` is where the body begins in the frame.

    Not frozen, though nobody changes it: one is made per request, and frozen takes twice the time (1.8 against 0.9 us).
    """

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    position: int

    @classmethod
    def decode(cls, frame: memoryview) -> RequestHeader:
        """Read the header at the start of ``frame``; Corrupt when it is not one.

        An API key not spoken here is read as header v1, so that the caller still learns key, version and correlation id.
        """
        at, pos = "api_key", 0
        try:
            api_key, api_version, correlation_id = _read_fixed(frame, 0)
            pos, client_id = 8, None
            version = _header_version(api_key, api_version)
            if version >= 1:
                at = "client_id"
                client_id, pos = _read_client_id(frame)
            if version >= 2:
                at = "tags"
                pos = pos + 1 if frame[pos] == 0 else skip_tags(frame, pos, len(frame))
        except FAULTS as fault:
            why = str(fault) if type(fault) is ValueError else "the bytes end inside this field, or its text is not UTF-8"
            raise Corrupt(why, where=f"RequestHeader.{at} at byte {pos}") from None
        return cls(api_key, api_version, correlation_id, client_id, pos)


def _header_version(api_key: int, api_version: int) -> int:
    api = APIS.get(api_key)
    if api is not None:
        return api.request_header_version(api_version)
    return 0 if api_key == _CONTROLLED_SHUTDOWN and api_version == 0 else 1


def _read_client_id(frame: memoryview) -> tuple[str | None, int]:
    # Never compact, not even in header v2: an old broker must be able to read it (KIP-511).
    (n,) = _read_length(frame, 8)
    end = 10 + n
    if n == -1:
        return None, 10
    if n < 0 or end > len(frame):
        raise bad_length(n, len(frame) - 10)
    return frame[10:end].tobytes().decode(), end


def encode_request_frame(header: RequestHeader, body: bytes) -> bytes:
    """Size, header and body of a request, ready to send; ``header.position`` is not used."""
    raw = (header.client_id or "").encode()
    head = _FIXED.pack(header.api_key, header.api_version, header.correlation_id)
    version = _header_version(header.api_key, header.api_version)
    if version >= 1:
        head += struct.pack(">h", -1 if header.client_id is None else len(raw)) + raw
    if version >= 2:
        head += b"\0"
    return _SIZE.pack(len(head) + len(body)) + head + body


def response_head(header: RequestHeader, body_bytes: int) -> bytes:
    """Size and response header for the answer to ``header`` with a body of ``body_bytes``."""
    api = APIS.get(header.api_key)
    if api is not None and api.response_header_version(header.api_version) == 1:
        return _SIZE.pack(body_bytes + 5) + struct.pack(">ix", header.correlation_id)
    return _SIZE.pack(body_bytes + 4) + struct.pack(">i", header.correlation_id)


def response_parts(header: RequestHeader, body: Sequence[Blob]) -> list[Blob]:
    """The whole response as buffers for one gathered write; ``body`` is not copied."""
    return [response_head(header, sum(map(len, body))), *body]


def decode_response_header(api_key: int, api_version: int, frame: memoryview) -> tuple[int, int]:
    """(correlation id, position of the body) of a response to a request of this API and version."""
    api = APIS.get(api_key)
    if len(frame) < 4:
        raise Corrupt("the bytes end inside this field", where="ResponseHeader.correlation_id at byte 0")
    correlation_id, pos = int.from_bytes(frame[:4], "big", signed=True), 4
    if api is not None and api.response_header_version(api_version) == 1:
        try:
            pos = skip_tags(frame, pos, len(frame))
        except FAULTS as fault:
            raise Corrupt(str(fault) or "the bytes end inside this field", where="ResponseHeader.tags at byte 4") from None
    return correlation_id, pos


def frame_size(prefix: Blob, frame_bytes_max: int) -> int:
    """The size a four-byte prefix claims; Corrupt when negative or above ``frame_bytes_max``, before anything is allocated."""
    size: int = _SIZE.unpack_from(prefix)[0]
    if size < 0:
        raise Corrupt(f"frame size {size} is negative; this is not a Kafka client", where="frame")
    if size > frame_bytes_max:
        raise Corrupt(f"frame of {size} bytes is above the limit of {frame_bytes_max}", where="frame")
    return size


class FrameBuffer:
    """Bytes in, whole frames out; no I/O. After Corrupt the stream has no next frame boundary: close the connection."""

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._pending = bytearray()

    def feed(self, data: Blob) -> Iterator[memoryview]:
        """The frames completed by ``data``, each its own read-only copy. Memory held is below one frame plus ``data``."""
        self._pending += data
        return self._frames()

    def _frames(self) -> Iterator[memoryview]:
        start, pending = 0, self._pending
        try:
            while len(pending) - start >= SIZE_BYTES:
                end = start + SIZE_BYTES + frame_size(pending[start : start + SIZE_BYTES], self._frame_bytes_max)
                if end > len(pending):
                    break
                frame = memoryview(bytes(pending[start + SIZE_BYTES : end]))
                start = end
                yield frame
        finally:
            del pending[:start]
