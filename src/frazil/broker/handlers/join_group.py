"""JoinGroup (key 11), versions 0-9: become a member and wait for the end of the rebalance.

Covers KIP-394 (member id required, from v4), KIP-345 (static members, v5), KIP-559 (protocol type in the answer, v7), KIP-800
(reason, v8, only logged), KIP-814 (skip assignment, v9). Below v1 the session timeout is also the rebalance timeout.

Deviation: the first rebalance of an empty group waits 200 ms for more members instead of 3 s (KIP-134), so that a single
consumer starts quickly.
"""

from __future__ import annotations

from frazil.broker.groups.values import JoinRequest, Protocol
from frazil.broker.registry import Call, handles
from frazil.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from frazil.wire.messages.registry import ApiKey

_FIRST_WITH_REBALANCE_TIMEOUT = 1
_FIRST_WITH_MEMBER_ID_REQUIRED = 4
_FIRST_WITH_NULL_PROTOCOL = 7
_FIRST_WITH_SKIP_ASSIGNMENT = 9


@handles(ApiKey.JOIN_GROUP, 0, 9)
async def join_group(call: Call[JoinGroupRequest]) -> JoinGroupResponse:
    """Joins; the answer comes when the generation begins."""
    asked = call.message
    version = call.version
    if asked.reason:
        call.services.complaints.note(f"member {asked.member_id!r} joins group {asked.group_id!r}: {asked.reason}")
    answer = await call.services.groups.join(
        asked.group_id,
        JoinRequest(
            member_id=asked.member_id,
            instance_id=asked.group_instance_id,
            client_id=call.header.client_id or "client",
            client_host=f"/{call.session.client_host}",
            protocol_type=asked.protocol_type,
            protocols=tuple(Protocol(name=p.name, metadata=bytes(p.metadata)) for p in asked.protocols),
            session_timeout_ms=asked.session_timeout_ms,
            rebalance_timeout_ms=(
                asked.rebalance_timeout_ms if version >= _FIRST_WITH_REBALANCE_TIMEOUT else asked.session_timeout_ms
            ),
            member_id_required=version >= _FIRST_WITH_MEMBER_ID_REQUIRED,
            may_skip_assignment=version >= _FIRST_WITH_SKIP_ASSIGNMENT,
        ),
    )
    no_name = None if version >= _FIRST_WITH_NULL_PROTOCOL else ""
    return JoinGroupResponse(
        error_code=answer.error,
        generation_id=answer.generation,
        protocol_type=answer.protocol_type,
        protocol_name=no_name if answer.protocol_name is None else answer.protocol_name,
        leader=answer.leader_id,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id or asked.member_id,
        members=[
            JoinGroupResponseMember(member_id=m.member_id, group_instance_id=m.instance_id, metadata=m.metadata) for m in answer.members
        ],
    )
