"""SASL OAUTHBEARER (RFC 7628): a bearer token in one message, an error challenge if it is not accepted.

Whether a token is good takes keys that are fetched, so the verdict comes in as an event: `respond` asks for a
check, `checked` goes on. After the error challenge the client has to send one byte, %x01, and is refused
then.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final, TypeAlias

from ottla.core.security.principals import USER_TYPE, KafkaPrincipal
from ottla.core.security.sasl.mechanism import Authenticated, Challenge, Outcome, Refused, TokenCheck

OAUTHBEARER: Final = "OAUTHBEARER"
MAX_MESSAGE_BYTES: Final = 512 * 1024
_END_OF_ERROR: Final = b"\x01"

_SASL_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_PAIR = r"[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01"
_FIRST: Final = re.compile(rf"n,(?:a=(?P<authzid>{_SASL_NAME}))?,\x01(?P<pairs>(?:{_PAIR})*)\x01")
_AUTH: Final = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)", re.ASCII)


@dataclass(frozen=True, slots=True)
class ValidToken:
    """A token that was accepted: the name of its principal and the end of its validity."""

    principal_name: str
    expires_at_ms: int


@dataclass(frozen=True, slots=True)
class InvalidToken:
    """A token that was not accepted, with the fields of the error challenge (RFC 7628, section 3.2.2)."""

    reason: str
    status: str = "invalid_token"
    scope: str | None = None
    openid_configuration: str | None = None


TokenVerdict: TypeAlias = ValidToken | InvalidToken


class OAuthBearerExchange:
    """One exchange: a message, the check of its token, and the end of an error if there was one."""

    __slots__ = ("_authorization_id", "_ended", "_error", "_waiting")

    def __init__(self) -> None:
        self._authorization_id = ""
        self._waiting = False
        self._error: str | None = None
        self._ended = False

    def respond(self, data: bytes) -> Outcome:
        """TokenCheck for a message with a token; Refused for any other one."""
        if self._ended or self._waiting:
            return self._refuse("an OAUTHBEARER message that is not expected")
        if self._error is not None:
            ended = data == _END_OF_ERROR
            return self._refuse(
                "a second OAUTHBEARER message" if not ended else self._error, told=self._error
            )
        parsed = None if len(data) > MAX_MESSAGE_BYTES else _FIRST.fullmatch(data.decode("utf-8", "replace"))
        if parsed is None:
            return self._refuse("Invalid OAUTHBEARER client first message")
        pairs = dict(each.split("=", 1) for each in parsed["pairs"].split("\x01") if each)
        auth = _AUTH.fullmatch(pairs.get("auth", ""))
        if auth is None:
            return self._refuse("Invalid OAUTHBEARER client first message: no 'auth' or an invalid one")
        if auth["scheme"].lower() != "bearer":
            return self._refuse("Invalid scheme in OAUTHBEARER client first message")
        self._authorization_id = (parsed["authzid"] or "").replace("=2C", ",").replace("=3D", "=")
        self._waiting = True
        return TokenCheck(auth["token"])

    def checked(self, verdict: TokenVerdict) -> Outcome:
        """The next step after the check of the token that `respond` asked for."""
        assert self._waiting
        self._waiting = False
        match verdict:
            case InvalidToken():
                self._error = _error_text(verdict)
                return Challenge(self._error.encode())
            case ValidToken(name, expires_at_ms):
                if self._authorization_id and self._authorization_id != name:
                    text = (
                        "Authentication failed: Client requested an authorization id "
                        "that is different from the token's principal name"
                    )
                    return self._refuse(text, told=text)
                self._ended = True
                return Authenticated(b"", KafkaPrincipal(USER_TYPE, name), expires_at_ms)

    def _refuse(self, reason: str, told: str | None = None) -> Refused:
        self._ended = True
        return Refused(reason, told)


def _error_text(verdict: InvalidToken) -> str:
    fields = {
        "status": verdict.status,
        "scope": verdict.scope,
        "openid-configuration": verdict.openid_configuration,
    }
    return json.dumps({name: value for name, value in fields.items() if value is not None})
