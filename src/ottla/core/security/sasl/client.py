"""SASL on the client's side, as a node uses it to log in to another one: PLAIN, SCRAM, OAUTHBEARER.

An exchange gives its first message, and an answer to each message of the server; None is the end. What a
server may not do ends it with LoginFailed: a nonce that is not the client's continued, too few iterations
(which would give the password away cheaply), too many, a signature that does not show that the server knows
the credential. No message has a secret in its text.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from typing import Final, Protocol

from ottla.core.security.sasl.scram import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    TOKEN_AUTHENTICATION,
    ScramMechanism,
)

MAX_SERVER_MESSAGE_BYTES: Final = 64 * 1024
_SERVER_FIRST: Final = re.compile(
    r"(?:m=[^,]+,)?r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+),s=(?P<salt>[a-zA-Z0-9/+=]+),i=(?P<iterations>[0-9]{1,9})(?:,.*)?"
)
_SERVER_FINAL: Final = re.compile(r"(?:v=(?P<signature>[a-zA-Z0-9/+=]+)|e=(?P<error>[^,]+))(?:,.*)?")
_NO_CHANNEL: Final = "n,,"


class LoginFailed(Exception):
    """The server can't be logged in to; the message says why, without a secret."""


class ClientExchange(Protocol):
    """The client's side of one exchange."""

    def first(self) -> bytes:
        """The first message."""
        ...

    def respond(self, data: bytes) -> bytes | None:
        """The answer to a message of the server, None at the end. Raises LoginFailed."""
        ...


class PlainLogin:
    """PLAIN (RFC 4616): everything is in the first message."""

    __slots__ = ("_password", "_user")

    def __init__(self, user: str, password: str) -> None:
        self._user = user
        self._password = password

    def first(self) -> bytes:
        """User and password."""
        return b"\0" + self._user.encode() + b"\0" + self._password.encode()

    def respond(self, data: bytes) -> bytes | None:
        """The end."""
        return None


class ScramLogin:
    """SCRAM (RFC 5802). `nonce` comes from a secure source. by_token: the user is a delegation token."""

    __slots__ = ("_bare", "_mechanism", "_nonce", "_password", "_signature")

    def __init__(
        self, mechanism: ScramMechanism, user: str, password: str, nonce: str, *, by_token: bool = False
    ) -> None:
        self._mechanism = mechanism
        self._password = password.encode()
        self._nonce = nonce
        name = user.replace("=", "=3D").replace(",", "=2C")
        extensions = f",{TOKEN_AUTHENTICATION}=true" if by_token else ""
        self._bare = f"n={name},r={nonce}{extensions}"
        self._signature: bytes | None = None

    def first(self) -> bytes:
        """The user and the nonce."""
        return (_NO_CHANNEL + self._bare).encode()

    def respond(self, data: bytes) -> bytes | None:
        """The proof for the server's first message; None when its final one shows that it knows the user."""
        text = _text(data)
        if self._signature is None:
            return self._proof(text)
        found = _SERVER_FINAL.fullmatch(text)
        if found is None or found["error"] is not None:
            raise LoginFailed("the server's final SCRAM message is malformed or an error")
        if not hmac.compare_digest(_decoded(found["signature"]), self._signature):
            raise LoginFailed("the server does not know the credential: its SCRAM signature is wrong")
        return None

    def _proof(self, server_first: str) -> bytes:
        found = _SERVER_FIRST.fullmatch(server_first)
        if found is None:
            raise LoginFailed("the server's first SCRAM message is malformed")
        nonce, iterations = found["nonce"], int(found["iterations"])
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise LoginFailed("the server's SCRAM nonce does not continue the client's")
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise LoginFailed(
                f"the server asks for {iterations} SCRAM iterations, accepted are {MIN_ITERATIONS} to "
                f"{MAX_ITERATIONS}"
            )
        mechanism = self._mechanism
        salted = mechanism.salted_password(self._password, _decoded(found["salt"]), iterations)
        client_key = mechanism.hmac(salted, b"Client Key")
        channel = base64.b64encode(_NO_CHANNEL.encode()).decode()
        without_proof = f"c={channel},r={nonce}"
        message = f"{self._bare},{server_first},{without_proof}".encode()
        proof = mechanism.hmac(mechanism.hash(client_key), message)
        masked = bytes(left ^ right for left, right in zip(client_key, proof, strict=True))
        self._signature = mechanism.hmac(mechanism.hmac(salted, b"Server Key"), message)
        return f"{without_proof},p={base64.b64encode(masked).decode()}".encode()


class OAuthBearerLogin:
    """OAUTHBEARER (RFC 7628) with a token."""

    __slots__ = ("_token",)

    def __init__(self, token: str) -> None:
        self._token = token

    def first(self) -> bytes:
        """The token."""
        return f"n,,\x01auth=Bearer {self._token}\x01\x01".encode()

    def respond(self, data: bytes) -> bytes | None:
        """The end; an error of the server is answered by the byte that it waits for."""
        return b"\x01" if data else None


def _text(data: bytes) -> str:
    if len(data) > MAX_SERVER_MESSAGE_BYTES:
        raise LoginFailed(f"a message of the server has {len(data)} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise LoginFailed("a message of the server is no UTF-8") from None


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise LoginFailed("a message of the server has malformed Base64") from None
