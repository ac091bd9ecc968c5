"""Whether a client's bearer token is good: signed by the identity provider, or unsigned where that is set."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from ottla.broker import oauthbearer_settings
from ottla.broker.sasl_logins import for_mechanism
from ottla.config.errors import ConfigError
from ottla.core.security.sasl.oauthbearer import OAUTHBEARER, InvalidToken, TokenVerdict, ValidToken
from ottla.core.settings import broker_settings
from ottla.core.settings.config_layers import BrokerLayers
from ottla.security.bearer_tokens import BadToken
from ottla.security.key_set_source import KeysUnreachable
from ottla.security.provider_keys import ProviderKeys
from ottla.security.token_source import unverified_part

log = logging.getLogger("ottla.broker")

_OPTION: Final = "unsecuredValidator"


class BearerValidator(Protocol):
    """Checks the tokens of a listener's clients."""

    async def verdict(self, token: str) -> TokenVerdict:
        """Whether the token is good, and whose it is."""
        ...

    async def run(self) -> None:
        """Keep what is needed for that up to date, for ever."""
        ...


def bearer_validator(layers: BrokerLayers, listener_name: str) -> BearerValidator:
    """The validator of a listener whose settings are good. Raises ConfigError for keys that can't be read."""
    if oauthbearer_settings.takes_unsigned_tokens(layers, listener_name):
        log.warning(
            "listener %s takes unsigned tokens (OAUTHBEARER with %s): a client gets in by any name",
            listener_name,
            oauthbearer_settings.UNSECURED_VALIDATOR.rpartition(".")[2],
        )
        return UnsignedTokens(oauthbearer_settings.jaas_options(layers, listener_name))

    def seconds(name: str) -> float:
        setting = broker_settings.BROKER_SETTINGS[f"sasl.oauthbearer.jwks.endpoint.{name}.ms"]
        milliseconds: int = for_mechanism(layers, listener_name, OAUTHBEARER, setting)
        return max(milliseconds, 1) / 1000

    try:
        keys = ProviderKeys(
            oauthbearer_settings.key_set_source(layers, listener_name),
            oauthbearer_settings.token_rules(layers, listener_name),
            seconds("refresh"),
            first_retry_seconds=seconds("retry.backoff"),
            longest_retry_seconds=seconds("retry.backoff.max"),
        )
    except KeysUnreachable as problem:
        raise ConfigError(
            f"sasl.oauthbearer.jwks.endpoint.url of listener {listener_name}: {problem}"
        ) from None
    return SignedTokens(keys)


class SignedTokens:
    """Tokens that the identity provider has signed."""

    __slots__ = ("_keys",)

    def __init__(self, keys: ProviderKeys) -> None:
        self._keys = keys

    async def verdict(self, token: str) -> TokenVerdict:
        """By the provider's keys and the listener's rules."""
        try:
            holder = await self._keys.check(token)
        except (BadToken, KeysUnreachable) as problem:
            return InvalidToken(str(problem))
        return ValidToken(holder.name, int(holder.expires_at * 1000))

    async def run(self) -> None:
        """Read the keys, again and again."""
        await self._keys.run()


class UnsignedTokens:
    """Tokens that any client can make, for trying out; options of the login module as Kafka's."""

    __slots__ = ("_clock_skew_ms", "_now_ms", "_principal_claim", "_required_scope", "_scope_claim")

    def __init__(
        self, options: Mapping[str, str], now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    ) -> None:
        self._principal_claim = options.get(f"{_OPTION}PrincipalClaimName") or "sub"
        self._scope_claim = options.get(f"{_OPTION}ScopeClaimName") or "scope"
        self._required_scope = frozenset((options.get(f"{_OPTION}RequiredScope") or "").split())
        skew = options.get(f"{_OPTION}AllowableClockSkewMs") or "0"
        self._clock_skew_ms = int(skew) if skew.isdecimal() else 0
        self._now_ms = now_ms

    async def verdict(self, token: str) -> TokenVerdict:
        """By the token's own words: `alg` none, an empty signature, a name, not expired, the scope."""
        header, claims = unverified_part(token, 0), unverified_part(token, 1)
        if header is None or claims is None or not token.endswith("."):
            return InvalidToken("it is not an unsigned JSON web token")
        if header.get("alg") != "none":
            return InvalidToken("it is signed, and no key to check that is configured")
        name, expires = claims.get(self._principal_claim), _milliseconds(claims, "exp")
        issued, begins = _milliseconds(claims, "iat"), _milliseconds(claims, "nbf")
        if not isinstance(name, str) or not name:
            return InvalidToken(f"it has no {self._principal_claim}")
        now_ms, skew_ms = self._now_ms(), self._clock_skew_ms
        if expires is None or now_ms >= expires + skew_ms:
            return InvalidToken("it has expired, or has no end (exp)")
        if any(each is not None and now_ms < each - skew_ms for each in (issued, begins)):
            return InvalidToken("it is not valid yet")
        scope = claims.get(self._scope_claim)
        words = scope.split() if isinstance(scope, str) else scope if isinstance(scope, list) else ()
        has = {word for word in words if isinstance(word, str)}
        if not self._required_scope <= has:
            return InvalidToken(
                "it lacks the scope",
                status="insufficient_scope",
                scope=" ".join(sorted(self._required_scope)),
            )
        return ValidToken(name, expires)

    async def run(self) -> None:
        """There is nothing to keep up to date."""


def _milliseconds(claims: Mapping[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e15:
        return None
    return int(value * 1000)
