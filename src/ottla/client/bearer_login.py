"""A client's login by bearer tokens (OAUTHBEARER): where they come from, and how long each is used.

Settings are librdkafka's (`sasl.oauthbearer.token.endpoint.url` and others); java_names.py has those of
Java's clients. A token is in a file (`file:///…`), or comes from a provider: for a client's secret, for an
assertion in its place (KIP-1258), or for an assertion alone (KIP-1139).
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla.client.errors import ClientOptionError
from ottla.client.security import JWT_BEARER
from ottla.security.token_assertions import (
    ALGORITHMS,
    Assertion,
    AssertionFile,
    AssertionGrant,
    SignedAssertion,
)
from ottla.security.token_source import (
    ClientCredentials,
    TokenFile,
    TokenSource,
    TokenUnavailable,
    expiry_seconds,
    is_token_endpoint,
    token_file,
)

USED_PART: Final = 0.8
"""The part of a token's life after which another one is fetched, as in Kafka's clients."""
FAILURE_SECONDS: Final = 1.0
"""How long the provider is not asked again after a failure."""
NO_END_SECONDS: Final = 300.0
"""The life that librdkafka is told of a token that does not say its end."""
log = logging.getLogger("ottla.client")
_PREFIX: Final = "sasl.oauthbearer."
_ENDPOINT: Final = f"{_PREFIX}token.endpoint.url"
_GRANT: Final = f"{_PREFIX}grant.type"
_ASSERTION: Final = f"{_PREFIX}assertion."
_CA: Final = "https.ca.location"
_EXTENSION: Final = re.compile(r"(?P<name>[A-Za-z]+)=(?P<value>[\x21-\x7e \t\r\n]*)")


@dataclass(frozen=True, slots=True)
class BearerLogin:
    """A source of tokens, and the extensions that go with them. tokens: shared by all connections."""

    source: TokenSource
    extensions: tuple[tuple[str, str], ...]
    tokens: BearerTokens

    def first_message(self) -> bytes:
        """The only message of the exchange; blocks. Raises TokenUnavailable."""
        extensions = "".join(f"{name}={value}\x01" for name, value in self.extensions)
        return f"n,,\x01auth=Bearer {self.tokens.current(self.source)}\x01{extensions}\x01".encode()

    def for_librdkafka(self, _: str) -> tuple[str, float, str, dict[str, str]]:
        """An `oauth_cb` of confluent-kafka: the token, its end in seconds since 1970, no name, extensions."""
        try:
            token = self.tokens.current(self.source)
        except TokenUnavailable as problem:
            log.warning("no token to log in with: %s", problem)  # librdkafka does not tell the reason
            raise
        ends = expiry_seconds(token)
        return token, time.time() + NO_END_SECONDS if ends is None else ends, "", dict(self.extensions)


class BearerTokens:
    """The tokens of sources, each used for most of its life, by any number of connections and threads."""

    __slots__ = ("_found", "_lock", "_now_seconds")

    def __init__(self, now_seconds: Callable[[], float] = time.time) -> None:
        self._now_seconds = now_seconds
        self._lock = threading.Lock()
        self._found: dict[TokenSource, _Found] = {}

    def __reduce__(self) -> tuple[type[BearerTokens], tuple[()]]:
        """Another process has tokens of its own."""
        return BearerTokens, ()

    def current(self, source: TokenSource) -> str:
        """A token that can be used now; blocks. Raises TokenUnavailable.

        A token whose successor can't be had is used to its end.
        """
        with self._lock:  # who waits here is given the token that another thread has just fetched
            found = self._found.setdefault(source, _Found())
            now = self._now_seconds()
            if found.token and now < found.used_until:
                return found.token
            if now >= found.asked_from:
                try:
                    token = source.fetch()
                except TokenUnavailable as problem:
                    found.problem, found.asked_from = str(problem), now + FAILURE_SECONDS
                else:
                    ends = expiry_seconds(token)
                    # A token that does not say its end is used once.
                    found.ends = now if ends is None else ends
                    found.token, found.used_until = token, now + (found.ends - now) * USED_PART
                    return token
            if found.token and now < found.ends:
                return found.token
            raise TokenUnavailable(found.problem)


class _Found:
    """A token with its times in seconds since 1970, and the last failure. Plain: `BearerTokens` guards it."""

    __slots__ = ("asked_from", "ends", "problem", "token", "used_until")

    def __init__(self) -> None:
        self.token = ""
        self.problem = ""
        self.used_until = self.ends = self.asked_from = 0.0


def bearer_login(properties: Mapping[str, str], tokens: BearerTokens) -> BearerLogin:
    """The login that librdkafka's properties describe. Raises ClientOptionError."""
    return BearerLogin(_source(properties), _extensions(properties), tokens)


