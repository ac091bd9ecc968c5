"""A client's part of SASL, as steps without a socket: PLAIN, SCRAM, OAUTHBEARER (RFC 4616, 5802, 7628)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Generator
from typing import Final

from ottla.client.security import Credentials

MOST_ITERATIONS: Final = 1_000_000
"""Of SCRAM's hash, about half a second: a server must not keep its clients busy for long."""
_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}

Exchange = Generator[bytes, bytes, None]
"""Gives the messages to the server and is sent its answers; ends when the server has proved itself."""


class BadServerMessage(Exception):
    """The server's message breaks the mechanism's rules, or does not prove that it knows the password."""


def exchange(credentials: Credentials) -> Exchange:
    """The messages of the credentials' mechanism. The generator raises BadServerMessage."""
    if credentials.mechanism == "PLAIN":
        return _plain(credentials.user, credentials.password)
    return scram(credentials, secrets.token_hex(16))


def bearer(message: bytes) -> Exchange:
    """The messages of OAUTHBEARER: the one with the token, and the end of a failed exchange."""
    problem = yield message
    if problem:
        yield b"\x01"
        raise BadServerMessage("the server refuses the token and takes the user")


def _plain(user: str, password: str) -> Exchange:
    yield f"\0{user}\0{password}".encode()


def scram(credentials: Credentials, nonce: str) -> Exchange:
    """SCRAM's messages with a nonce of printable characters without commas."""
    algorithm = _HASHES[credentials.mechanism]
    user = credentials.user.replace("=", "=3D").replace(",", "=2C")
    extension = ",tokenauth=true" if credentials.by_token else ""
    client_first = f"n={user},r={nonce}{extension}"
    server_first = yield f"n,,{client_first}".encode()
    given = _attributes(server_first)
    server_nonce = given.get("r", "")
    if not server_nonce.startswith(nonce) or server_nonce == nonce:
        raise BadServerMessage("the server's nonce does not continue the client's")
    salt, iterations = _salt(given.get("s", "")), _iterations(given.get("i", ""))
    salted = hashlib.pbkdf2_hmac(algorithm, credentials.password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", algorithm)
    stored_key = hashlib.new(algorithm, client_key).digest()
    without_proof = f"c=biws,r={server_nonce}"
    signed = b",".join((client_first.encode(), server_first, without_proof.encode()))
    signature = hmac.digest(stored_key, signed, algorithm)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    server_final = yield f"{without_proof},p={base64.b64encode(proof).decode()}".encode()
    expected = hmac.digest(hmac.digest(salted, b"Server Key", algorithm), signed, algorithm)
    verifier = _attributes(server_final).get("v", "")
    if not hmac.compare_digest(verifier.encode(), base64.b64encode(expected)):
        raise BadServerMessage("the server does not know the password either")


def _attributes(message: bytes) -> dict[str, str]:
    try:
        parts = message.decode().split(",")
    except UnicodeDecodeError:
        raise BadServerMessage("the server's message is not text") from None
    return {part[0]: part[2:] for part in parts if part[1:2] == "="}


def _salt(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise BadServerMessage("the server's salt is not in base64") from None


def _iterations(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 9 and 1 <= int(text) <= MOST_ITERATIONS):
        raise BadServerMessage(f"the server wants {text[:20]!r} iterations, not 1 to {MOST_ITERATIONS}")
    return int(text)
