"""Delegation tokens of a cluster (KIP-48): made, shown, renewed and ended by a user that has logged in.

A cluster has no tokens for a client that is not authenticated, or is so by a token itself. Errors are
ClusterErrors with the code of the answer.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ottla.client.cluster_requests import ClusterRequests, require_success
from ottla.client.errors import ClusterError
from ottla.client.kafka_requests import RequestByVersion
from ottla.config.errors import UserError
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_delegation_token_request import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from ottla.protocol.messages.create_delegation_token_response import CreateDelegationTokenResponse
from ottla.protocol.messages.describe_delegation_token_request import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from ottla.protocol.messages.describe_delegation_token_response import DescribeDelegationTokenResponse
from ottla.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from ottla.protocol.messages.expire_delegation_token_response import ExpireDelegationTokenResponse
from ottla.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from ottla.protocol.messages.renew_delegation_token_response import RenewDelegationTokenResponse
from ottla.protocol.schema import Message

OWNER_SINCE: Final = 3
CLUSTERS_CHOICE_MS: Final = -1
"""In place of a time: the longest that the cluster allows, or its usual period."""
AT_ONCE_MS: Final = -1
"""In place of a time until the end."""


class BadPrincipal(UserError):
    """A text that is no principal."""


class BadHmac(UserError):
    """A text that is no HMAC of a token."""


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token. Principals are texts as `User:alice`, times milliseconds since 1970. Printed, it has no HMAC.

    requester: the principal that asked for it, empty where the cluster is too old to tell.
    """

    token_id: str
    hmac: bytes
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int

    def __repr__(self) -> str:
        return f"DelegationToken({self.token_id}, {self.owner}, [hidden])"


def parse_hmac(text: str) -> bytes:
    """The HMAC of its Base64, as it is shown and given to clients as a password. Raises BadHmac."""
    try:
        found = base64.b64decode(text.strip(), validate=True)
    except ValueError:
        found = b""
    if not found:
        raise BadHmac("that is not the HMAC of a token: it is what `ottla token create` shows, in Base64")
    return found


def hmac_text(hmac: bytes) -> str:
    """The HMAC in Base64."""
    return base64.b64encode(hmac).decode()


async def create_token(
    client: ClusterRequests,
    renewers: Sequence[str] = (),
    owner: str | None = None,
    max_lifetime_ms: int = CLUSTERS_CHOICE_MS,
) -> DelegationToken:
    """A new token, of the user itself or of `owner`. Raises BadPrincipal, ClusterError."""
    parts = [_parts(renewer) for renewer in renewers]
    owner_parts = None if owner is None else _parts(owner)

    def request(version: int) -> Message:
        if owner_parts is not None and version < OWNER_SINCE:
            raise ClusterError(
                "the cluster is too old to make tokens for others", ErrorCode.UNSUPPORTED_VERSION
            )
        made = CreateDelegationTokenRequest(
            renewers=[CreatableRenewers(principal_type=kind, principal_name=name) for kind, name in parts],
            max_lifetime_ms=max_lifetime_ms,
        )
        if version >= OWNER_SINCE:
            made.owner_principal_type, made.owner_principal_name = owner_parts or (None, None)
        return made

    asked = RequestByVersion(ApiKey.CREATE_DELEGATION_TOKEN, request)
    answer = await client.ask(asked, CreateDelegationTokenResponse)
    require_success(answer.error_code, None)
    return DelegationToken(
        answer.token_id,
        bytes(answer.hmac),
        _text(answer.principal_type, answer.principal_name),
        _text(answer.token_requester_principal_type, answer.token_requester_principal_name),
        tuple(renewers),
        answer.issue_timestamp_ms,
        answer.expiry_timestamp_ms,
        answer.max_timestamp_ms,
    )


async def renew_token(client: ClusterRequests, hmac: bytes, period_ms: int = CLUSTERS_CHOICE_MS) -> int:
    """Let a token live on; its new end. Raises ClusterError."""
    request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
    answer = await client.ask(request, RenewDelegationTokenResponse)
    require_success(answer.error_code, None)
    return answer.expiry_timestamp_ms


async def expire_token(client: ClusterRequests, hmac: bytes, in_ms: int = AT_ONCE_MS) -> int:
    """End a token, now or later; its end. Raises ClusterError."""
    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=in_ms)
    answer = await client.ask(request, ExpireDelegationTokenResponse)
    require_success(answer.error_code, None)
    return answer.expiry_timestamp_ms


async def describe_tokens(client: ClusterRequests, owners: Sequence[str] = ()) -> list[DelegationToken]:
    """The tokens that these principals own or may renew, or all that the user may see, by their ends.

    Raises BadPrincipal, ClusterError.
    """
    named = [
        DescribeDelegationTokenOwner(principal_type=kind, principal_name=name)
        for kind, name in map(_parts, owners)
    ]
    request = DescribeDelegationTokenRequest(owners=named or None)
    answer = await client.ask(request, DescribeDelegationTokenResponse)
    require_success(answer.error_code, None)
    found = [
        DelegationToken(
            each.token_id,
            bytes(each.hmac),
            _text(each.principal_type, each.principal_name),
            _text(each.token_requester_principal_type, each.token_requester_principal_name),
            tuple(_text(renewer.principal_type, renewer.principal_name) for renewer in each.renewers),
            each.issue_timestamp,
            each.expiry_timestamp,
            each.max_timestamp,
        )
        for each in answer.tokens
    ]
    return sorted(found, key=lambda token: (token.expires_ms, token.token_id))


def _parts(principal: str) -> tuple[str, str]:
    kind, colon, name = principal.partition(":")
    if not (colon and kind and name):
        raise BadPrincipal(f"{principal} is no principal: write it as User:{principal or 'alice'}")
    return kind, name


def _text(kind: str, name: str) -> str:
    return f"{kind}:{name}" if kind else ""
