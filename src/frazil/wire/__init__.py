"""Kafka frames and messages to bytes and back; pure."""

from frazil.wire.codec import decode_request, encode_response
from frazil.wire.errors import ErrorCode
from frazil.wire.frame import FrameBuffer, RequestHeader
from frazil.wire.layout import Message
from frazil.wire.messages.registry import APIS

__all__ = ["APIS", "ErrorCode", "FrameBuffer", "Message", "RequestHeader", "decode_request", "encode_response"]
