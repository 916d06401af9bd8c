"""The consumer embedded protocol: what group members put inside JoinGroup metadata and SyncGroup assignments.

An int16 version, then the message. Later versions only append fields, so a version above ours is read as our newest and what follows is
left alone (KIP-429); a broker that refused it would break newer clients for nothing.
"""

from __future__ import annotations

from frazil.kit.errors import Corrupt
from frazil.wire.codec import encode_parts
from frazil.wire.layout import Layouts, Message
from frazil.wire.messages import consumer_protocol_assignment, consumer_protocol_subscription
from frazil.wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from frazil.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription


def decode_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """A member's subscription. Corrupt when the bytes are none."""
    message = _decode(consumer_protocol_subscription.DATA, data)
    assert isinstance(message, ConsumerProtocolSubscription)
    return message


def decode_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """A member's assignment; empty bytes mean no partitions. Corrupt when the bytes are none."""
    if not data:
        return ConsumerProtocolAssignment()
    message = _decode(consumer_protocol_assignment.DATA, data)
    assert isinstance(message, ConsumerProtocolAssignment)
    return message


def encode_subscription(version: int, message: ConsumerProtocolSubscription) -> bytes:
    """Version and subscription. Refused: version unknown."""
    return version.to_bytes(2, "big") + b"".join(encode_parts(consumer_protocol_subscription.DATA, version, message))


def encode_assignment(version: int, message: ConsumerProtocolAssignment) -> bytes:
    """Version and assignment. Refused: version unknown."""
    return version.to_bytes(2, "big") + b"".join(encode_parts(consumer_protocol_assignment.DATA, version, message))


def _decode(layouts: Layouts, data: bytes) -> Message:
    claimed = int.from_bytes(data[:2], "big", signed=True)
    if len(data) < 2 or claimed < 0:
        raise Corrupt("no version in front", where=f"{layouts.name}, byte 0")
    version = min(claimed, max(layouts.readers))
    try:
        message, _ = layouts.readers[version](memoryview(data), 2, len(data))
    except Corrupt as fault:
        raise Corrupt(fault.why, where=f"{layouts.name} v{claimed}, {fault.where}") from None
    return message
