"""InitProducerId (API key 22): versions 0 to 5, a producer's id and epoch (KIP-98); AllocateProducerIds (67).

3: a producer that goes on after an error gives its id and epoch (KIP-360). 4: PRODUCER_FENCED in place of
INVALID_PRODUCER_EPOCH (KIP-588). 5: TRANSACTION_ABORTABLE (KIP-890).

Without a transactional id, for an idempotent producer, every request gets a fresh id, as in Kafka: nothing
ties the new one to the old. With one, the coordinator of the transactional id decides.

AllocateProducerIds, version 0 (KIP-730): the active controller gives a broker a block of ids.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from ottla.broker.network.context import RequestContext
from ottla.core.coordination.api import Client
from ottla.core.decisions.producer_ids import allocate_producer_ids as decide_block
from ottla.core.security.acls import CLUSTER_NAME, AclOperation, ResourceType
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from ottla.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from ottla.protocol.messages.init_producer_id_request import InitProducerIdRequest
from ottla.protocol.messages.init_producer_id_response import InitProducerIdResponse
from ottla.protocol.record_batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

if TYPE_CHECKING:
    from ottla.broker.handlers.node import Node

FIRST_VERSION_WITH_PRODUCER_FENCED = 4


async def init_producer_id(
    node: Node, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    """Hand out the next id, or the transactional id's next epoch."""
    refused = _refusal(node, context, request)
    if refused is not None:
        return _refused(refused)
    half_known = (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH)
    if half_known:
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        producer_id = await node.producer_ids.next_id()
        return InitProducerIdResponse(error_code=0, producer_id=producer_id, producer_epoch=0)
    return await _initialise(node, context, request)


def _refusal(node: Node, context: RequestContext, request: InitProducerIdRequest) -> ErrorCode | None:
    """The error for a client that may not write so; an idempotent producer has to be allowed some topic."""
    may, transactional_id = node.authorization, request.transactional_id
    if transactional_id is None:
        if may.allows_unnamed(
            context, AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME
        ) or may.allows_on_any(context, AclOperation.WRITE, ResourceType.TOPIC):
            return None
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    operations = [AclOperation.WRITE, *([AclOperation.TWO_PHASE_COMMIT] if request.enable2_pc else ())]
    if all(
        may.allows(context, operation, ResourceType.TRANSACTIONAL_ID, transactional_id)
        for operation in operations
    ):
        return None
    return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


async def _initialise(
    node: Node, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    from ottla.broker.coordinators.transaction_shard import transaction_settings
    from ottla.core.transactions.initialising import check_initialisation

    refusal = check_initialisation(request, transaction_settings(node))
    if refusal:
        return _refused(refusal)
    client = Client(context.client_id or "", f"/{context.session.client_host}", context.api_version)
    answer = node.transactions.ask(request.transactional_id or "", request, client)
    response = await answer if inspect.isawaitable(answer) else answer
    assert isinstance(response, InitProducerIdResponse)
    if (
        response.error_code == ErrorCode.PRODUCER_FENCED
        and context.api_version < FIRST_VERSION_WITH_PRODUCER_FENCED
    ):
        response.error_code = ErrorCode.INVALID_PRODUCER_EPOCH
    return response


def _refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=error, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
    )


async def allocate_producer_ids(
    node: Node, context: RequestContext, request: AllocateProducerIdsRequest
) -> AllocateProducerIdsResponse:
    """Give a block that no other broker gets."""
    node.authorization.require_on_cluster(context, AclOperation.CLUSTER_ACTION)
    block = await node.controller.submit(
        lambda image: decide_block(image, request.broker_id, request.broker_epoch)
    )
    return AllocateProducerIdsResponse(
        error_code=ErrorCode.NONE, producer_id_start=block.first, producer_id_len=block.size
    )


HANDLERS = {ApiKey.INIT_PRODUCER_ID: init_producer_id}
CONTROLLER_HANDLERS = {ApiKey.ALLOCATE_PRODUCER_IDS: allocate_producer_ids}
