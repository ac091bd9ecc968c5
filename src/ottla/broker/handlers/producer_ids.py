"""InitProducerId (API key 22): versions 0 to 5, a producer id for an idempotent producer (KIP-98).

A producer that asks again with its old id and epoch (v3) gets a fresh id as well, as in Kafka: without a
transactional id nothing ties the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.context import RequestContext
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ottla.protocol.messages.init_producer_id_response import InitProducerIdResponse
from ottla.protocol.record_batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


async def init_producer_id(
    broker: Broker, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    """Hand out the next id. A transactional id is refused: this broker has no transaction coordinator."""
    half_known = (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH)
    if request.transactional_id is not None or half_known:
        return InitProducerIdResponse(
            error_code=ErrorCode.INVALID_REQUEST, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
        )
    producer_id = await broker.producer_ids.next_id()
    return InitProducerIdResponse(error_code=0, producer_id=producer_id, producer_epoch=0)


HANDLERS = {ApiKey.INIT_PRODUCER_ID: init_producer_id}
