"""Envelope (API key 58): version 0. Requests of clients that another node passes on (KIP-590).

An envelope may hold a request that this controller serves and a broker passes on. The answer is wrapped
again, but for NOT_CONTROLLER, which is the envelope's own error: the other node looks for the leader then.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from ottla.broker.controller.envelope import unwrap_request, wrap_response
from ottla.broker.handlers.apis import CONTROLLER_FAMILIES, FAMILIES
from ottla.broker.network.context import RequestContext, Session
from ottla.broker.network.error_answers import error_answer, says_not_controller
from ottla.core.security.acls import AclOperation
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, InvalidRequest, KafkaError, NotController
from ottla.protocol.messages.envelope_request import EnvelopeRequest
from ottla.protocol.messages.envelope_response import EnvelopeResponse

if TYPE_CHECKING:
    from ottla.broker.handlers.node import Node

#: APIs of both tables that each listener answers by itself.
_NOT_PASSED_ON = {
    ApiKey.FETCH,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.API_VERSIONS,
    ApiKey.DESCRIBE_ACLS,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
}
PASSED_ON = frozenset((FAMILIES.keys() & CONTROLLER_FAMILIES.keys()) - _NOT_PASSED_ON)


async def envelope(node: Node, context: RequestContext, request: EnvelopeRequest) -> EnvelopeResponse:
    """Handle the request inside as if it had come here. Raises KafkaError.

    The node that sends it needs CLUSTER_ACTION; what the request may do is decided for its own principal.
    """
    node.authorization.require_on_cluster(context, AclOperation.CLUSTER_ACTION)
    header, inside, principal, token_authenticated, client_host = unwrap_request(request)
    if header.api_key not in PASSED_ON:
        raise InvalidRequest(f"API key {header.api_key} can't be passed on in an envelope")
    inner = RequestContext(
        header.api_key,
        header.api_version,
        header.correlation_id,
        header.client_id,
        Session(
            client_host,
            context.session.listener_name,
            principal,
            token_authenticated=token_authenticated,
        ),
    )
    try:
        response = node.answer_as_controller(inner, inside)
        answer = await response if inspect.isawaitable(response) else response
    except NotController:
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    except KafkaError as error:
        failed = error_answer(header.api_key, inside, error)
        if failed is None:
            raise
        answer = failed
    if says_not_controller(answer):
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    return wrap_response(header, answer)


CONTROLLER_HANDLERS = {ApiKey.ENVELOPE: envelope}
