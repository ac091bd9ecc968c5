"""The logins of this node at others: at the brokers' own listener, and at the controllers'.

Settings are read for each login, so a password that is changed in `sasl.jaas.config` counts from then on.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from ottla.broker.peers.login import NodeLogin
from ottla.broker.sasl_settings import user_and_password
from ottla.config.jaas import JaasError
from ottla.core.security.sasl.client import (
    ClientExchange,
    LoginFailed,
    OAuthBearerLogin,
    PlainLogin,
    ScramLogin,
)
from ottla.core.security.sasl.oauthbearer import OAUTHBEARER
from ottla.core.security.sasl.scram import ScramMechanism
from ottla.core.settings import broker_settings
from ottla.core.settings.config_layers import BrokerLayers

if TYPE_CHECKING:
    from ottla.security.token_source import TokenSource

_NONCE_BYTES: Final = 24


class HasLayers(Protocol):
    """The configuration of a node."""

    @property
    def layers(self) -> BrokerLayers:
        """The settings that hold now."""
        ...


class PasswordLogin:
    """A login by PLAIN or SCRAM with the user and the password of a listener's `sasl.jaas.config`."""

    __slots__ = ("_config", "_listener_name", "mechanism")

    def __init__(self, config: HasLayers, listener_name: str, mechanism: str) -> None:
        self._config = config
        self._listener_name = listener_name
        self.mechanism = mechanism

    async def begin(self) -> ClientExchange:
        """A new exchange. Raises LoginFailed."""
        try:
            user, password, by_token = user_and_password(
                self._config.layers, self._listener_name, self.mechanism
            )
        except JaasError as error:
            raise LoginFailed(f"sasl.jaas.config of listener {self._listener_name}: {error}") from None
        scram = ScramMechanism.of_name(self.mechanism)
        if scram is None:
            return PlainLogin(user, password)
        return ScramLogin(scram, user, password, secrets.token_urlsafe(_NONCE_BYTES), by_token=by_token)


def node_login(config: HasLayers, listener_name: str, mechanism: str) -> NodeLogin:
    """The login of this node at the others' listener of this name, by a mechanism whose settings are good."""
    if mechanism != OAUTHBEARER:
        return PasswordLogin(config, listener_name, mechanism)
    from ottla.broker.oauthbearer_settings import token_source

    factor = config.layers[broker_settings.SASL_LOGIN_REFRESH_WINDOW_FACTOR]
    return TokenLogin(token_source(config.layers, listener_name), factor)


class TokenLogin:
    """A login by OAUTHBEARER. All connections share a token until most of its life is over."""

    __slots__ = ("_factor", "_fetching", "_now_seconds", "_source", "_token", "_used_until")

    mechanism: Final = OAUTHBEARER

    def __init__(
        self, source: TokenSource, factor: float, now_seconds: Callable[[], float] = time.time
    ) -> None:
        """factor: the part of a token's life after which another one is fetched."""
        self._source = source
        self._factor = factor
        self._now_seconds = now_seconds
        self._token = ""
        self._used_until = 0.0
        self._fetching: asyncio.Task[str] | None = None

    async def begin(self) -> ClientExchange:
        """A new exchange. Raises LoginFailed."""
        return OAuthBearerLogin(await self._current())

    async def _current(self) -> str:
        if self._token and self._now_seconds() < self._used_until:
            return self._token
        if self._fetching is None or self._fetching.done():
            self._fetching = asyncio.create_task(asyncio.to_thread(self._source.fetch))
            # The connections that waited may all have given up; its failure is then not asked for.
            self._fetching.add_done_callback(lambda task: task.cancelled() or task.exception())
        from ottla.security.token_source import TokenUnavailable, expiry_seconds

        try:
            # All connections wait for the same token; one that gives up does not take it from the others.
            token = await asyncio.shield(self._fetching)
        except TokenUnavailable as problem:
            raise LoginFailed(f"no token: {problem}") from None
        if token != self._token:
            now = self._now_seconds()
            ends = expiry_seconds(token)
            self._token = token
            # The end of one that does not say it is not known: it is used once.
            self._used_until = now if ends is None else now + (ends - now) * self._factor
        return token
