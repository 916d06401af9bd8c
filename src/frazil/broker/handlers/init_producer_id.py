"""InitProducerId (key 22), versions 0-5: a producer id for an idempotent producer (KIP-98).

Each request without a transactional id gets a fresh id with epoch 0, also when it names an old one (KIP-360): ids come from
blocks taken from metadata and are never given twice.

Deviation: transactions are not supported; a request with a transactional id is TRANSACTIONAL_ID_AUTHORIZATION_FAILED, as if
no id were allowed: the only code that ends init_transactions at once in every client. librdkafka asks again for ever after
UNSUPPORTED_VERSION. Clients that use FindCoordinator v4 or above have been told in words before.
"""

from __future__ import annotations

from frazil.broker.registry import Call, handles
from frazil.wire.errors import ErrorCode
from frazil.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from frazil.wire.messages.registry import ApiKey


@handles(ApiKey.INIT_PRODUCER_ID, 0, 5)
async def init_producer_id(call: Call[InitProducerIdRequest]) -> InitProducerIdResponse:
    """A fresh id."""
    if call.message.transactional_id is not None:
        asked = call.message.transactional_id
        call.services.complaints.note(f"{call.session.client_host} asked for transactions as {asked!r}; they are not supported")
        return InitProducerIdResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, producer_id=-1, producer_epoch=-1)
    return InitProducerIdResponse(producer_id=await call.services.producer_ids.next(), producer_epoch=0)
