"""Delegation tokens: made, renewed, ended and removed, by those who may."""

from __future__ import annotations

import base64

import pytest

from ottla.core.decisions.delegation_tokens import (
    TokenRules,
    create_delegation_token,
    expire_delegation_token,
    remove_expired_tokens,
    renew_delegation_token,
    token_of_record,
)
from ottla.core.image.image import MetadataImage
from ottla.core.security.delegation_tokens import MAX_TIMESTAMP_MS, token_credential, token_hmac
from ottla.core.security.sasl.scram import ScramMechanism
from ottla.protocol.errors import (
    DelegationTokenAuthDisabled,
    DelegationTokenExpired,
    DelegationTokenNotFound,
    DelegationTokenOwnerMismatch,
    ErrorCode,
    KafkaError,
)
from ottla.protocol.messages.create_delegation_token_request import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from ottla.protocol.messages.create_delegation_token_response import CreateDelegationTokenResponse
from ottla.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from ottla.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from support.core.metadata import apply

RULES = TokenRules(b"the cluster's secret", max_lifetime_ms=10_000, expiry_time_ms=1_000)
OFF = TokenRules(None, 10_000, 1_000)
NOW = 1_000_000


def make(
    image: MetadataImage, rules: TokenRules = RULES, *, renewer: str = "renewer", **fields: int | str
) -> CreateDelegationTokenResponse:
    request = CreateDelegationTokenRequest(
        renewers=[CreatableRenewers(principal_type="User", principal_name=renewer)], **fields
    )
    decision = create_delegation_token(request, rules, "User:alice", "the-token-id", NOW)
    apply(image, decision.records)
    return decision.response


def renew(image: MetadataImage, hmac: bytes, period_ms: int, by: str, now_ms: int) -> int:
    request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
    decision = renew_delegation_token(image, request, RULES, by, now_ms)
    apply(image, decision.records)
    return decision.response.expiry_timestamp_ms


def expire(image: MetadataImage, hmac: bytes, period_ms: int, by: str, now_ms: int) -> int:
    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
    decision = expire_delegation_token(image, request, RULES, by, now_ms)
    apply(image, decision.records)
    return decision.response.expiry_timestamp_ms


def test_a_token_is_its_requesters() -> None:
    image = MetadataImage()
    made = make(image)
    assert (made.principal_type, made.principal_name) == ("User", "alice")
    assert (made.issue_timestamp_ms, made.expiry_timestamp_ms, made.max_timestamp_ms) == (
        NOW,
        NOW + 1_000,
        NOW + 10_000,
    )
    assert made.hmac == token_hmac(b"the cluster's secret", "the-token-id") and len(made.hmac) == 64
    token = token_of_record(image.delegation_tokens["the-token-id"])
    assert (token.owner, token.requester, token.renewers) == ("User:alice", "User:alice", ("User:renewer",))


def test_a_token_may_be_anothers() -> None:
    image = MetadataImage()
    made = make(image, owner_principal_type="User", owner_principal_name="a:b")
    assert (made.principal_name, made.token_requester_principal_name) == ("a:b", "alice")
    assert token_of_record(image.delegation_tokens["the-token-id"]).owner == "User:a:b"


@pytest.mark.parametrize(
    ("asked_ms", "max_ms", "expiry_ms"), [(-1, 10_000, 1_000), (500, 500, 500), (99_999, 10_000, 1_000)]
)
def test_a_lifetime_is_bounded(asked_ms: int, max_ms: int, expiry_ms: int) -> None:
    made = make(MetadataImage(), max_lifetime_ms=asked_ms)
    assert (made.max_timestamp_ms, made.expiry_timestamp_ms) == (NOW + max_ms, NOW + expiry_ms)


def test_the_largest_timestamp_is_not_passed() -> None:
    rules = TokenRules(b"s", MAX_TIMESTAMP_MS, MAX_TIMESTAMP_MS)
    assert make(MetadataImage(), rules).max_timestamp_ms == MAX_TIMESTAMP_MS


def test_without_a_secret_there_are_no_tokens() -> None:
    image = MetadataImage()
    assert make(image, OFF).error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    assert not image.delegation_tokens
    with pytest.raises(DelegationTokenAuthDisabled):
        renew_delegation_token(image, RenewDelegationTokenRequest(hmac=b"x"), OFF, "User:alice", NOW)
    assert "secret" not in repr(RULES)


def test_a_renewer_is_a_user() -> None:
    request = CreateDelegationTokenRequest(
        renewers=[CreatableRenewers(principal_type="Group", principal_name="g")]
    )
    decision = create_delegation_token(request, RULES, "User:alice", "id", NOW)
    assert decision.response.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
    assert decision.records == [] and not decision.response.hmac


def test_a_token_is_renewed_up_to_its_largest_time() -> None:
    image = MetadataImage()
    hmac = make(image).hmac
    assert renew(image, hmac, -1, "User:alice", NOW + 500) == NOW + 1_500
    assert renew(image, hmac, 700, "User:renewer", NOW + 1_500) == NOW + 2_200
    for now_ms in range(NOW + 2_200, NOW + 9_800, 950):
        renew(image, hmac, 5_000, "User:alice", now_ms)
    assert renew(image, hmac, -1, "User:alice", NOW + 9_800) == NOW + 10_000
    with pytest.raises(DelegationTokenExpired):
        renew(image, hmac, -1, "User:alice", NOW + 10_001)


def test_a_token_is_ended_at_once_or_later() -> None:
    image = MetadataImage()
    hmac = make(image).hmac
    assert expire(image, hmac, 200, "User:renewer", NOW) == NOW + 200
    assert expire(image, hmac, 99_999, "User:alice", NOW) == NOW + 10_000
    assert expire(image, hmac, -1, "User:alice", NOW + 5) == NOW + 5
    assert not image.delegation_tokens
    with pytest.raises(DelegationTokenNotFound):
        expire(image, hmac, -1, "User:alice", NOW + 5)


@pytest.mark.parametrize(
    ("by", "wrong_hmac", "now_ms", "error"),
    [
        ("User:mallory", False, NOW, DelegationTokenOwnerMismatch),
        ("User:alice", True, NOW, DelegationTokenNotFound),
        ("User:alice", False, NOW + 1_001, DelegationTokenExpired),
    ],
)
def test_others_and_wrong_tokens_change_nothing(
    by: str, wrong_hmac: bool, now_ms: int, error: type[KafkaError]
) -> None:
    image = MetadataImage()
    hmac = bytes(make(image).hmac)
    given = hmac[:-1] + b"x" if wrong_hmac else hmac
    for change in (renew, expire):
        with pytest.raises(error):
            change(image, given, 100, by, now_ms)


def test_expired_tokens_are_removed() -> None:
    image = MetadataImage()
    make(image)
    assert remove_expired_tokens(image, NOW + 1_000).response == 0
    decision = remove_expired_tokens(image, NOW + 1_001)
    assert decision.response == 1
    delta = apply(image, decision.records)
    assert not image.delegation_tokens and delta.changed_delegation_tokens == {"the-token-id": None}


def test_a_tokens_password_is_its_hmac_in_base64() -> None:
    image = MetadataImage()
    hmac = bytes(make(image).hmac)
    token = token_of_record(image.delegation_tokens["the-token-id"])
    assert RULES.secret is not None
    for mechanism in ScramMechanism:
        made = token_credential(token.token_id, mechanism, RULES.secret, b"salt")
        salted = mechanism.salted_password(base64.b64encode(hmac), b"salt", 4096)
        client_key = mechanism.hmac(salted, b"Client Key")
        assert made.stored_key == mechanism.hash(client_key)
