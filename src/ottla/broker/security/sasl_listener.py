"""A SASL listener's requests: authenticated ones go on to the dispatcher, the others are answered here.

SaslHandshake (API key 17) 0-1, SaslAuthenticate (36) 0-2. The rules are in
`core/security/sasl/connection.py`. A listener without SASL has none of this on its way.
"""

from __future__ import annotations

import asyncio
import secrets
import struct
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from ottla.broker.network.connection import ClientConnection, CloseConnection, Dispatch, Reply
from ottla.broker.network.flood_log import FloodLog
from ottla.broker.network.replies import frame_reply
from ottla.broker.sasl_logins import jaas_setting_name
from ottla.broker.sasl_settings import plain_users, sasl_rules
from ottla.config.jaas import JaasError
from ottla.core.security.sasl.connection import (
    AnswerAuthenticate,
    AnswerHandshake,
    BecomeAuthenticated,
    CheckToken,
    CloseLater,
    Effect,
    SaslConnection,
    SaslState,
)
from ottla.core.security.sasl.mechanism import Exchange, RefusedExchange
from ottla.core.security.sasl.oauthbearer import OAUTHBEARER, OAuthBearerExchange
from ottla.core.security.sasl.plain import PLAIN, PlainExchange
from ottla.core.security.sasl.scram import ScramCredentials, ScramExchange, ScramMechanism
from ottla.core.settings.config_layers import BrokerLayers
from ottla.protocol.apis import ApiKey, advertised_versions, request_class
from ottla.protocol.headers import RequestHeader, decode_request_header
from ottla.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from ottla.protocol.messages.sasl_handshake_response import SaslHandshakeResponse

if TYPE_CHECKING:
    from ottla.broker.security.bearer_validators import BearerValidator

_KEY: Final = struct.Struct(">h")
_SASL_KEYS: Final = frozenset(_KEY.pack(key) for key in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE))
#: Where an answer to ApiVersions has its error: behind its size and correlation id.
_VERSIONS_ERROR: Final = slice(8, 10)
_NO_ERROR: Final = b"\0\0"
_NONCE_BYTES: Final = 24


class HasLayers(Protocol):
    """The configuration of a node."""

    @property
    def layers(self) -> BrokerLayers:
        """The settings that hold now."""
        ...


