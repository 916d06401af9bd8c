"""Messages against bytes written out by hand, and what the codec says when something is wrong."""

from __future__ import annotations

import pytest

from frazil.kit.errors import Bug, Corrupt, Refused
from frazil.wire import APIS, ErrorCode, decode_request, encode_response
from frazil.wire.client import decode_response, encode_request
from frazil.wire.consumer import decode_assignment, decode_subscription, encode_assignment, encode_subscription
from frazil.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from frazil.wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from frazil.wire.messages.consumer_protocol_assignment import TopicPartition as Assigned
from frazil.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from frazil.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, LeaderIdAndEpoch, PartitionData, ReplicaState
from frazil.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from frazil.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from frazil.wire.messages.registry import ApiKey
from frazil.wire.messages.sasl_authenticate import SaslAuthenticateRequest


def hexed(text: str) -> memoryview:
    return memoryview(bytes.fromhex(text))


def test_metadata_request_v1_and_v9_by_hand():
    message = MetadataRequest(topics=[MetadataRequestTopic(name="hi")])
    assert encode_request(3, 1, message).hex(" ") == "00 00 00 01 00 02 68 69"
    assert encode_request(3, 9, message).hex(" ") == "02 03 68 69 00 01 00 00 00"
    assert decode_request(3, 9, hexed("02 03 6869 00 01 00 00 00"), 0) == message


def test_null_topics_mean_all_topics_from_v1_on():
    everything = MetadataRequest(topics=None)
    assert encode_request(3, 1, everything) == b"\xff\xff\xff\xff"
    read = decode_request(3, 9, hexed("00 01 00 00 00"), 0)
    assert isinstance(read, MetadataRequest)
    assert read.topics is None
    with pytest.raises(Bug, match="may not be null in version 0"):
        encode_request(3, 0, everything)
    with pytest.raises(Corrupt, match="null or negative"):
        decode_request(3, 0, hexed("ffffffff"), 0)


def test_fields_a_version_lacks_are_not_written_and_hold_their_default_after_reading():
    message = JoinGroupRequest(
        group_id="g", group_instance_id="i", reason="r", protocols=[JoinGroupRequestProtocol(name="range", metadata=b"m")]
    )
    read = decode_request(11, 0, memoryview(encode_request(11, 0, message)), 0)
    assert isinstance(read, JoinGroupRequest)
    assert (read.group_instance_id, read.reason, read.rebalance_timeout_ms) == (None, None, -1)
    assert read.protocols[0].metadata == b"m"


def test_api_versions_v3_by_hand_has_no_tag_that_holds_a_default():
    """librdkafka before 2.2 mis-skips tags, so a client of Debian 12 cannot connect where defaults are sent as tags."""
    message = ApiVersionsResponse(api_keys=[ApiVersion(api_key=18, min_version=0, max_version=4)])
    assert encode_response(18, 3, message).hex(" ") == "00 00 02 00 12 00 00 00 04 00 00 00 00 00 00"


def test_tagged_structs_are_written_only_when_they_differ_from_their_default():
    def body(leader):
        topics = [FetchableTopicResponse(topic="t", partitions=[PartitionData(current_leader=leader, records=b"")])]
        return encode_response(1, 12, FetchResponse(responses=topics))

    assert body(None) == body(LeaderIdAndEpoch())
    told = body(LeaderIdAndEpoch(leader_id=3, leader_epoch=0))
    assert len(told) == len(body(None)) + 2 + 4 + 4 + 1
    read = decode_response(1, 12, memoryview(told), 0)
    assert isinstance(read, FetchResponse)
    assert read.responses[0].partitions[0].current_leader == LeaderIdAndEpoch(leader_id=3, leader_epoch=0)


def test_known_tags_are_read_and_unknown_ones_stepped_over():
    message = FetchRequest(cluster_id="c", replica_state=ReplicaState(replica_id=1, replica_epoch=2))
    data = encode_request(1, 15, message)
    assert decode_request(1, 15, memoryview(data), 0) == message
    tail = bytes.fromhex("02 00 02 02 63 01 0d 00000001 0000000000000002 00")
    assert data.endswith(tail)
    more = data[: -len(tail)] + bytes.fromhex("03 00 02 02 63 01 0d 00000001 0000000000000002 00 7f 03 616263")
    assert decode_request(1, 15, memoryview(more), 0) == message
    lying = data[: -len(tail)] + bytes.fromhex("01 00 03 02 63 00")
    with pytest.raises(Corrupt, match=r"FetchRequest v15, FetchRequest.cluster_id at byte \d+: tagged field does not end"):
        decode_request(1, 15, memoryview(lying), 0)


