"""Frames and headers against bytes written out by hand."""

from __future__ import annotations

import pytest

from frazil.kit.errors import Corrupt
from frazil.wire import FrameBuffer, RequestHeader
from frazil.wire.frame import decode_response_header, encode_request_frame, frame_size, response_head, response_parts


def header_of(text: str) -> RequestHeader:
    return RequestHeader.decode(memoryview(bytes.fromhex(text)))


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("0007 0000 00000009", RequestHeader(7, 0, 9, None, 8)),  # v0: ControlledShutdown v0
        ("0003 0001 00000007 0003 616263", RequestHeader(3, 1, 7, "abc", 13)),  # v1
        ("0003 0001 ffffffff ffff", RequestHeader(3, 1, -1, None, 10)),
        ("0003 0009 00000007 0003 616263 00", RequestHeader(3, 9, 7, "abc", 14)),  # v2; the client id stays non-compact
        ("0012 0003 00000001 0001 78 01 05 02 aabb", RequestHeader(18, 3, 1, "x", 16)),  # v2 with an unknown tag
        ("0012 0063 00000001 0001 78 00", RequestHeader(18, 99, 1, "x", 12)),  # ApiVersions from the future is still v2
        ("03e7 0000 00000001 0001 78", RequestHeader(999, 0, 1, "x", 11)),  # unknown API: read as v1
    ],
)
def test_request_header(text, want):
    assert header_of(text) == want


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", "api_key at byte 0"),
        ("0003 0001 000000", "api_key at byte 0"),
        ("0003 0001 00000007", "client_id at byte 8"),
        ("0003 0001 00000007 00", "client_id at byte 8"),
        ("0003 0001 00000007 0004 616263", "client_id at byte 8"),
        ("0003 0001 00000007 fffe", "client_id at byte 8"),
        ("0003 0001 00000007 0001 ff", "client_id at byte 8"),
        ("0003 0009 00000007 ffff", "tags at byte 10"),
        ("0003 0009 00000007 ffff 01 05 7f", "tags at byte 10"),
        ("0003 0009 00000007 ffff ffffffffff", "tags at byte 10"),
    ],
)
def test_bad_request_headers_name_field_and_byte(text, where):
    with pytest.raises(Corrupt, match=where):
        header_of(text)


@pytest.mark.parametrize(("api_key", "version"), [(7, 0), (3, 0), (3, 9), (18, 3)])
@pytest.mark.parametrize("client_id", [None, "", "frazil"])
def test_request_frames_come_back(api_key, version, client_id):
    frame = encode_request_frame(RequestHeader(api_key, version, 5, client_id, 0), b"body")
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header = RequestHeader.decode(memoryview(frame)[4:])
    assert (header.api_key, header.api_version, header.correlation_id) == (api_key, version, 5)
    assert header.client_id == (client_id if api_key != 7 else None)
    assert frame[4 + header.position :] == b"body"


def test_response_heads():
    assert response_head(RequestHeader(3, 8, 5, None, 0), 2).hex(" ") == "00 00 00 06 00 00 00 05"
    assert response_head(RequestHeader(3, 9, 5, None, 0), 2).hex(" ") == "00 00 00 07 00 00 00 05 00"


@pytest.mark.parametrize("version", [0, 2, 3, 4, 99])
def test_api_versions_is_always_answered_with_header_v0(version):
    assert response_head(RequestHeader(18, version, 5, None, 0), 2).hex(" ") == "00 00 00 06 00 00 00 05"


def test_response_parts_do_not_copy():
    body = [bytearray(b"ab"), memoryview(b"cde")]
    parts = response_parts(RequestHeader(3, 0, 1, None, 0), body)
    assert parts[0] == b"\0\0\0\x09\0\0\0\x01"
    assert parts[1] is body[0]
    assert parts[2] is body[1]


def test_response_header_of_a_client():
    assert decode_response_header(3, 8, memoryview(bytes.fromhex("00000005ff"))) == (5, 4)
    assert decode_response_header(3, 9, memoryview(bytes.fromhex("0000000500ff"))) == (5, 5)
    assert decode_response_header(18, 4, memoryview(bytes.fromhex("00000005ff"))) == (5, 4)
    for version, text in ((8, "000000"), (9, "00000005"), (9, "0000000501")):
        with pytest.raises(Corrupt, match="ResponseHeader"):
            decode_response_header(3, version, memoryview(bytes.fromhex(text)))


@pytest.mark.parametrize("step", [1, 2, 3, 5, 100])
def test_frame_buffer_cuts_whatever_the_pieces(step):
    stream = b"".join(len(body).to_bytes(4, "big") + body for body in (b"one", b"", b"three!", b"x" * 40))
    buffer = FrameBuffer(40)
    frames = [bytes(frame) for at in range(0, len(stream), step) for frame in buffer.feed(stream[at : at + step])]
    assert frames == [b"one", b"", b"three!", b"x" * 40]


@pytest.mark.parametrize(("prefix", "why"), [("00000029", "above the limit of 40"), ("7fffffff", "2147483647"), ("ffffffff", "negative")])
def test_giant_and_negative_frames_are_refused_at_their_fourth_byte(prefix, why):
    with pytest.raises(Corrupt, match=why):
        frame_size(bytes.fromhex(prefix), 40)
    buffer = FrameBuffer(40)
    assert list(buffer.feed(bytes.fromhex(prefix)[:3])) == []
    with pytest.raises(Corrupt, match=why):
        list(buffer.feed(bytes.fromhex(prefix)[3:]))


def test_frames_before_a_bad_one_are_given_first():
    frames = FrameBuffer(40).feed(b"\0\0\0\x02ok\xff\xff\xff\xff")
    assert bytes(next(frames)) == b"ok"
    with pytest.raises(Corrupt):
        next(frames)
