"""DeleteGroups (key 42), versions 0-2: removes empty groups with their offsets (KIP-229)."""

from __future__ import annotations

import logging

from frazil.broker.codes import code_of
from frazil.broker.groups.inventory import delete_group
from frazil.broker.registry import Call, handles
from frazil.broker.services import Services
from frazil.kit.errors import RetryLater
from frazil.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from frazil.wire.messages.registry import ApiKey

log = logging.getLogger(__name__)


@handles(ApiKey.DELETE_GROUPS, 0, 2)
async def delete_groups(call: Call[DeleteGroupsRequest]) -> DeleteGroupsResponse:
    """One code per group."""
    return DeleteGroupsResponse(results=[await _delete(call.services, group) for group in call.message.groups_names])


async def _delete(services: Services, group: str) -> DeletableGroupResult:
    try:
        return DeletableGroupResult(group_id=group, error_code=await delete_group(services.groups, services.store, group))
    except RetryLater as error:
        log.warning("group %r not deleted: %s", group, error)
        return DeletableGroupResult(group_id=group, error_code=code_of(error))
