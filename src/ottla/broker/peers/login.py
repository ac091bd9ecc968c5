"""Logs a connection of this node in to another one: SaslHandshake 1, SaslAuthenticate 0-2."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeAlias

from ottla.core.security.sasl.client import ClientExchange, LoginFailed
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from ottla.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from ottla.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from ottla.protocol.schema import Message

MAX_MESSAGES: Final = 4
"""No mechanism needs more: a server that goes on and on is none."""
HANDSHAKE_VERSION: Final = 1

Ask: TypeAlias = Callable[[Message, int | None], Awaitable[Message]]
"""Sends a request in a version, None for the newest that both know; its answer."""


class NodeLogin(Protocol):
    """The credentials of this node for the nodes at one listener."""

    @property
    def mechanism(self) -> str:
        """The SASL mechanism."""
        ...

    async def begin(self) -> ClientExchange:
        """A new exchange; may have to fetch a token first. Raises LoginFailed."""
        ...


async def log_in(login: NodeLogin, ask: Ask) -> int:
    """How long the session lasts, in ms, once the login has succeeded; 0 is for ever. Raises LoginFailed.

    Raises what `ask` raises.
    """
    exchange = await login.begin()
    answer = await ask(SaslHandshakeRequest(mechanism=login.mechanism), HANDSHAKE_VERSION)
    assert isinstance(answer, SaslHandshakeResponse)
    if answer.error_code != ErrorCode.NONE:
        offered = ", ".join(answer.mechanisms[:8])
        raise LoginFailed(
            f"SASL mechanism {login.mechanism} is refused ({_name(answer.error_code)}), offered: {offered}"
        )
    message: bytes | None = exchange.first()
    for _ in range(MAX_MESSAGES):
        assert message is not None
        told = await ask(SaslAuthenticateRequest(auth_bytes=message), None)
        assert isinstance(told, SaslAuthenticateResponse)
        if told.error_code != ErrorCode.NONE:
            raise LoginFailed(f"{_name(told.error_code)}: {told.error_message}")
        message = exchange.respond(bytes(told.auth_bytes))
        if message is None:
            return told.session_lifetime_ms
    raise LoginFailed("the SASL exchange does not end")


def _name(error_code: int) -> str:
    return ErrorCode(error_code).name if error_code in set(ErrorCode) else f"error {error_code}"
