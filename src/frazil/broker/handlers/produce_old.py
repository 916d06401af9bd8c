"""Produce v0-v2 on the wire: read only to be answered, since Kafka 4 no longer defines them (KIP-896).

They carry message formats 0 and 1. The answer names each partition with UNSUPPORTED_FOR_MESSAGE_FORMAT, which an old
client shows to its user; closing the connection would look like a network fault.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from frazil.kit.errors import Corrupt
from frazil.wire.produce import ProduceCall, ProducedTopic, decode_produce

_NO_TRANSACTIONAL_ID = b"\xff\xff"


def decode_old_produce(version: int, frame: memoryview, position: int) -> ProduceCall:
    """The request in v0-v2: as v3 without the transactional id in front. Raises Corrupt."""
    try:
        return decode_produce(3, memoryview(_NO_TRANSACTIONAL_ID + bytes(frame[position:])), 0)
    except Corrupt as error:
        raise Corrupt(error.why, where=f"ProduceRequest v{version}, {error.where}") from None


def encode_old_produce_response(version: int, topics: Sequence[ProducedTopic]) -> bytes:
    """The response body in v0-v2: partition, code, base offset; v1 adds the throttle time, v2 the log append time."""
    parts = [struct.pack(">i", len(topics))]
    for topic in topics:
        name = topic.name.encode()
        parts.append(struct.pack(f">h{len(name)}si", len(name), name, len(topic.partitions)))
        for p in topic.partitions:
            parts.append(struct.pack(">ihq", p.index, p.error_code, p.base_offset))
            if version >= 2:
                parts.append(struct.pack(">q", p.log_append_time_ms))
    if version >= 1:
        parts.append(struct.pack(">i", 0))
    return b"".join(parts)
