"""The SASL state of one connection: which requests it may send now, and the answer to each.

Theory of operation. A connection of a SASL listener passes these states, as in Kafka's
SaslServerAuthenticator:

    BEGINNING       ApiVersions or SaslHandshake; ApiVersions leads to VERSIONS_KNOWN unless it is refused
    VERSIONS_KNOWN  SaslHandshake only
    EXCHANGING      tokens: SaslAuthenticate after a handshake of version 1, bare frames after version 0
    AUTHENTICATED   any request. With a session lifetime a new handshake begins a re-authentication
                    (KIP-368), at most once a second, by the same mechanism and to the same principal
    FAILED          nothing: the connection ends once the delay for failures has passed

While a re-authentication goes on, the connection is in EXCHANGING: it may send nothing else. A session whose
lifetime is over is closed at its next request, except for the handshake that renews it.

The shell feeds requests in as events and performs what comes back; it also keeps requests from being read
while a bearer token is checked.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ottla.core.security.principals import KafkaPrincipal
from ottla.core.security.sasl.mechanism import (
    Authenticated,
    Challenge,
    Exchange,
    Outcome,
    Refused,
    TokenCheck,
)
from ottla.core.security.sasl.oauthbearer import OAuthBearerExchange, TokenVerdict
from ottla.protocol.errors import ErrorCode

#: As in Kafka: a client that renews its session more often is answered with ILLEGAL_SASL_STATE.
MIN_REAUTHENTICATION_INTERVAL_MS: Final = 1000
#: A client asks once in its newest version, and again in one that the answer names.
MAX_REFUSED_VERSIONS: Final = 5


class SaslState(enum.Enum):
    """See the module's text."""

    BEGINNING = enum.auto()
    VERSIONS_KNOWN = enum.auto()
    EXCHANGING = enum.auto()
    AUTHENTICATED = enum.auto()
    FAILED = enum.auto()


@dataclass(frozen=True, slots=True)
class AnswerHandshake:
    """Answer a SaslHandshake. With an error the connection has failed, unless it was authenticated before."""

    error: ErrorCode
    mechanisms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AnswerAuthenticate:
    """Answer a SaslAuthenticate, or send `data` as a bare frame after a handshake of version 0."""

    data: bytes = b""
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    session_lifetime_ms: int = 0


@dataclass(frozen=True, slots=True)
class BecomeAuthenticated:
    """The connection belongs to this principal from now on."""

    principal: KafkaPrincipal
    mechanism: str


@dataclass(frozen=True, slots=True)
class CheckToken:
    """Check a bearer token; the verdict goes to `token_checked`."""

    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class CloseLater:
    """Authentication failed: send the answers, if any, after the delay, and close."""

    reason: str
    """The text for the log."""
    delay_ms: int


Effect: TypeAlias = AnswerHandshake | AnswerAuthenticate | BecomeAuthenticated | CheckToken | CloseLater


@dataclass(frozen=True, slots=True)
class SaslRules:
    """The settings of a listener."""

    mechanisms: tuple[str, ...]
    """`sasl.enabled.mechanisms`."""
    failure_delay_ms: int
    """`connection.failed.authentication.delay.ms`."""
    max_session_ms: Callable[[str], int]
    """`connections.max.reauth.ms` of a mechanism; 0 or less is no limit."""


