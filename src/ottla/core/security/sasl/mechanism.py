"""The outcomes that the SASL exchanges of all mechanisms have in common."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from ottla.core.security.principals import KafkaPrincipal


@dataclass(frozen=True, slots=True)
class Challenge:
    """The exchange goes on: bytes for the client, which has the next word."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Authenticated:
    """The client has proved who it is."""

    data: bytes
    """The last bytes for the client; empty in some mechanisms, and sent all the same."""
    principal: KafkaPrincipal
    expires_at_ms: int | None = None
    """The end of the credential's validity, None where it has none."""


@dataclass(frozen=True, slots=True)
class TokenCheck:
    """A bearer token has to be checked before the exchange goes on."""

    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Refused:
    """The exchange has failed.

    told: the text for the client; None hides the reason behind the same sentence for all causes, so that a
    client can't find out which users there are. reason: the text for the broker's log. It has no secret.
    """

    reason: str
    told: str | None = None


Outcome: TypeAlias = Challenge | Authenticated | TokenCheck | Refused


class RefusedExchange:
    """The exchange of a mechanism that can't be served as things are."""

    __slots__ = ("_reason",)

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def respond(self, data: bytes) -> Outcome:
        """The refusal."""
        return Refused(self._reason)


class Exchange(Protocol):
    """The server's side of one exchange. It ends with Authenticated or Refused."""

    def respond(self, data: bytes) -> Outcome:
        """The next step, after bytes of the client."""
        ...
