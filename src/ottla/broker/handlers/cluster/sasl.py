"""SaslHandshake (API key 17) 0-1 and SaslAuthenticate (36) 0-2 where they don't belong: ILLEGAL_SASL_STATE.

On a listener with SASL the requests of an authentication do not come here (`broker/security`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.network.context import RequestContext
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from ottla.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from ottla.protocol.messages.sasl_handshake_response import SaslHandshakeResponse

if TYPE_CHECKING:
    from ottla.broker.handlers.node import Node


def handshake(node: Node, context: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """The listener authenticates nobody."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)


def authenticate(
    node: Node, context: RequestContext, request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse:
    """The listener authenticates nobody."""
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )


HANDLERS = {ApiKey.SASL_HANDSHAKE: handshake, ApiKey.SASL_AUTHENTICATE: authenticate}
CONTROLLER_HANDLERS = HANDLERS
