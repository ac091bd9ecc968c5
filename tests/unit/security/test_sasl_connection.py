"""The SASL state of a connection: what may be sent when, failures, session lifetimes, re-authentication."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ottla.core.security.principals import KafkaPrincipal
from ottla.core.security.sasl.connection import (
    AnswerAuthenticate,
    AnswerHandshake,
    BecomeAuthenticated,
    CheckToken,
    CloseLater,
    Effect,
    SaslConnection,
    SaslRules,
    SaslState,
)
from ottla.core.security.sasl.mechanism import Exchange
from ottla.core.security.sasl.oauthbearer import InvalidToken, OAuthBearerExchange, ValidToken
from ottla.core.security.sasl.plain import PlainExchange
from ottla.protocol.errors import ErrorCode

MECHANISMS = ("PLAIN", "OAUTHBEARER")
ALICE = KafkaPrincipal("User", "alice")
GOOD, WRONG, OF_BOB = b"\0alice\0secret", b"\0alice\0wrong", b"\0bob\0secret"
TOKEN = b"n,,\x01auth=Bearer abc\x01\x01"


def begin(mechanism: str) -> Exchange:
    if mechanism == "OAUTHBEARER":
        return OAuthBearerExchange()
    return PlainExchange({"alice": "secret", "bob": "secret"})


def connection(max_session_ms: int = 0) -> SaslConnection:
    return SaslConnection(SaslRules(MECHANISMS, 100, lambda mechanism: max_session_ms), begin)


def authenticated(max_session_ms: int = 0, now_ms: int = 0) -> SaslConnection:
    made = connection(max_session_ms)
    made.handshake("PLAIN", 1, now_ms)
    made.token(GOOD, now_ms)
    assert made.state is SaslState.AUTHENTICATED
    return made


def is_failed(made: SaslConnection, effects: Sequence[Effect]) -> bool:
    last = effects[-1]
    return made.state is SaslState.FAILED and isinstance(last, CloseLater) and last.delay_ms == 100


def test_versions_then_a_handshake_then_a_token() -> None:
    made = connection()
    assert made.versions_asked(accepted=False) == ()
    assert made.versions_asked(accepted=True) == ()
    assert made.handshake("PLAIN", 1, 0) == (AnswerHandshake(ErrorCode.NONE, MECHANISMS),)
    assert made.token(GOOD, 0) == (AnswerAuthenticate(b""), BecomeAuthenticated(ALICE, "PLAIN"))
    assert made.principal == ALICE
    assert made.versions_asked(accepted=True) == ()


def test_a_handshake_of_version_0_is_followed_by_bare_frames() -> None:
    made = connection()
    assert not made.takes_bare_frames
    made.handshake("PLAIN", 0, 0)
    assert made.takes_bare_frames
    assert is_failed(made, effects := made.token(WRONG, 0))
    assert len(effects) == 1  # there is no place for an error
    made = connection()
    made.handshake("PLAIN", 0, 0)
    made.token(GOOD, 0)
    assert not made.takes_bare_frames


@pytest.mark.parametrize("asked", ["once", "twice", "late"])
def test_versions_are_asked_once_before_the_handshake(asked: str) -> None:
    made = connection()
    if asked == "late":
        made.handshake("PLAIN", 1, 0)
    else:
        made.versions_asked(accepted=True)
    if asked != "once":
        assert is_failed(made, made.versions_asked(accepted=True))


def test_a_mechanism_that_is_not_enabled_is_refused_with_those_that_are() -> None:
    made = connection()
    effects = made.handshake("GSSAPI", 1, 0)
    assert effects[0] == AnswerHandshake(ErrorCode.UNSUPPORTED_SASL_MECHANISM, MECHANISMS)
    assert is_failed(made, effects)


@pytest.mark.parametrize("before", ["nothing", "versions", "handshake"])
def test_other_requests_before_the_end_of_authentication_close_the_connection(before: str) -> None:
    made = connection()
    if before == "versions":
        made.versions_asked(accepted=True)
    elif before == "handshake":
        made.handshake("PLAIN", 1, 0)
    assert is_failed(made, made.unexpected("METADATA"))


def test_a_token_before_the_handshake_and_a_second_handshake_are_refused() -> None:
    made = connection()
    assert is_failed(made, made.token(GOOD, 0))
    made = connection()
    made.handshake("PLAIN", 1, 0)
    assert is_failed(made, made.handshake("PLAIN", 1, 0))
    assert is_failed(made, made.token(GOOD, 0))  # after the failure there is no way back


def test_a_wrong_password_is_told_and_the_connection_closed_later() -> None:
    made = connection()
    made.handshake("PLAIN", 1, 0)
    effects = made.token(WRONG, 0)
    assert effects[0] == AnswerAuthenticate(
        error=ErrorCode.SASL_AUTHENTICATION_FAILED,
        message="Authentication failed: Invalid username or password",
    )
    assert is_failed(made, effects)
    assert made.principal is None


def test_a_session_without_lifetime_is_not_renewed() -> None:
    made = authenticated()
    assert made.handshake("PLAIN", 1, 5_000) == (AnswerHandshake(ErrorCode.ILLEGAL_SASL_STATE, ()),)
    (answer,) = made.token(GOOD, 5_000)
    assert isinstance(answer, AnswerAuthenticate) and answer.error is ErrorCode.ILLEGAL_SASL_STATE
    assert made.state is SaslState.AUTHENTICATED
    assert not made.is_expired(10**15)


def test_a_session_is_renewed_by_the_same_mechanism_and_principal() -> None:
    made = authenticated(max_session_ms=60_000)
    assert not made.is_expired(60_000) and made.is_expired(60_001)
    assert made.handshake("PLAIN", 1, 60_002) == (AnswerHandshake(ErrorCode.NONE, MECHANISMS),)
    assert made.token(GOOD, 60_003)[0] == AnswerAuthenticate(b"", session_lifetime_ms=60_000)
    assert not made.is_expired(120_003) and made.is_expired(120_004)
    assert made.handshake("PLAIN", 1, 60_900) == (AnswerHandshake(ErrorCode.ILLEGAL_SASL_STATE, ()),)


def test_a_renewal_to_another_principal_is_refused() -> None:
    made = authenticated(max_session_ms=60_000)
    made.handshake("PLAIN", 1, 1_000)
    effects = made.token(OF_BOB, 1_001)
    assert isinstance(effects[0], AnswerAuthenticate) and effects[0].message is not None
    assert "from User.alice: User.bob" in effects[0].message
    assert is_failed(made, effects)


@pytest.mark.parametrize("mechanism", ["OAUTHBEARER", "GSSAPI"])
def test_a_renewal_by_another_mechanism_is_refused(mechanism: str) -> None:
    made = authenticated(max_session_ms=60_000)
    effects = made.handshake(mechanism, 1, 1_000)
    assert isinstance(effects[0], AnswerHandshake)
    assert effects[0].error is ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert is_failed(made, effects)


def test_nothing_else_is_sent_while_a_session_is_renewed() -> None:
    made = authenticated(max_session_ms=60_000)
    made.handshake("PLAIN", 1, 1_000)
    assert is_failed(made, made.unexpected("FETCH"))


@pytest.mark.parametrize(
    ("max_session_ms", "expires_at_ms", "lifetime_ms"),
    [(0, 50_000, 40_000), (30_000, 50_000, 30_000), (60_000, 50_000, 40_000), (0, 5_000, 0)],
)
def test_a_session_lasts_as_long_as_its_token_and_the_limit(
    max_session_ms: int, expires_at_ms: int, lifetime_ms: int
) -> None:
    made = connection(max_session_ms)
    made.handshake("OAUTHBEARER", 1, 10_000)
    assert made.token(TOKEN, 10_000) == (CheckToken("abc"),)
    answer, became = made.token_checked(ValidToken("alice", expires_at_ms), 10_000)
    assert answer == AnswerAuthenticate(b"", session_lifetime_ms=lifetime_ms)
    assert became == BecomeAuthenticated(ALICE, "OAUTHBEARER")
    assert made.is_expired(10_001 + lifetime_ms)


def test_an_invalid_token_is_refused_after_the_challenge() -> None:
    made = connection()
    made.handshake("OAUTHBEARER", 1, 0)
    made.token(TOKEN, 0)
    assert made.token_checked(InvalidToken("expired"), 0) == (
        AnswerAuthenticate(b'{"status": "invalid_token"}'),
    )
    assert is_failed(made, made.token(b"\x01", 0))