def _source(properties: Mapping[str, str]) -> TokenSource:
    url = properties.get(_ENDPOINT, "").strip()
    if not url:
        raise ClientOptionError(
            f"sasl.mechanism=OAUTHBEARER needs {_ENDPOINT}, an address or a file of a token"
        )
    if properties.get(f"{_PREFIX}method", "oidc").lower() not in ("oidc", "default"):
        raise ClientOptionError(f"{_PREFIX}method: only oidc is known here")
    path = token_file(url)
    if path is not None:
        return TokenFile(path)
    if not is_token_endpoint(url):
        raise ClientOptionError(f"{_ENDPOINT}={url}: it must be https://HOST…, or file:///PATH")
    scope, ca_location = properties.get(f"{_PREFIX}scope"), properties.get(_CA)
    client_id, secret = properties.get(f"{_PREFIX}client.id"), properties.get(f"{_PREFIX}client.secret")
    grant = properties.get(_GRANT, "client_credentials")
    if grant not in ("client_credentials", JWT_BEARER):
        raise ClientOptionError(f"{_GRANT}={grant}: must be client_credentials or {JWT_BEARER}")
    if grant == JWT_BEARER:
        return AssertionGrant(url, _assertion(properties), False, None, scope, ca_location)
    if f"{_ASSERTION}file" in properties or f"{_ASSERTION}claim.iss" in properties:
        return AssertionGrant(url, _assertion(properties), True, client_id, scope, ca_location)
    if not client_id or secret is None:
        raise ClientOptionError(
            f"{_ENDPOINT}={url} needs {_PREFIX}client.id and {_PREFIX}client.secret, or {_ASSERTION}file, or "
            f"{_ASSERTION}claim.iss with {_ASSERTION}private.key.file"
        )
    encodes = _flag(properties, f"{_PREFIX}header.urlencode")
    return ClientCredentials(url, client_id, secret, scope, ca_location, encodes)


def _assertion(properties: Mapping[str, str]) -> Assertion:
    file = properties.get(f"{_ASSERTION}file")
    if file:
        return AssertionFile(Path(file))
    key = properties.get(f"{_ASSERTION}private.key.file")
    if not key:
        raise ClientOptionError(f"{_ASSERTION}private.key.file is needed, or {_ASSERTION}file")
    algorithm = properties.get(f"{_ASSERTION}algorithm", "RS256").upper()
    if algorithm not in ALGORITHMS:
        raise ClientOptionError(f"{_ASSERTION}algorithm={algorithm}: must be one of {', '.join(ALGORITHMS)}")
    given = {name: properties.get(f"{_ASSERTION}claim.{name}") for name in ("aud", "iss", "sub")}
    template = properties.get(f"{_ASSERTION}jwt.template.file")
    return SignedAssertion(
        Path(key),
        algorithm,
        properties.get(f"{_ASSERTION}private.key.passphrase"),
        tuple((name, value) for name, value in given.items() if value is not None),
        _seconds(properties, f"{_ASSERTION}claim.exp.seconds", 300, 86_400),
        _seconds(properties, f"{_ASSERTION}claim.nbf.seconds", 60, 3600),
        _flag(properties, f"{_ASSERTION}claim.jti.include"),
        None if template is None else Path(template),
    )


def _extensions(properties: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The extensions of `NAME=VALUE,…`, in their order."""
    name = f"{_PREFIX}extensions"
    found = []
    for text in filter(None, properties.get(name, "").split(",")):
        extension = _EXTENSION.fullmatch(text)
        if extension is None or extension["name"] == "auth":
            raise ClientOptionError(f"{name}: it is not NAME=VALUE,… with names of letters other than auth")
        found.append((extension["name"], extension["value"]))
    return tuple(found)


def _seconds(properties: Mapping[str, str], name: str, default: int, most: int) -> int:
    text = properties.get(name, str(default)).strip()
    if not text.isdecimal() or len(text) > 9 or int(text) > most:
        raise ClientOptionError(f"{name}={text}: it is not a number of seconds from 0 to {most}")
    return int(text)


def _flag(properties: Mapping[str, str], name: str) -> bool:
    text = properties.get(name, "false").strip().lower()
    if text not in ("true", "false"):
        raise ClientOptionError(f"{name}={text}: must be true or false")
    return text == "true"
