"""ListGroups (key 16), versions 0-5: groups coordinated by this broker; clients ask every broker and add up.

Filters by state (v4, KIP-518) and by type (v5, KIP-848); every group here is "classic".
"""

from __future__ import annotations

from frazil.broker.groups.inventory import list_groups as list_coordinated
from frazil.broker.registry import Call, handles
from frazil.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from frazil.wire.messages.registry import ApiKey

_TYPE = "classic"


@handles(ApiKey.LIST_GROUPS, 0, 5)
async def list_groups(call: Call[ListGroupsRequest]) -> ListGroupsResponse:
    """The groups that pass the filters."""
    states = {state.lower() for state in call.message.states_filter}
    types = {kind.lower() for kind in call.message.types_filter}
    if types and _TYPE not in types:
        return ListGroupsResponse()
    services = call.services
    found = await list_coordinated(services.groups, services.store)
    return ListGroupsResponse(
        groups=[
            ListedGroup(group_id=g.group, protocol_type=g.protocol_type, group_state=g.state.value, group_type=_TYPE)
            for g in found
            if not states or g.state.value.lower() in states
        ]
    )