@pytest.mark.parametrize(
    ("version", "text", "words"),
    [
        (1, "", r"MetadataRequest v1, MetadataRequest.topics at byte 0: the bytes end"),
        (1, "7fffffff 0001 61", r"MetadataRequest.topics at byte 4: length 2147483647 cannot fit in the 3 bytes left"),
        (1, "00000001 0009 61", r"MetadataRequestTopic.name at byte 6: length 9 cannot fit in the 1 bytes left"),
        (1, "00000001 ffff", r"MetadataRequestTopic.name at byte 6: null or negative"),
        (1, "00000001 0001 ff", r"MetadataRequestTopic.name at byte 6: text is not UTF-8"),
        (1, "00000001 0001 61 00", r"MetadataRequest v1, byte 7: 1 bytes are left after the message"),
        (9, "ffffffffff", r"varint is longer than 32 bits"),
        (9, "02 03 6869 01 05 7f", r"MetadataRequestTopic.tags at byte 5: length 127 cannot fit"),
    ],
)
def test_corrupt_names_message_version_field_and_byte(version, text, words):
    with pytest.raises(Corrupt, match=words):
        decode_request(3, version, hexed(text), 0)


def test_unknown_keys_and_versions_are_refused_in_words():
    with pytest.raises(Refused, match="API key 999 is not spoken here"):
        decode_request(999, 0, hexed(""), 0)
    with pytest.raises(Refused, match="MetadataRequest has no version 14; known: 0 to 13"):
        decode_request(3, 14, hexed(""), 0)
    with pytest.raises(Refused, match="MetadataResponse has no version -1"):
        encode_response(3, -1, MetadataRequest())


@pytest.mark.parametrize(
    "act",
    [
        lambda: encode_response(3, 1, ApiVersionsResponse()),
        lambda: encode_response(11, 2, JoinGroupResponse(generation_id=1 << 40)),
        lambda: encode_response(11, 2, JoinGroupResponse(leader="x" * 40_000)),
        lambda: encode_response(11, 2, JoinGroupResponse(leader=5)),
        lambda: encode_response(11, 2, JoinGroupResponse(leader="\ud800")),
    ],
)
def test_a_message_that_does_not_fit_is_a_bug_of_ours(act):
    with pytest.raises(Bug):
        act()


def test_position_and_views():
    frame = hexed("aabb 00 01 00 00 00")
    assert decode_request(3, 9, frame, 2) == MetadataRequest(topics=None)


def test_repr_never_shows_blobs():
    assert repr(SaslAuthenticateRequest(auth_bytes=b"\0user\0secret")) == "SaslAuthenticateRequest(auth_bytes=<12 bytes>)"


def test_messages_compare_by_value_and_are_not_hashable():
    assert ApiVersionsRequest(client_software_name="a") == ApiVersionsRequest(client_software_name="a")
    assert ApiVersionsRequest(client_software_name="a") != ApiVersionsRequest()
    assert ApiVersionsRequest() != MetadataRequest()
    assert MetadataRequest(topics=[]) == MetadataRequest(topics=())
    with pytest.raises(TypeError):
        hash(ApiVersionsRequest())


def test_registry_says_what_kafka_says():
    assert {key.value for key in ApiKey} == set(APIS)
    for api in APIS.values():
        request, response = api.load()
        assert request.name == api.name + "Request"
        assert response.name == api.name + "Response"
        for layouts in (request, response):
            assert sorted(layouts.readers) == sorted(layouts.writers) == list(range(api.version_min, api.version_max + 1))
    produce, handshake, versions = APIS[0], APIS[17], APIS[18]
    assert (produce.version_min, produce.version_max, produce.flexible_from) == (3, 13, 9)
    assert [produce.request_header_version(v) for v in (8, 9)] == [1, 2]
    assert [produce.response_header_version(v) for v in (8, 9)] == [0, 1]
    assert handshake.flexible_from is None
    assert [versions.response_header_version(v) for v in (0, 3, 4)] == [0, 0, 0]


def test_error_codes():
    assert ErrorCode(-1) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert ErrorCode.NONE == 0
    assert ErrorCode.UNKNOWN_TOPIC_OR_PARTITION == 3
    assert ErrorCode.UNSUPPORTED_VERSION == 35
    assert sorted(ErrorCode) == list(range(-1, max(ErrorCode) + 1))


def test_consumer_protocol_reads_later_versions_as_the_newest_known():
    subscription = ConsumerProtocolSubscription(topics=["a", "b"], user_data=b"u", generation_id=4, rack_id="r")
    data = encode_subscription(3, subscription)
    assert decode_subscription(data) == subscription
    assert decode_subscription(b"\0\x09" + data[2:] + b"more") == subscription
    assert decode_subscription(encode_subscription(0, subscription)).topics == ["a", "b"]
    assignment = ConsumerProtocolAssignment(assigned_partitions=[Assigned(topic="a", partitions=[0, 2])])
    assert decode_assignment(encode_assignment(1, assignment)).assigned_partitions == assignment.assigned_partitions
    assert decode_assignment(b"").assigned_partitions == ()
    for bad in (b"\0", b"\xff\xff", data[:5], b"\0\0\x7f\xff\xff\xff"):
        with pytest.raises(Corrupt, match="ConsumerProtocolSubscription"):
            decode_subscription(bad)
