"""SASL PLAIN (RFC 4616): a user and a password in one message, checked against the listener's users.

The texts for clients are those of Apache Kafka's PlainSaslServer: tools look for them.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final

from ottla.core.security.principals import USER_TYPE, KafkaPrincipal
from ottla.core.security.sasl.mechanism import Authenticated, Outcome, Refused

PLAIN: Final = "PLAIN"
TOKENS: Final = 3


class PlainExchange:
    """One exchange over the users of a listener, with their passwords."""

    __slots__ = ("_done", "_passwords")

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords
        self._done = False

    def respond(self, data: bytes) -> Outcome:
        """Authenticated or Refused: the client has one message only."""
        if self._done:
            return _refused("a second message in a PLAIN exchange")
        self._done = True
        tokens = data.decode("utf-8", "replace").split("\0")
        if len(tokens) != TOKENS:
            return _refused(f"Invalid SASL/PLAIN response: expected 3 tokens, got {min(len(tokens), 4)}")
        authorization_id, user, password = tokens
        if not user:
            return _refused("Authentication failed: username not specified")
        if not password:
            return _refused("Authentication failed: password not specified")
        if not self._is_valid(user, password):
            return _refused("Authentication failed: Invalid username or password")
        if authorization_id and authorization_id != user:
            return _refused(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        return Authenticated(b"", KafkaPrincipal(USER_TYPE, user))

    def _is_valid(self, user: str, password: str) -> bool:
        """An unknown user costs the same comparison as a wrong password."""
        expected = self._passwords.get(user)
        given = password.encode("utf-8", "replace")
        equal = hmac.compare_digest((expected or "").encode(), given)
        return equal and expected is not None


def _refused(text: str) -> Refused:
    return Refused(text, text)
