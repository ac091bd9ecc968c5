"""CreateDelegationToken 1-3, RenewDelegationToken 1-2, ExpireDelegationToken 1-2 (KIP-48), as Kafka decides.

A token lives `delegation.token.max.lifetime.ms` at most, and ends `delegation.token.expiry.time.ms` after it
was made or last renewed. Its owner and its renewers may renew and end it; a negative period ends it at once.
Expired tokens are removed by the active controller, `delegation.token.expiry.check.interval.ms` apart.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from ottla.core.decisions.decision import MAX_RECORDS_PER_REQUEST, Decision
from ottla.core.image.image import MetadataImage
from ottla.core.security.delegation_tokens import (
    DelegationToken,
    find_token,
    later,
    token_hmac,
)
from ottla.core.security.principals import USER_TYPE, principal_parts
from ottla.protocol.errors import (
    DelegationTokenAuthDisabled,
    DelegationTokenExpired,
    DelegationTokenNotFound,
    DelegationTokenOwnerMismatch,
    ErrorCode,
)
from ottla.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest
from ottla.protocol.messages.create_delegation_token_response import CreateDelegationTokenResponse
from ottla.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from ottla.protocol.messages.expire_delegation_token_response import ExpireDelegationTokenResponse
from ottla.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from ottla.protocol.messages.renew_delegation_token_response import RenewDelegationTokenResponse
from ottla.protocol.records.delegation_token_record import DelegationTokenRecord
from ottla.protocol.records.remove_delegation_token_record import RemoveDelegationTokenRecord
from ottla.protocol.schema import Message


@dataclass(frozen=True, slots=True, repr=False)
class TokenRules:
    """The settings of delegation tokens."""

    secret: bytes | None = field(repr=False)
    """`delegation.token.secret.key`; None switches tokens off."""
    max_lifetime_ms: int
    expiry_time_ms: int


def create_delegation_token(
    request: CreateDelegationTokenRequest, rules: TokenRules, requester: str, token_id: str, now_ms: int
) -> Decision[CreateDelegationTokenResponse]:
    """Make a token for the requester, or for the owner that is named. Errors are in the answer."""
    owner = requester
    if request.owner_principal_name:
        owner = f"{request.owner_principal_type}:{request.owner_principal_name}"
    response = CreateDelegationTokenResponse()
    response.principal_type, response.principal_name = principal_parts(owner)
    parts = principal_parts(requester)
    response.token_requester_principal_type, response.token_requester_principal_name = parts
    if rules.secret is None:
        response.error_code = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        return Decision([], response)
    if any(renewer.principal_type != USER_TYPE for renewer in request.renewers):
        response.error_code = ErrorCode.INVALID_PRINCIPAL_TYPE
        return Decision([], response)
    lifetime_ms = rules.max_lifetime_ms
    if request.max_lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, request.max_lifetime_ms)
    max_timestamp_ms = later(now_ms, lifetime_ms)
    token = DelegationToken(
        token_id=token_id,
        owner=owner,
        requester=requester,
        renewers=tuple(f"{each.principal_type}:{each.principal_name}" for each in request.renewers),
        issued_at_ms=now_ms,
        expires_at_ms=min(max_timestamp_ms, later(now_ms, rules.expiry_time_ms)),
        max_timestamp_ms=max_timestamp_ms,
    )
    response.issue_timestamp_ms = now_ms
    response.expiry_timestamp_ms = token.expires_at_ms
    response.max_timestamp_ms = max_timestamp_ms
    response.token_id = token_id
    response.hmac = token_hmac(rules.secret, token_id)
    return Decision([_record(token)], response)


def renew_delegation_token(
    image: MetadataImage, request: RenewDelegationTokenRequest, rules: TokenRules, principal: str, now_ms: int
) -> Decision[RenewDelegationTokenResponse]:
    """Let a token live on. Raises DelegationToken errors."""
    token = _token_of(image, rules, bytes(request.hmac))
    if token.is_expired(now_ms):
        raise DelegationTokenExpired
    if not token.may_be_renewed_by(principal):
        raise DelegationTokenOwnerMismatch
    period_ms = rules.expiry_time_ms
    if request.renew_period_ms > 0:
        period_ms = min(period_ms, request.renew_period_ms)
    renewed = replace(token, expires_at_ms=min(token.max_timestamp_ms, later(now_ms, period_ms)))
    return Decision(
        [_record(renewed)], RenewDelegationTokenResponse(expiry_timestamp_ms=renewed.expires_at_ms)
    )


def expire_delegation_token(
    image: MetadataImage,
    request: ExpireDelegationTokenRequest,
    rules: TokenRules,
    principal: str,
    now_ms: int,
) -> Decision[ExpireDelegationTokenResponse]:
    """Change the end of a token, or end it at once (a negative period). Raises DelegationToken errors."""
    token = _token_of(image, rules, bytes(request.hmac))
    if not token.may_be_renewed_by(principal):
        raise DelegationTokenOwnerMismatch
    if request.expiry_time_period_ms < 0:
        return Decision([_removal(token)], ExpireDelegationTokenResponse(expiry_timestamp_ms=now_ms))
    if token.is_expired(now_ms):
        raise DelegationTokenExpired
    expires_at_ms = min(token.max_timestamp_ms, later(now_ms, request.expiry_time_period_ms))
    changed = replace(token, expires_at_ms=expires_at_ms)
    return Decision([_record(changed)], ExpireDelegationTokenResponse(expiry_timestamp_ms=expires_at_ms))


def remove_expired_tokens(image: MetadataImage, now_ms: int) -> Decision[int]:
    """Remove the tokens whose time is over; how many of them. A large number takes several rounds."""
    tokens = (token_of_record(record) for record in image.delegation_tokens.values())
    records = [_removal(token) for token in tokens if token.is_expired(now_ms)][:MAX_RECORDS_PER_REQUEST]
    return Decision(records, len(records))


def token_of_record(record: Any) -> DelegationToken:
    """The token of a DelegationTokenRecord."""
    return DelegationToken(
        token_id=record.token_id,
        owner=record.owner,
        requester=record.requester,
        renewers=tuple(record.renewers),
        issued_at_ms=record.issue_timestamp,
        expires_at_ms=record.expiration_timestamp,
        max_timestamp_ms=record.max_timestamp,
    )


def _token_of(image: MetadataImage, rules: TokenRules, given: bytes) -> DelegationToken:
    if rules.secret is None:
        raise DelegationTokenAuthDisabled
    tokens = (token_of_record(record) for record in image.delegation_tokens.values())
    token = find_token(tokens, rules.secret, given)
    if token is None:
        raise DelegationTokenNotFound
    return token


def _record(token: DelegationToken) -> Message:
    return DelegationTokenRecord(
        owner=token.owner,
        requester=token.requester,
        renewers=list(token.renewers),
        issue_timestamp=token.issued_at_ms,
        max_timestamp=token.max_timestamp_ms,
        expiration_timestamp=token.expires_at_ms,
        token_id=token.token_id,
    )


def _removal(token: DelegationToken) -> Message:
    return RemoveDelegationTokenRecord(token_id=token.token_id)
