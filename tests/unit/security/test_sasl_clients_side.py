"""The client's side of SASL beside the server's: logins succeed, and a server that cheats is refused."""

from __future__ import annotations

import base64
import random

import pytest

from ottla.core.security.principals import KafkaPrincipal
from ottla.core.security.sasl.client import LoginFailed, OAuthBearerLogin, PlainLogin, ScramLogin
from ottla.core.security.sasl.mechanism import Authenticated, Challenge, Refused, TokenCheck
from ottla.core.security.sasl.oauthbearer import InvalidToken, OAuthBearerExchange
from ottla.core.security.sasl.plain import PlainExchange
from ottla.core.security.sasl.scram import (
    ScramCredential,
    ScramExchange,
    ScramMechanism,
    TokenCredential,
    credential_of,
)

SHA_256 = ScramMechanism.SHA_256
#: RFC 7677, section 3.
USER, PASSWORD, NONCE = "user", "pencil", "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def drawn(rng: random.Random, length: int) -> str:
    return "".join(chr(rng.choice((rng.randrange(33, 127), ord(","), ord("="), 0xE9))) for _ in range(length))


class OneUser:
    """A server that knows a user, or a token of its."""

    salt_secret = b"of the cluster"

    def __init__(self, mechanism: ScramMechanism, name: str, password: str, iterations: int = 4096) -> None:
        salted = mechanism.salted_password(password.encode(), b"salt", iterations)
        self.credential = credential_of(mechanism, b"salt", salted, iterations)
        self.name = name

    def user(self, mechanism: ScramMechanism, name: str) -> ScramCredential | None:
        return self.credential if name == self.name else None

    def token(self, mechanism: ScramMechanism, token_id: str) -> TokenCredential | None:
        if token_id != self.name:
            return None
        return TokenCredential(self.credential, KafkaPrincipal("User", "owner"), 1)


def test_the_messages_are_those_of_the_rfc() -> None:
    login = ScramLogin(SHA_256, USER, PASSWORD, NONCE)
    assert login.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert login.respond(SERVER_FIRST) == CLIENT_FINAL
    assert login.respond(SERVER_FINAL) is None


@pytest.mark.parametrize("seed", range(20))
def test_drawn_users_log_in_by_scram(seed: int) -> None:
    rng = random.Random(seed)
    mechanism = rng.choice(list(ScramMechanism))
    user, password = drawn(rng, rng.randrange(1, 20)).replace("\x7f", "x"), drawn(rng, rng.randrange(1, 40))
    user = user.encode("ascii", "replace").decode()
    by_token = rng.random() < 0.3
    credentials = OneUser(mechanism, user, password, rng.randrange(4096, 5000))
    login = ScramLogin(mechanism, user, password, f"client{seed}", by_token=by_token)
    exchange = ScramExchange(mechanism, credentials, f"server{seed}")
    first = exchange.respond(login.first())
    assert isinstance(first, Challenge)
    final = login.respond(first.data)
    assert final is not None
    outcome = exchange.respond(final)
    assert isinstance(outcome, Authenticated)
    assert outcome.principal.name == ("owner" if by_token else user)
    assert login.respond(outcome.data) is None


def test_a_wrong_password_is_refused_by_the_server() -> None:
    exchange = ScramExchange(SHA_256, OneUser(SHA_256, "alice", "secret"), "server")
    login = ScramLogin(SHA_256, "alice", "wrong", "client")
    first = exchange.respond(login.first())
    assert isinstance(first, Challenge)
    assert isinstance(exchange.respond(login.respond(first.data) or b""), Refused)


@pytest.mark.parametrize(
    ("server_first", "words"),
    [
        (b"r=other,s=c2FsdA==,i=4096", "does not continue the client's"),
        (b"r=client,s=c2FsdA==,i=4096", "does not continue the client's"),
        (b"r=clientserver,s=c2FsdA==,i=1", "asks for 1 SCRAM iterations"),
        (b"r=clientserver,s=c2FsdA==,i=4095", "asks for 4095 SCRAM iterations"),
        (b"r=clientserver,s=c2FsdA==,i=999999999", "asks for 999999999 SCRAM iterations"),
        (b"r=clientserver,s=c2FsdA==,i=99999999999", "malformed"),
        (b"r=clientserver,s=c2F,i=4096", "malformed Base64"),
        (b"s=c2FsdA==,i=4096", "malformed"),
        (b"\xff", "no UTF-8"),
        (b"x" * 70_000, "70000 bytes"),
        (b"", "malformed"),
    ],
)
def test_a_server_that_cheats_gets_no_proof(server_first: bytes, words: str) -> None:
    login = ScramLogin(SHA_256, "alice", "secret", "client")
    login.first()
    with pytest.raises(LoginFailed, match=words) as failed:
        login.respond(server_first)
    assert "secret" not in str(failed.value)


@pytest.mark.parametrize(
    "server_final", [b"v=" + base64.b64encode(b"x" * 32), b"e=other-error", b"", b"v=", b"ok", b"\xff"]
)
def test_a_server_that_does_not_know_the_password_is_refused(server_final: bytes) -> None:
    login = ScramLogin(SHA_256, USER, PASSWORD, NONCE)
    login.first()
    login.respond(SERVER_FIRST)
    with pytest.raises(LoginFailed):
        login.respond(server_final)


def test_a_user_logs_in_by_plain() -> None:
    login = PlainLogin("alice", "a,b=c")
    outcome = PlainExchange({"alice": "a,b=c"}).respond(login.first())
    assert isinstance(outcome, Authenticated)
    assert login.respond(outcome.data) is None


def test_a_token_goes_to_the_check_and_its_refusal_to_the_end() -> None:
    login, exchange = OAuthBearerLogin("head.body.tail"), OAuthBearerExchange()
    assert exchange.respond(login.first()) == TokenCheck("head.body.tail")
    challenge = exchange.checked(InvalidToken("of another issuer"))
    assert isinstance(challenge, Challenge)
    answer = login.respond(challenge.data)
    assert answer is not None
    assert isinstance(exchange.respond(answer), Refused)
    assert login.respond(b"") is None