class SaslListener:
    """The dispatch of one listener's connections, whose SASL states are in their sessions."""

    def __init__(
        self,
        listener_name: str,
        dispatch: Dispatch,
        config: HasLayers,
        credentials: ScramCredentials,
        now_ms: Callable[[], int],
        flood_log: FloodLog,
        validator: BearerValidator | None = None,
    ) -> None:
        """validator: checks bearer tokens, None where OAUTHBEARER is not served."""
        self._listener_name = listener_name
        self._dispatch = dispatch
        self._config = config
        self._credentials = credentials
        self._now_ms = now_ms
        self._flood_log = flood_log
        self._validator = validator

    def __call__(self, connection: ClientConnection, frame: memoryview) -> Reply | Awaitable[Reply]:
        """Handle one request or bare token. Raises CloseConnection or ProtocolError."""
        session = connection.session
        sasl = session.sasl
        if sasl is None:
            rules = sasl_rules(self._config.layers, self._listener_name)
            sasl = session.sasl = SaslConnection(rules, self._begin)
        if sasl.state is SaslState.AUTHENTICATED and bytes(frame[:2]) not in _SASL_KEYS:
            if sasl.has_lifetime and sasl.is_expired(self._now_ms()):
                raise CloseConnection("its session is over and was not renewed (connections.max.reauth.ms)")
            return self._dispatch(connection, frame)
        if sasl.takes_bare_frames:
            return self._perform(connection, None, sasl.token(bytes(frame), self._now_ms()))
        return self._authenticate(connection, sasl, frame)

    def _authenticate(
        self, connection: ClientConnection, sasl: SaslConnection, frame: memoryview
    ) -> Reply | Awaitable[Reply]:
        header, position = decode_request_header(frame)
        match header.api_key:
            case ApiKey.API_VERSIONS if sasl.state is not SaslState.EXCHANGING:
                return self._versions(connection, sasl, header, frame)
            case ApiKey.SASL_HANDSHAKE | ApiKey.SASL_AUTHENTICATE:
                request = _decoded(header, frame, position)
        if header.api_key == ApiKey.SASL_HANDSHAKE:
            effects = sasl.handshake(request.mechanism, header.api_version, self._now_ms())
        elif header.api_key == ApiKey.SASL_AUTHENTICATE:
            effects = sasl.token(bytes(request.auth_bytes), self._now_ms())
        else:
            effects = sasl.unexpected(_name(header.api_key))
        return self._perform(connection, header, effects)

    def _versions(
        self, connection: ClientConnection, sasl: SaslConnection, header: RequestHeader, frame: memoryview
    ) -> Reply | Awaitable[Reply]:
        if sasl.state is not SaslState.BEGINNING:
            return self._perform(connection, header, sasl.versions_asked(accepted=False))
        reply = self._dispatch(connection, frame)
        assert isinstance(reply, (list, tuple))
        effects = sasl.versions_asked(accepted=b"".join(reply)[_VERSIONS_ERROR] == _NO_ERROR)
        return self._perform(connection, header, effects) if effects else reply

    def _begin(self, mechanism: str) -> Exchange:
        scram = ScramMechanism.of_name(mechanism)
        if scram is not None:
            return ScramExchange(scram, self._credentials, secrets.token_urlsafe(_NONCE_BYTES))
        if mechanism == OAUTHBEARER and self._validator is not None:
            return OAuthBearerExchange()
        if mechanism == PLAIN:
            try:
                return PlainExchange(plain_users(self._config.layers, self._listener_name))
            except JaasError as error:
                return RefusedExchange(f"{jaas_setting_name(self._listener_name, PLAIN)}: {error}")
        return RefusedExchange(
            f"{mechanism} was enabled while the node ran: it needs a restart, if it is served"
        )

    def _perform(
        self, connection: ClientConnection, header: RequestHeader | None, effects: Sequence[Effect]
    ) -> Reply | Awaitable[Reply]:
        """Do what the state machine says; awaitable where that takes time."""
        reply: list[bytes | bytearray | memoryview] = []
        for effect in effects:
            match effect:
                case AnswerHandshake() | AnswerAuthenticate():
                    reply += _framed(header, effect)
                case BecomeAuthenticated(principal, _):
                    connection.session.principal = str(principal)
                    connection.session.token_authenticated = principal.token_authenticated
                    connection.authenticated()
                case CloseLater(reason, delay_ms):
                    self._flood_log.warn(
                        "authentication",
                        f"authentication failed client={connection.client_host} "
                        f"listener={self._listener_name} reason={reason}",
                    )
                    return self._end(connection, reply, delay_ms)
                case CheckToken(token):
                    return self._check(connection, header, token)
        return reply

    async def _check(self, connection: ClientConnection, header: RequestHeader | None, token: str) -> Reply:
        """Go on with the verdict on a bearer token."""
        validator, sasl = self._validator, connection.session.sasl
        assert validator is not None and sasl is not None
        verdict = await validator.verdict(token)
        if connection.closed:
            return None
        reply = self._perform(connection, header, sasl.token_checked(verdict, self._now_ms()))
        return await reply if isinstance(reply, Awaitable) else reply

    async def _end(
        self, connection: ClientConnection, reply: list[bytes | bytearray | memoryview], delay_ms: int
    ) -> Reply:
        """Let a client that guesses wait; it sends nothing meanwhile that would be handled."""
        await asyncio.sleep(delay_ms / 1000)
        connection.finish(reply)
        return None


def _decoded(header: RequestHeader, frame: memoryview, position: int) -> Any:
    smallest, largest = advertised_versions(header.api_key)
    if not smallest <= header.api_version <= largest:
        raise CloseConnection(f"{_name(header.api_key)} version {header.api_version} is not served")
    request, _ = request_class(header.api_key).decode_prefix(frame, header.api_version, position)
    return request


def _framed(
    header: RequestHeader | None, effect: AnswerHandshake | AnswerAuthenticate
) -> Sequence[bytes | bytearray | memoryview]:
    match effect:
        case AnswerHandshake(error, mechanisms):
            assert header is not None
            handshake = SaslHandshakeResponse(error_code=error, mechanisms=list(mechanisms))
            return frame_reply(header.api_key, header.api_version, header.correlation_id, handshake)
        case AnswerAuthenticate(data, error, message, session_lifetime_ms):
            if header is None:
                return (len(data).to_bytes(4, "big"), data)
            answer = SaslAuthenticateResponse(
                error_code=error,
                error_message=message,
                auth_bytes=data,
                session_lifetime_ms=session_lifetime_ms,
            )
            return frame_reply(header.api_key, header.api_version, header.correlation_id, answer)


def _name(api_key: int) -> str:
    return ApiKey(api_key).name if api_key in set(ApiKey) else f"API key {api_key}"
