"""SyncGroup (key 14), versions 0-5: the leader hands in the assignment, every member gets its part.

Protocol type and name are checked from v5 (KIP-559). The assignment is stored before anybody gets it (R19).
"""

from __future__ import annotations

from frazil.broker.groups.values import SyncRequest
from frazil.broker.registry import Call, handles
from frazil.wire.messages.registry import ApiKey
from frazil.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


@handles(ApiKey.SYNC_GROUP, 0, 5)
async def sync_group(call: Call[SyncGroupRequest]) -> SyncGroupResponse:
    """Waits for the leader's assignment."""
    asked = call.message
    answer = await call.services.groups.sync(
        asked.group_id,
        SyncRequest(
            member_id=asked.member_id,
            instance_id=asked.group_instance_id,
            generation=asked.generation_id,
            protocol_type=asked.protocol_type,
            protocol_name=asked.protocol_name,
            assignments=tuple((a.member_id, bytes(a.assignment)) for a in asked.assignments),
        ),
    )
    return SyncGroupResponse(
        error_code=answer.error,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name,
        assignment=answer.assignment,
    )
