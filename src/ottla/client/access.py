"""How a client reaches a cluster: one description, from which the settings of every client library are made.

The description is in librdkafka's names (`security.protocol`, `sasl.username`, `ssl.ca.location`, …), or in
those of Java's clients where they differ (java_names.py). Our own clients on librdkafka take it as it is;
aiokafka's clients, Java's and Spark's get the counterparts.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.client.errors import ClientOptionError
from ottla.client.java_names import librdkafka_properties
from ottla.client.java_options import JAVA_COUNTERPARTS, java_client_options
from ottla.client.security import (
    OAUTHBEARER,
    TOKEN_AUTHENTICATION,
    Credentials,
    credentials_of,
    is_by_token,
    mechanism_of,
    security_protocol_of,
)

if TYPE_CHECKING:
    import ssl

    from ottla.client.bearer_login import BearerLogin, BearerTokens

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
DEFAULT_PORT: Final = 9092
COMMON_PROPERTIES: Final = frozenset(JAVA_COUNTERPARTS)
"""The librdkafka properties that have a counterpart in every client library, need none, or are refused."""
_SECURITY_PREFIXES: Final = ("ssl.", "sasl.", "enable.ssl.", "https.")
_TOKEN_ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"
_TOKEN_PREFIXES: Final = ("sasl.oauthbearer.", "https.")
_NOT_FOR_LIBRDKAFKA: Final = (TOKEN_AUTHENTICATION, "sasl.oauthbearer.header.urlencode")
"""Properties that our own clients have: of a login that librdkafka can't do, or does by `oauth_cb`."""
_SPARK_PREFIX: Final = "kafka."
_SERVER: Final = re.compile(
    r"(?:(?P<scheme>[A-Za-z_]+)://)?(?P<host>\[[^\[\]\s]+\]|[^:\[\]\s/]+)(?::(?P<port>\d{1,5}))?"
)


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """As whom, and how secured, a client connects to a node.

    client_id: None for the client's own choice. tls, credentials: None for a connection without them.
    """

    client_id: str | None
    tls: ssl.SSLContext | None
    credentials: Credentials | BearerLogin | None

    @property
    def by_password(self) -> bool:
        """Whether the client logs in by a user's name and password."""
        return isinstance(self.credentials, Credentials)


