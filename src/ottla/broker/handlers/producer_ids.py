"""InitProducerId (API key 22): versions 0 to 5, a producer id for an idempotent producer (KIP-98).

A producer that asks again with its old id and epoch (v3) gets a fresh id as well, as in Kafka: without a
transactional id nothing ties the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.context import RequestContext
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import InvalidRequest
from ottla.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ottla.protocol.messages.init_producer_id_response import InitProducerIdResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


async def init_producer_id(
    broker: Broker, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    """Hand out the next id. A transactional id is refused: this broker has no transaction coordinator."""
    if request.transactional_id is not None:
        raise InvalidRequest("transactions are not served by this broker")
    producer_id = await broker.producer_ids.next_id()
    return InitProducerIdResponse(error_code=0, producer_id=producer_id, producer_epoch=0)


HANDLERS = {ApiKey.INIT_PRODUCER_ID: init_producer_id}
