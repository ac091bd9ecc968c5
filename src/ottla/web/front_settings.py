"""The settings of the services' front (front.py), with the names and defaults of Confluent's services."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ottla.config.setting import LOW, boolean, string_list
from ottla.config.settings import Settings
from ottla.config.telemetry_settings import TRACES_RATIO, TRACING_SETTINGS, OtlpTarget
from ottla.metrics.settings import ENDPOINT_SETTINGS
from ottla.web.authentication_settings import AUTHENTICATION_SETTINGS
from ottla.web.security import Security
from ottla.web.tls_settings import TLS_SETTINGS

CORS_ORIGINS: Final = string_list(
    "access.control.allow.origin",
    (),
    "The origins whose pages may use this service from a browser: `*` for any, and `https://*.example.com` "
    "for all below a domain. None: browsers let no other origin's page read the answers.",
)
CORS_METHODS: Final = string_list(
    "access.control.allow.methods",
    ("GET", "POST", "HEAD"),
    "The methods that pages of these origins may use.",
    importance=LOW,
)
CORS_HEADERS: Final = string_list(
    "access.control.allow.headers",
    ("X-Requested-With", "Content-Type", "Accept", "Origin"),
    "The request headers that pages of these origins may set; `*` for any.",
    importance=LOW,
)
CORS_EXPOSED_HEADERS: Final = string_list(
    "access.control.expose.headers",
    (),
    "The headers of answers that pages of these origins may read, beside those that any page may.",
    importance=LOW,
)
CORS_SKIP_OPTIONS: Final = boolean(
    "access.control.skip.options",
    True,
    "Whether preflight requests go without authentication; browsers send them without any.",
    importance=LOW,
)
COMPRESSION: Final = boolean(
    "compression.enable",
    True,
    "Whether answers are compressed with gzip for clients that accept it.",
    importance=LOW,
)
HOSTS: Final = string_list(
    "ottla.http.hosts",
    (),
    "The hosts that requests may name beside localhost, this machine's own name and IP addresses: names, "
    "`*.example.com` for all below a domain, `*` for any. None: a listener on a loopback address takes no "
    "others, any other listener takes all.",
    importance=LOW,
)

FRONT_SETTINGS: Final = (
    *TLS_SETTINGS,
    *AUTHENTICATION_SETTINGS,
    CORS_ORIGINS,
    CORS_METHODS,
    CORS_HEADERS,
    CORS_EXPOSED_HEADERS,
    CORS_SKIP_OPTIONS,
    COMPRESSION,
    HOSTS,
    *ENDPOINT_SETTINGS,
    *TRACING_SETTINGS,
)


def _never(_method: str, _path: bytes) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class FrontOptions:
    """The values of a service's HTTP settings. host_name: the name that the service gives itself, if any.

    security: None for a service that does not tell its clients apart. tracing: the collector of traces.
    is_signed: whether requests of a method and path (as it came) are signed by another instance, which their
    endpoints check: they are not asked for an identity besides. websockets: whether it has routes of them.
    http2: whether clients may begin with HTTP/2.
    """

    origins: tuple[str, ...] = ()
    methods: tuple[str, ...] = CORS_METHODS.default
    headers: tuple[str, ...] = CORS_HEADERS.default
    exposed_headers: tuple[str, ...] = ()
    compression: bool = True
    hosts: tuple[str, ...] = ()
    host_name: str | None = None
    preflight_is_open: bool = True
    security: Security | None = None
    tracing: OtlpTarget | None = None
    traces_ratio: float = 1.0
    is_signed: Callable[[str, bytes], bool] = _never
    websockets: bool = False
    http2: bool = False

    @classmethod
    def of(
        cls, config: Settings, host_name: str | None = None, *, passes_credentials_on: bool = False
    ) -> FrontOptions:
        """The options that these settings give. passes_credentials_on: see Security.

        Raises ConfigError.
        """
        return cls(
            config[CORS_ORIGINS],
            tuple(method.upper() for method in config[CORS_METHODS]) or CORS_METHODS.default,
            config[CORS_HEADERS] or CORS_HEADERS.default,
            config[CORS_EXPOSED_HEADERS],
            config[COMPRESSION],
            config[HOSTS],
            host_name,
            config[CORS_SKIP_OPTIONS],
            Security(config, passes_credentials_on=passes_credentials_on),
            OtlpTarget.of(config),
            config[TRACES_RATIO],
        )

    def peer_tls(self, listener: str | None, *, checks_host: bool) -> Callable[[], ssl.SSLContext] | None:
        """What gives the TLS of connections to other instances at each time; None where they speak http.

        listener: the name of the one that instances connect to, if it has TLS. Raises ConfigError.
        """
        if listener is None:
            return None
        assert self.security is not None
        watched = self.security.peer_context(listener, checks_host=checks_host)
        return lambda: watched.value
