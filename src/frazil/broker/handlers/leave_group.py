"""LeaveGroup (key 13), versions 0-5: members leave at once, one (up to v2) or many (from v3, KIP-345).

A static member may be named by its instance id alone. Reasons (v5, KIP-800) are only logged.
"""

from __future__ import annotations

from frazil.broker.groups.values import Leaver
from frazil.broker.registry import Call, handles
from frazil.wire.errors import ErrorCode
from frazil.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from frazil.wire.messages.registry import ApiKey

_FIRST_WITH_MANY = 3


@handles(ApiKey.LEAVE_GROUP, 0, 5)
async def leave_group(call: Call[LeaveGroupRequest]) -> LeaveGroupResponse:
    """A code per member from v3, one before."""
    asked = call.message
    if call.version < _FIRST_WITH_MANY:
        leavers = [Leaver(member_id=asked.member_id, instance_id=None)]
    else:
        leavers = [Leaver(member_id=m.member_id, instance_id=m.group_instance_id) for m in asked.members]
        for member in asked.members:
            if member.reason:
                call.services.complaints.note(f"member {member.member_id!r} leaves group {asked.group_id!r}: {member.reason}")
    codes = await call.services.groups.leave(asked.group_id, leavers)
    if isinstance(codes, ErrorCode):
        return LeaveGroupResponse(error_code=codes)
    if call.version < _FIRST_WITH_MANY:
        return LeaveGroupResponse(error_code=codes[0])
    return LeaveGroupResponse(
        members=[
            MemberResponse(member_id=leaver.member_id, group_instance_id=leaver.instance_id, error_code=code)
            for leaver, code in zip(leavers, codes, strict=True)
        ]
    )
