"""FindCoordinator (key 10), versions 0-6: which broker coordinates a group (many groups at once from v4, KIP-699).

The answer is rendezvous hashing over the live brokers. It is a hint: the group's record decides who may act (R19).

Deviations: transactions (key type 1) and share groups (2) are not supported. From v4 both are refused with UNSUPPORTED_VERSION
and a sentence that clients show. Below v4 a transactional id gets a broker all the same: librdkafka asks again whatever
the code and then reports a time-out, while the refusal of InitProducerId reaches its user.
"""

from __future__ import annotations

from frazil.broker.registry import Call, handles
from frazil.broker.services import Services
from frazil.kit.errors import RetryLater
from frazil.wire.errors import ErrorCode
from frazil.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from frazil.wire.messages.registry import ApiKey

_GROUP = 0
_TRANSACTION = 1
_WHY = {
    1: "transactions are not supported by this broker; use an idempotent producer without transactional.id",
    2: "share groups are not supported by this broker; use a consumer group",
}
_FIRST_WITH_BATCHES = 4


@handles(ApiKey.FIND_COORDINATOR, 0, 6)
async def find_coordinator(call: Call[FindCoordinatorRequest]) -> FindCoordinatorResponse:
    """One coordinator, or one per key from v4."""
    request = call.message
    if call.version >= _FIRST_WITH_BATCHES:
        return FindCoordinatorResponse(coordinators=[_find(call.services, request.key_type, key) for key in request.coordinator_keys])
    key_type = _GROUP if request.key_type == _TRANSACTION else request.key_type
    found = _find(call.services, key_type, request.key)
    return FindCoordinatorResponse(
        error_code=found.error_code, error_message=found.error_message, node_id=found.node_id, host=found.host, port=found.port
    )


def _find(services: Services, key_type: int, key: str) -> Coordinator:
    def failed(code: ErrorCode, why: str) -> Coordinator:
        return Coordinator(key=key, node_id=-1, port=-1, error_code=code, error_message=why)

    if key_type != _GROUP:
        if key_type in _WHY:
            return failed(ErrorCode.UNSUPPORTED_VERSION, _WHY[key_type])
        return failed(ErrorCode.INVALID_REQUEST, f"coordinators of type {key_type} do not exist")
    try:
        broker = services.brokers.coordinator(key)
    except RetryLater as error:
        return failed(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error))
    return Coordinator(key=key, node_id=broker.broker_id, host=broker.host, port=broker.port)