class _TokenCache:
    """The bearer tokens of a client, made with the first login by them."""

    __slots__ = ("_tokens",)

    def __init__(self) -> None:
        self._tokens: BearerTokens | None = None

    def login(self, properties: Mapping[str, str]) -> BearerLogin:
        """The login that properties describe. Raises ClientOptionError."""
        from ottla.client.bearer_login import BearerTokens, bearer_login  # other logins start without it

        if self._tokens is None:
            self._tokens = BearerTokens()
        return bearer_login(properties, self._tokens)


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """Where a cluster is, and with which security and settings its clients connect.

    bootstrap: `HOST:PORT,…`. The port may be missing (9092). A `PLAINTEXT://` or the like in front, as in
    Confluent's files, leaves out the servers of other protocols than the client's, if any is left then.
    properties: librdkafka's, or Java's. client_id, request_timeout_ms: None leaves what `properties` say, or
    else the client library's default.
    """

    bootstrap: str
    properties: Mapping[str, str] = field(default_factory=dict)
    client_id: str | None = None
    request_timeout_ms: int | None = None
    _tokens: _TokenCache = field(default_factory=_TokenCache, repr=False, compare=False)

    def with_client_id(self, client_id: str) -> ClusterAccess:
        """The same cluster, for clients with this `client.id`."""
        return dataclasses.replace(self, client_id=client_id)

    def with_request_timeout_ms(self, request_timeout_ms: int) -> ClusterAccess:
        """The same cluster, for clients that wait so long for an answer."""
        return dataclasses.replace(self, request_timeout_ms=request_timeout_ms)

    def with_properties(self, properties: Mapping[str, str]) -> ClusterAccess:
        """The same cluster with more properties, which win over the present ones."""
        return dataclasses.replace(self, properties={**self.properties, **properties})

    def addresses(self) -> list[Address]:
        """The bootstrap servers, at least one. Raises ClientOptionError for one that is not HOST:PORT."""
        servers = [server.strip() for server in self.bootstrap.split(",")]
        protocol = security_protocol_of(self.properties)
        found = [_address(server) for server in servers if server] or [_address("")]
        fitting = [address for scheme, address in found if scheme in ("", protocol)]
        return fitting or [address for _, address in found]

    def require_common_properties(self) -> None:
        """Raises ClientOptionError for a property that is not in COMMON_PROPERTIES."""
        for name in sorted(librdkafka_properties(self.properties).keys() - COMMON_PROPERTIES):
            raise ClientOptionError(f"{name} is not a setting of the Kafka client, by librdkafka's names")

    def librdkafka(self, properties: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The settings of a confluent-kafka client; `properties` win over the common ones.

        Raises ClientOptionError for a value of Java's that librdkafka can't have.
        """
        given: dict[str, Any] = {
            "bootstrap.servers": self._servers(),
            **librdkafka_properties(self.properties),
        }
        if self.client_id is not None:
            given["client.id"] = self.client_id
        if self.request_timeout_ms is not None:
            given["socket.timeout.ms"] = self.request_timeout_ms
        given |= librdkafka_properties(properties or {})
        if is_by_token(given):
            raise ClientOptionError(
                "librdkafka's clients can't log in by a delegation token (tokenauth=true)"
            )
        if mechanism_of(given) == OAUTHBEARER and _TOKEN_ENDPOINT in given:
            # Its own way has neither tokens of files nor assertions in place of secrets.
            login = self._tokens.login(given)
            given = {name: value for name, value in given.items() if not name.startswith(_TOKEN_PREFIXES)}
            given["oauth_cb"] = login.for_librdkafka
        return {name: value for name, value in given.items() if name not in _NOT_FOR_LIBRDKAFKA}

    def connection(self) -> ConnectionSettings:
        """The settings of our own connections to nodes. Raises ClientOptionError for unusable ones."""
        given = librdkafka_properties(self.properties)
        for name in sorted(given.keys() - COMMON_PROPERTIES):
            if name.startswith(_SECURITY_PREFIXES):
                raise ClientOptionError(f"client option {name} has no counterpart that ottla's client takes")
        protocol = security_protocol_of(given)
        client_id = given.get("client.id") if self.client_id is None else self.client_id
        credentials: Credentials | BearerLogin | None = None
        if protocol.startswith("SASL_"):
            by_bearer = mechanism_of(given) == OAUTHBEARER
            credentials = self._tokens.login(given) if by_bearer else credentials_of(given)
            if credentials is None:
                raise ClientOptionError(f"security.protocol={protocol} needs sasl.username and sasl.password")
        tls = None
        if protocol.endswith("SSL"):
            from ottla.client.tls_context import tls_context  # a command in the clear starts without it

            tls = tls_context(given)
        return ConnectionSettings(client_id, tls, credentials)

    def aiokafka(self) -> dict[str, Any]:
        """The keyword arguments of aiokafka's clients. Raises ClientOptionError for unusable settings."""
        settings = self.connection()
        arguments: dict[str, Any] = {
            "bootstrap_servers": self._servers().split(","),
            "security_protocol": security_protocol_of(librdkafka_properties(self.properties)),
        }
        if settings.client_id is not None:
            arguments["client_id"] = settings.client_id
        if self.request_timeout_ms is not None:
            arguments["request_timeout_ms"] = self.request_timeout_ms
        if isinstance(settings.credentials, Credentials):
            if settings.credentials.by_token:
                raise ClientOptionError("aiokafka can't log in by a delegation token (tokenauth=true)")
            arguments["sasl_mechanism"] = settings.credentials.mechanism
            arguments["sasl_plain_username"] = settings.credentials.user
            arguments["sasl_plain_password"] = settings.credentials.password
        elif settings.credentials is not None:
            from ottla.client.aiokafka_tokens import TokenProvider

            arguments["sasl_mechanism"] = OAUTHBEARER
            arguments["sasl_oauth_token_provider"] = TokenProvider(settings.credentials)
        if settings.tls is not None:
            arguments["ssl_context"] = settings.tls
        return arguments

    def java(self) -> dict[str, str]:
        """The properties of a Java client. Raises ClientOptionError for one that has no counterpart."""
        properties = java_client_options(librdkafka_properties(self.properties))
        given = {"bootstrap.servers": self._servers(), **properties}
        if self.client_id is not None:
            given["client.id"] = self.client_id
        if self.request_timeout_ms is not None:
            given["request.timeout.ms"] = str(self.request_timeout_ms)
        return given

    def spark(self) -> dict[str, str]:
        """Java's properties as options of Spark's Kafka source and sink. Raises ClientOptionError."""
        return {_SPARK_PREFIX + name: value for name, value in self.java().items()}

    def _servers(self) -> str:
        return ",".join(map(str, self.addresses()))


def _address(server: str) -> tuple[str, Address]:
    """The security protocol in front of a server's address, in capitals or empty, and the address."""
    found = _SERVER.fullmatch(server)
    port = DEFAULT_PORT if found is None or found["port"] is None else int(found["port"])
    if found is None or port > 65_535 or not _can_be_looked_up(found["host"]):
        raise ClientOptionError(f"the bootstrap server {server!r} is not HOST:PORT")
    return (found["scheme"] or "").upper(), Address(found["host"].strip("[]"), port)


def _can_be_looked_up(host: str) -> bool:
    """Whether the resolver takes the name: for labels that are empty or too long it raises a UnicodeError."""
    if host.isascii():
        labels = host.removesuffix(".").split(".")
        return host.startswith("[") or all(0 < len(label) < 64 for label in labels)
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True
