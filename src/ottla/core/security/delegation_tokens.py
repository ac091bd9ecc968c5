"""Delegation tokens (KIP-48): short-lived credentials that a principal makes for others, proved by SCRAM.

A token has an id, which everybody may know, and an HMAC of it under `delegation.token.secret.key`, which is
its password. Nodes keep the id alone; who has the secret can make the HMAC again.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from ottla.core.security.sasl.scram import (
    MIN_ITERATIONS,
    ScramCredential,
    ScramMechanism,
    credential_of,
)

MAX_TIMESTAMP_MS = 2**63 - 1


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token: principals as texts (`User:alice`), times in milliseconds since 1970."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_at_ms: int
    expires_at_ms: int
    max_timestamp_ms: int

    def is_expired(self, now_ms: int) -> bool:
        """Whether its time, or that of its last possible renewal, is over."""
        return self.expires_at_ms < now_ms or self.max_timestamp_ms < now_ms

    def may_be_renewed_by(self, principal: str) -> bool:
        """Whether this principal is its owner or one of its renewers."""
        return principal == self.owner or principal in self.renewers


def token_id_of(value: UUID) -> str:
    """A token's id as Kafka writes it: 22 characters of Base64."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def token_hmac(secret: bytes, token_id: str) -> bytes:
    """The HMAC that is a token's password."""
    return hmac.digest(secret, token_id.encode(), "sha512")


def find_token(tokens: Iterable[DelegationToken], secret: bytes, given: bytes) -> DelegationToken | None:
    """The token with that HMAC, or None. Each one is compared in constant time."""
    found = None
    for token in tokens:
        if hmac.compare_digest(token_hmac(secret, token.token_id), given):
            found = token
    return found


def later(now_ms: int, duration_ms: int) -> int:
    """A time plus a duration, at most the largest timestamp."""
    return min(now_ms + duration_ms, MAX_TIMESTAMP_MS)


def token_credential(token_id: str, mechanism: ScramMechanism, secret: bytes, salt: bytes) -> ScramCredential:
    """A token as a SCRAM credential; its password is the HMAC in Base64. Costs 4,096 iterations."""
    password = base64.b64encode(token_hmac(secret, token_id))
    salted = mechanism.salted_password(password, salt, MIN_ITERATIONS)
    return credential_of(mechanism, salt, salted, MIN_ITERATIONS)
