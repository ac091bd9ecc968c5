"""PLAIN and OAUTHBEARER: good messages, wrong ones, and the texts that clients are told."""

from __future__ import annotations

import json

import pytest

from ottla.core.security.principals import KafkaPrincipal
from ottla.core.security.sasl.mechanism import Authenticated, Challenge, Refused, TokenCheck
from ottla.core.security.sasl.oauthbearer import InvalidToken, OAuthBearerExchange, ValidToken
from ottla.core.security.sasl.plain import PlainExchange

ALICE = KafkaPrincipal("User", "alice")
USERS = {"alice": "alice-secret", "emil": ""}


@pytest.mark.parametrize("message", [b"\0alice\0alice-secret", b"alice\0alice\0alice-secret"])
def test_a_user_with_its_password_is_authenticated(message: bytes) -> None:
    assert PlainExchange(USERS).respond(message) == Authenticated(b"", ALICE)


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (b"", "expected 3 tokens, got 1"),
        (b"alice\0alice-secret", "expected 3 tokens, got 2"),
        (b"\0alice\0alice-secret\0", "expected 3 tokens, got 4"),
        (b"\0\0alice-secret", "username not specified"),
        (b"\0alice\0", "password not specified"),
        (b"\0emil\0", "password not specified"),
        (b"\0alice\0wrong", "Invalid username or password"),
        (b"\0mallory\0alice-secret", "Invalid username or password"),
        (b"\0alice\0\xff\xfe", "Invalid username or password"),
        (b"bob\0alice\0alice-secret", "authorization id that is different"),
    ],
)
def test_anything_else_is_refused(message: bytes, told: str) -> None:
    outcome = PlainExchange(USERS).respond(message)
    assert isinstance(outcome, Refused)
    assert outcome.told is not None and told in outcome.told
    assert "alice-secret" not in outcome.told + outcome.reason


def test_a_password_has_one_try() -> None:
    exchange = PlainExchange(USERS)
    assert isinstance(exchange.respond(b"\0alice\0wrong"), Refused)
    assert isinstance(exchange.respond(b"\0alice\0alice-secret"), Refused)


TOKEN = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbGljZSJ9."


@pytest.mark.parametrize(
    "message",
    [
        f"n,,\x01auth=Bearer {TOKEN}\x01\x01",
        f"n,a=alice,\x01auth=bearer  {TOKEN}\x01traceId=123\x01\x01",
    ],
)
def test_a_valid_token_is_authenticated_until_it_expires(message: str) -> None:
    exchange = OAuthBearerExchange()
    assert exchange.respond(message.encode()) == TokenCheck(TOKEN)
    assert exchange.checked(ValidToken("alice", 9_000)) == Authenticated(b"", ALICE, 9_000)
    assert isinstance(exchange.respond(message.encode()), Refused)


@pytest.mark.parametrize(
    "message",
    [
        "", "\x01", "n,,\x01\x01", f"n,,auth=Bearer {TOKEN}\x01\x01", f"n,,\x01auth=Basic {TOKEN}\x01\x01",
        f"n,,\x01auth=Bearer{TOKEN}\x01\x01", "n,,\x01auth=Bearer \x01\x01",
        f"n,,\x01auth=Bearer {TOKEN}\x01",
        f"y,,\x01auth=Bearer {TOKEN}\x01\x01", f"n,,\x01auth=Bearer {TOKEN} x\x01\x01",
        f"n,,\x01auth=Bearer {TOKEN}\x01key1=2\x01\x01",
    ],
)  # fmt: skip
def test_a_malformed_message_is_refused(message: str) -> None:
    assert isinstance(OAuthBearerExchange().respond(message.encode()), Refused)


def test_another_authorization_id_is_refused() -> None:
    exchange = OAuthBearerExchange()
    exchange.respond(f"n,a=bob,\x01auth=Bearer {TOKEN}\x01\x01".encode())
    assert isinstance(exchange.checked(ValidToken("alice", 9_000)), Refused)


@pytest.mark.parametrize("last", [b"\x01", b"another"])
def test_an_invalid_token_gets_the_error_challenge_and_then_the_end(last: bytes) -> None:
    exchange = OAuthBearerExchange()
    exchange.respond(f"n,,\x01auth=Bearer {TOKEN}\x01\x01".encode())
    challenge = exchange.checked(InvalidToken("unsigned", scope='a"b'))
    assert isinstance(challenge, Challenge)
    assert json.loads(challenge.data) == {"status": "invalid_token", "scope": 'a"b'}
    outcome = exchange.respond(last)
    assert isinstance(outcome, Refused)
    assert outcome.told == challenge.data.decode()