class SaslConnection:
    """The state machine. `begin` makes the exchange of a mechanism. Times are in ms since 1970."""

    __slots__ = (
        "_begin",
        "_exchange",
        "_expires_at_ms",
        "_framed",
        "_last_reauthentication_ms",
        "_mechanism",
        "_principal",
        "_refused_versions",
        "_rules",
        "state",
    )

    def __init__(self, rules: SaslRules, begin: Callable[[str], Exchange]) -> None:
        self._rules = rules
        self._begin = begin
        self._exchange: Exchange | None = None
        self._mechanism: str | None = None
        self._principal: KafkaPrincipal | None = None
        self._expires_at_ms: int | None = None
        self._last_reauthentication_ms: int | None = None
        self._framed = True
        self._refused_versions = 0
        self.state = SaslState.BEGINNING

    @property
    def takes_bare_frames(self) -> bool:
        """Whether the next frame is a token without a request header (after a handshake of version 0)."""
        return self.state is SaslState.EXCHANGING and not self._framed

    @property
    def principal(self) -> KafkaPrincipal | None:
        """The authenticated principal, None before the first authentication."""
        return self._principal

    @property
    def has_lifetime(self) -> bool:
        """Whether the session ends unless it is renewed."""
        return self._expires_at_ms is not None

    def is_expired(self, now_ms: int) -> bool:
        """Whether the session's lifetime is over: only a handshake may follow."""
        return self._expires_at_ms is not None and now_ms > self._expires_at_ms

    # -- events -----------------------------------------------------------------------------------------

    def versions_asked(self, accepted: bool) -> Sequence[Effect]:
        """An ApiVersions request; one that is refused may be repeated with a lower version."""
        match self.state:
            case SaslState.BEGINNING:
                if accepted:
                    self.state = SaslState.VERSIONS_KNOWN
                    return ()
                self._refused_versions += 1
                if self._refused_versions > MAX_REFUSED_VERSIONS:
                    return self._fail(f"more than {MAX_REFUSED_VERSIONS} ApiVersions requests were refused")
                return ()
            case SaslState.AUTHENTICATED:
                return ()
            case _:
                return self.unexpected("ApiVersions")

    def unexpected(self, name: str) -> Sequence[Effect]:
        """A request that the state does not allow."""
        at = "authentication" if self.state is SaslState.EXCHANGING else "SASL handshake"
        return self._fail(f"Unexpected Kafka request of type {name} during {at}.")

    def handshake(self, mechanism: str, version: int, now_ms: int) -> Sequence[Effect]:
        """A SaslHandshake request."""
        if self.state is SaslState.AUTHENTICATED:
            return self._renew(mechanism, version, now_ms)
        if self.state not in (SaslState.BEGINNING, SaslState.VERSIONS_KNOWN):
            return self.unexpected("SASL_HANDSHAKE")
        if mechanism not in self._rules.mechanisms:
            refusal = AnswerHandshake(ErrorCode.UNSUPPORTED_SASL_MECHANISM, self._rules.mechanisms)
            return (refusal, *self._fail(f"Unsupported SASL mechanism {mechanism[:64]!r}"))
        return self._begin_exchange(mechanism, version)

    def token(self, data: bytes, now_ms: int) -> Sequence[Effect]:
        """The bytes of a SaslAuthenticate request, or a bare frame."""
        if self.state is SaslState.AUTHENTICATED:
            text = "SaslAuthenticate request received after successful authentication"
            return (AnswerAuthenticate(error=ErrorCode.ILLEGAL_SASL_STATE, message=text),)
        if self.state is not SaslState.EXCHANGING or self._exchange is None:
            return self.unexpected("SASL_AUTHENTICATE")
        return self._follow(self._exchange.respond(data), now_ms)

    def token_checked(self, verdict: TokenVerdict, now_ms: int) -> Sequence[Effect]:
        """The verdict that CheckToken asked for."""
        assert isinstance(self._exchange, OAuthBearerExchange)
        return self._follow(self._exchange.checked(verdict), now_ms)

    # -- steps ------------------------------------------------------------------------------------------

    def _begin_exchange(self, mechanism: str, version: int) -> Sequence[Effect]:
        self._mechanism = mechanism
        self._exchange = self._begin(mechanism)
        self._framed = version > 0
        self.state = SaslState.EXCHANGING
        return (AnswerHandshake(ErrorCode.NONE, self._rules.mechanisms),)

    def _renew(self, mechanism: str, version: int, now_ms: int) -> Sequence[Effect]:
        last = self._last_reauthentication_ms
        too_soon = last is not None and now_ms - last < MIN_REAUTHENTICATION_INTERVAL_MS
        if self._expires_at_ms is None or too_soon:
            return (AnswerHandshake(ErrorCode.ILLEGAL_SASL_STATE, ()),)
        self._last_reauthentication_ms = now_ms
        if mechanism not in self._rules.mechanisms:
            refusal = AnswerHandshake(ErrorCode.UNSUPPORTED_SASL_MECHANISM, self._rules.mechanisms)
            return (refusal, *self._fail(f"Unsupported SASL mechanism {mechanism[:64]!r}"))
        if mechanism != self._mechanism:
            # Kafka answers without an error and hangs up at the next message.
            refusal = AnswerHandshake(ErrorCode.UNSUPPORTED_SASL_MECHANISM, (self._mechanism or "",))
            text = (
                f"SASL mechanism '{mechanism}' requested by client is not supported for re-authentication "
                f"of mechanism '{self._mechanism}'"
            )
            return (refusal, *self._fail(text))
        return self._begin_exchange(mechanism, version)

    def _follow(self, outcome: Outcome, now_ms: int) -> Sequence[Effect]:
        match outcome:
            case Challenge(data):
                return (AnswerAuthenticate(data),)
            case TokenCheck(token):
                return (CheckToken(token),)
            case Refused(reason, told):
                return self._refuse(reason, told)
            case Authenticated():
                return self._authenticated(outcome, now_ms)

    def _authenticated(self, outcome: Authenticated, now_ms: int) -> Sequence[Effect]:
        before, principal = self._principal, outcome.principal
        if before is not None and (before.kind, before.name) != (principal.kind, principal.name):
            text = (
                "Cannot change principals during re-authentication from "
                f"{before.kind}.{before.name}: {principal.kind}.{principal.name}"
            )
            return self._refuse(text, text)
        assert self._mechanism is not None
        lifetime_ms = self._lifetime_ms(self._mechanism, outcome.expires_at_ms, now_ms)
        self._expires_at_ms = None if lifetime_ms is None else now_ms + lifetime_ms
        self._principal, self._exchange = principal, None
        self.state = SaslState.AUTHENTICATED
        return (
            AnswerAuthenticate(outcome.data, session_lifetime_ms=lifetime_ms or 0),
            BecomeAuthenticated(principal, self._mechanism),
        )

    def _lifetime_ms(self, mechanism: str, expires_at_ms: int | None, now_ms: int) -> int | None:
        """How long the session lasts: the shorter of the credential's life and the listener's limit."""
        limits = []
        if expires_at_ms is not None:
            limits.append(expires_at_ms - now_ms)
        limit_ms = self._rules.max_session_ms(mechanism)
        if limit_ms > 0:
            limits.append(limit_ms)
        return max(0, min(limits)) if limits else None

    def _refuse(self, reason: str, told: str | None) -> Sequence[Effect]:
        again = "re-authentication" if self._principal is not None else "authentication"
        hidden = (
            f"Authentication failed during {again} due to invalid credentials "
            f"with SASL mechanism {self._mechanism}"
        )
        answer = AnswerAuthenticate(error=ErrorCode.SASL_AUTHENTICATION_FAILED, message=told or hidden)
        failed = self._fail(reason)
        # A bare frame has no place for an error.
        return (answer, *failed) if self._framed else failed

    def _fail(self, reason: str) -> Sequence[Effect]:
        self.state, self._exchange = SaslState.FAILED, None
        return (CloseLater(reason, self._rules.failure_delay_ms),)
