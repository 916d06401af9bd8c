"""DescribeGroups (key 15), versions 0-6: state, protocol and members of groups coordinated here.

A group that does not exist is "Dead" without an error up to v5, GROUP_ID_NOT_FOUND from v6 (KIP-1043).
Authorized operations are not computed.
"""

from __future__ import annotations

from frazil.broker.groups.coordinator import NotHere
from frazil.broker.groups.inventory import describe_group
from frazil.broker.registry import Call, handles
from frazil.broker.services import Services
from frazil.wire.errors import ErrorCode
from frazil.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from frazil.wire.messages.registry import ApiKey

_FIRST_WITH_NOT_FOUND = 6


@handles(ApiKey.DESCRIBE_GROUPS, 0, 6)
async def describe_groups(call: Call[DescribeGroupsRequest]) -> DescribeGroupsResponse:
    """One description per group."""
    return DescribeGroupsResponse(groups=[await _describe(call.services, group, call.version) for group in call.message.groups])


async def _describe(services: Services, group: str, version: int) -> DescribedGroup:
    try:
        found = await describe_group(services.groups, group)
    except NotHere as error:
        return DescribedGroup(group_id=group, error_code=error.code)
    if found is None:
        gone = DescribedGroup(group_id=group, group_state="Dead")
        if version >= _FIRST_WITH_NOT_FOUND:
            gone.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            gone.error_message = f"group {group} does not exist"
        return gone
    return DescribedGroup(
        group_id=group,
        group_state=found.state.value,
        protocol_type=found.protocol_type,
        protocol_data=found.protocol_name,
        members=[
            DescribedGroupMember(
                member_id=m.member_id,
                group_instance_id=m.instance_id,
                client_id=m.client_id,
                client_host=m.client_host,
                member_metadata=m.metadata,
                member_assignment=m.assignment,
            )
            for m in found.members
        ],
    )
