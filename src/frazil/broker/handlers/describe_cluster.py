"""DescribeCluster (key 60), versions 0-2: the cluster id and its live brokers (KIP-700).

Deviations: authorized operations are not computed; there are no separate controllers, so endpoint type 2 (KIP-919) is
UNSUPPORTED_ENDPOINT_TYPE; no broker is ever listed as fenced.
"""

from __future__ import annotations

from frazil.broker.registry import Call, handles
from frazil.wire.errors import ErrorCode
from frazil.wire.messages.describe_cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse
from frazil.wire.messages.registry import ApiKey

_BROKERS = 1


@handles(ApiKey.DESCRIBE_CLUSTER, 0, 2)
async def describe_cluster(call: Call[DescribeClusterRequest]) -> DescribeClusterResponse:
    """The live brokers."""
    services = call.services
    if call.version >= 1 and call.message.endpoint_type != _BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, error_message="there are no controller endpoints here; ask for brokers"
        )
    brokers = services.brokers.view.brokers
    return DescribeClusterResponse(
        cluster_id=services.settings.cluster_id,
        controller_id=brokers[0].broker_id,
        brokers=[DescribeClusterBroker(broker_id=b.broker_id, host=b.host, port=b.port, rack=b.rack or None) for b in brokers],
    )
