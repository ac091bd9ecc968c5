"""A client's messages of SASL, by the examples of the RFCs; servers that don't know the password."""

from __future__ import annotations

import base64
import hashlib
import hmac
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.sasl import BadServerMessage, bearer, exchange, scram
from ottla.client.security import Credentials

# RFC 7677, section 3.
RFC_USER = Credentials("SCRAM-SHA-256", "user", "pencil")
RFC_NONCE = "rOprNGfwEbeRWgbNEkqO"
RFC_SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
RFC_CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
RFC_SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def server_answers(algorithm: str, password: str, salt: bytes, first: bytes, final: bytes | None) -> bytes:
    """What a server that knows the password answers to the client's first message, or to its final one."""
    nonce = first.decode().split("r=", 1)[1] + "server"
    server_first = f"r={nonce},s={base64.b64encode(salt).decode()},i=10".encode()
    if final is None:
        return server_first
    salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), salt, 10)
    signed = first.removeprefix(b"n,,") + b"," + server_first + b"," + final.rsplit(b",p=", 1)[0]
    stored_key = hashlib.new(algorithm, hmac.digest(salted, b"Client Key", algorithm)).digest()
    proof = base64.b64decode(final.rsplit(b",p=", 1)[1])
    signature = hmac.digest(stored_key, signed, algorithm)
    client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
    assert hashlib.new(algorithm, client_key).digest() == stored_key, "the client knows the password"
    verifier = hmac.digest(hmac.digest(salted, b"Server Key", algorithm), signed, algorithm)
    return b"v=" + base64.b64encode(verifier)


def test_the_example_of_rfc_7677() -> None:
    steps = scram(RFC_USER, RFC_NONCE)
    assert next(steps) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert steps.send(RFC_SERVER_FIRST) == RFC_CLIENT_FINAL
    with pytest.raises(StopIteration):
        steps.send(RFC_SERVER_FINAL)


def test_plain_is_one_message() -> None:
    steps = exchange(Credentials("PLAIN", "me", "p,=ss"))
    assert next(steps) == b"\0me\0p,=ss"
    with pytest.raises(StopIteration):
        steps.send(b"")


@given(
    st.sampled_from(["SCRAM-SHA-256", "SCRAM-SHA-512"]),
    st.text(min_size=1, max_size=20),
    st.text(max_size=20),
    st.binary(min_size=1, max_size=32),
)
def test_a_server_and_a_client_that_know_the_password_agree(
    mechanism: str, user: str, password: str, salt: bytes
) -> None:
    try:
        (user + password).encode()
    except UnicodeEncodeError:
        return
    algorithm = mechanism.removeprefix("SCRAM-").replace("-", "").lower()
    steps = exchange(Credentials(mechanism, user, password))
    first = next(steps)
    named = first.decode().split("n=", 1)[1].rsplit(",r=", 1)[0]
    assert named.replace("=2C", ",").replace("=3D", "=") == user
    assert "," not in named
    final = steps.send(server_answers(algorithm, password, salt, first, None))
    with pytest.raises(StopIteration):
        steps.send(server_answers(algorithm, password, salt, first, final))


@pytest.mark.parametrize(
    ("server_first", "problem"),
    [
        (b"r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "nonce"),
        (RFC_SERVER_FIRST.replace(b"%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", b""), "nonce"),
        (RFC_SERVER_FIRST.replace(b"W22", b"*"), "base64"),
        (RFC_SERVER_FIRST.replace(b"4096", b"0"), "iterations"),
        (RFC_SERVER_FIRST.replace(b"4096", b"99999999"), "iterations"),
        (RFC_SERVER_FIRST.replace(b"4096", b"x"), "iterations"),
        (b"\xff\xfe", "not text"),
        (b"", "nonce"),
    ],
)
def test_a_server_that_breaks_the_rules_is_refused(server_first: bytes, problem: str) -> None:
    steps = scram(RFC_USER, RFC_NONCE)
    next(steps)
    with pytest.raises(BadServerMessage, match=problem):
        steps.send(server_first)


@pytest.mark.parametrize("server_final", [b"", b"e=other-error", b"v=", RFC_SERVER_FINAL.replace(b"6", b"7")])
def test_a_server_that_does_not_know_the_password_is_refused(server_final: bytes) -> None:
    steps = scram(RFC_USER, RFC_NONCE)
    next(steps)
    steps.send(RFC_SERVER_FIRST)
    with pytest.raises(BadServerMessage, match="password"):
        steps.send(server_final)


@given(st.binary(max_size=100))
def test_no_bytes_of_a_server_raise_anything_else(message: bytes) -> None:
    steps = scram(RFC_USER, RFC_NONCE)
    next(steps)
    with pytest.raises(BadServerMessage):
        steps.send(message)


def test_the_nonce_is_drawn_anew() -> None:
    firsts = {next(exchange(RFC_USER)) for _ in range(10)}
    assert len(firsts) == 10
    assert all(set(first.decode()) <= set(string.printable) for first in firsts)


def test_a_delegation_token_is_told_in_the_first_message_and_is_signed_with_it() -> None:
    credentials = Credentials("SCRAM-SHA-256", "id", "hmac", by_token=True)
    steps = exchange(credentials)
    first = next(steps)
    assert first.endswith(b",tokenauth=true")
    nonce = first.decode().split("r=", 1)[1].removesuffix(",tokenauth=true")
    salt = b"salt"
    server_first = f"r={nonce}server,s={base64.b64encode(salt).decode()},i=4096".encode()
    final = steps.send(server_first)
    salted = hashlib.pbkdf2_hmac("sha256", b"hmac", salt, 4096)
    signed = first.removeprefix(b"n,,") + b"," + server_first + b"," + final.rsplit(b",p=", 1)[0]
    verifier = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), signed, "sha256")
    with pytest.raises(StopIteration):
        steps.send(b"v=" + base64.b64encode(verifier))


def test_a_refused_bearer_token_is_acknowledged() -> None:
    steps = bearer(b"token")
    assert next(steps) == b"token"
    assert steps.send(b'{"status":"invalid_token"}') == b"\x01"
    with pytest.raises(BadServerMessage):
        steps.send(b"")
    steps = bearer(b"token")
    next(steps)
    with pytest.raises(StopIteration):
        steps.send(b"")
