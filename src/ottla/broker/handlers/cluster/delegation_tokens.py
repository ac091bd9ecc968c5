"""Delegation tokens (KIP-48): Create (API key 38) 1-3, Renew (39) 1-2, Expire (40) 1-2, Describe (41) 1-3.

A broker describes tokens from its own metadata and passes changes on. A client that has authenticated by a
token, or not at all, may do neither: a token must not be a way to get more of them. A token for another owner
takes CREATE_TOKENS on that user. Tokens of others are shown to those with DESCRIBE on the token, or
DESCRIBE_TOKENS on its owner (KIP-373); so to every user of a node without an authorizer, as in Kafka. The
other rules are in `ottla.core.decisions.delegation_tokens`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.handlers.cluster.forwarding import forward
from ottla.broker.network.context import ANONYMOUS, RequestContext
from ottla.broker.network.turns import in_turns
from ottla.broker.system_randomness import SystemRandomness
from ottla.broker.token_settings import token_rules
from ottla.core.decisions.delegation_tokens import (
    create_delegation_token,
    expire_delegation_token,
    renew_delegation_token,
    token_of_record,
)
from ottla.core.security.acls import AclOperation, ResourceType
from ottla.core.security.delegation_tokens import DelegationToken, token_hmac, token_id_of
from ottla.core.security.principals import principal_parts
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import (
    DelegationTokenAuthDisabled,
    DelegationTokenRequestNotAllowed,
    ErrorCode,
)
from ottla.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest
from ottla.protocol.messages.create_delegation_token_response import CreateDelegationTokenResponse
from ottla.protocol.messages.describe_delegation_token_request import DescribeDelegationTokenRequest
from ottla.protocol.messages.describe_delegation_token_response import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenResponse,
)
from ottla.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from ottla.protocol.messages.expire_delegation_token_response import ExpireDelegationTokenResponse
from ottla.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from ottla.protocol.messages.renew_delegation_token_response import RenewDelegationTokenResponse
from ottla.protocol.schema import Message

if TYPE_CHECKING:
    from ottla.broker.handlers.node import Node

#: The first version of Create and Describe that tells owner and requester apart (KIP-373).
_TELLS_REQUESTER: Final = 3


async def pass_on(node: Node, context: RequestContext, request: Message) -> Message:
    """The active controller's answer, for a client that may ask. Raises DelegationTokenRequestNotAllowed."""
    _require_allowed(context)
    return await forward(node, context, request)


async def pass_creation_on(
    node: Node, context: RequestContext, request: CreateDelegationTokenRequest
) -> Message:
    """The same for a new token; a refusal names the principals, as in Kafka."""
    return _refused_creation(node, context, request) or await forward(node, context, request)


async def create(
    node: Node, context: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    """Errors are in the answer."""
    refused = _refused_creation(node, context, request)
    if refused is not None:
        return refused
    rules, now_ms = token_rules(node.config.layers), node.now_ms()
    token_id = token_id_of(SystemRandomness().new_id())
    requester = context.session.principal
    response = await node.controller.submit(
        lambda image: create_delegation_token(request, rules, requester, token_id, now_ms)
    )
    return _as_told(context, response)


async def renew(
    node: Node, context: RequestContext, request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    """Raises DelegationToken errors."""
    _require_allowed(context)
    rules, now_ms, principal = token_rules(node.config.layers), node.now_ms(), context.session.principal
    return await node.controller.submit(
        lambda image: renew_delegation_token(image, request, rules, principal, now_ms)
    )


async def expire(
    node: Node, context: RequestContext, request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    """Raises DelegationToken errors."""
    _require_allowed(context)
    rules, now_ms, principal = token_rules(node.config.layers), node.now_ms(), context.session.principal
    return await node.controller.submit(
        lambda image: expire_delegation_token(image, request, rules, principal, now_ms)
    )


async def describe(
    node: Node, context: RequestContext, request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    """The tokens of the owners that are named, or all of them. Raises DelegationToken errors."""
    _require_allowed(context)
    rules = token_rules(node.config.layers)
    if rules.secret is None:
        raise DelegationTokenAuthDisabled
    owners = None
    if request.owners is not None:
        owners = {f"{each.principal_type}:{each.principal_name}" for each in request.owners}
    described = []
    async for record in in_turns(list(node.image.delegation_tokens.values())):
        token = token_of_record(record)
        if owners is not None and owners.isdisjoint((token.owner, *token.renewers)):
            continue
        if _may_see(node, context, token):
            described.append(_described(context, token, token_hmac(rules.secret, token.token_id)))
    return DescribeDelegationTokenResponse(tokens=described)


def _is_allowed(context: RequestContext) -> bool:
    session = context.session
    return session.principal != ANONYMOUS and not session.token_authenticated


def _require_allowed(context: RequestContext) -> None:
    if not _is_allowed(context):
        raise DelegationTokenRequestNotAllowed


def _may_see(node: Node, context: RequestContext, token: DelegationToken) -> bool:
    if token.may_be_renewed_by(context.session.principal):
        return True
    allows = node.authorization.allows_unnamed
    return allows(context, AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id) or allows(
        context, AclOperation.DESCRIBE_TOKENS, ResourceType.USER, token.owner
    )


def _refused_creation(
    node: Node, context: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse | None:
    """The answer to a client that may not make this token, None for one that may."""
    principal = context.session.principal
    owner = f"{request.owner_principal_type}:{request.owner_principal_name}"
    if not _is_allowed(context):
        error = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    else:
        allows, operation = node.authorization.allows, AclOperation.CREATE_TOKENS
        is_own = not request.owner_principal_name or owner == principal
        if is_own or allows(context, operation, ResourceType.USER, owner):
            return None
        error = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    response = CreateDelegationTokenResponse(error_code=error)
    requester = principal_parts(principal)
    response.token_requester_principal_type, response.token_requester_principal_name = requester
    response.principal_type, response.principal_name = requester
    if request.owner_principal_name:
        response.principal_type = request.owner_principal_type or ""
        response.principal_name = request.owner_principal_name
    return _as_told(context, response)


def _as_told(
    context: RequestContext, response: CreateDelegationTokenResponse
) -> CreateDelegationTokenResponse:
    if context.api_version < _TELLS_REQUESTER:
        response.token_requester_principal_type = response.token_requester_principal_name = ""
    return response


def _described(context: RequestContext, token: DelegationToken, hmac: bytes) -> DescribedDelegationToken:
    owner_type, owner_name = principal_parts(token.owner)
    tells_requester = context.api_version >= _TELLS_REQUESTER
    requester_type, requester_name = principal_parts(token.requester) if tells_requester else ("", "")
    return DescribedDelegationToken(
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        issue_timestamp=token.issued_at_ms,
        expiry_timestamp=token.expires_at_ms,
        max_timestamp=token.max_timestamp_ms,
        token_id=token.token_id,
        hmac=hmac,
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name)
            for kind, name in map(principal_parts, token.renewers)
        ],
    )


HANDLERS = {
    ApiKey.CREATE_DELEGATION_TOKEN: pass_creation_on,
    ApiKey.RENEW_DELEGATION_TOKEN: pass_on,
    ApiKey.EXPIRE_DELEGATION_TOKEN: pass_on,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: describe,
}
CONTROLLER_HANDLERS = {
    ApiKey.CREATE_DELEGATION_TOKEN: create,
    ApiKey.RENEW_DELEGATION_TOKEN: renew,
    ApiKey.EXPIRE_DELEGATION_TOKEN: expire,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: describe,
}
