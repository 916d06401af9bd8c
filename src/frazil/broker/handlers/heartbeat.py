"""Heartbeat (key 12), versions 0-4: keeps a member's session and tells it when to join again.

Stores nothing. A broker whose registration has lapsed answers NOT_COORDINATOR before another can take the group (R19).
"""

from __future__ import annotations

from frazil.broker.registry import Call, handles
from frazil.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from frazil.wire.messages.registry import ApiKey


@handles(ApiKey.HEARTBEAT, 0, 4)
async def heartbeat(call: Call[HeartbeatRequest]) -> HeartbeatResponse:
    """One code."""
    asked = call.message
    code = await call.services.groups.heartbeat(asked.group_id, asked.member_id, asked.group_instance_id, asked.generation_id)
    return HeartbeatResponse(error_code=code)
