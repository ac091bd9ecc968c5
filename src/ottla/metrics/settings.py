"""The settings of a process's metrics endpoint, `ottla.metrics.*`; every program's table has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ottla.config.errors import ConfigError
from ottla.config.setting import Config, Setting, boolean, integer, text_or_none
from ottla.config.validators import at_least

LISTEN: Final = text_or_none(
    "ottla.metrics.listen",
    None,
    "Where /metrics, /healthz and /readyz are served: HOST:PORT, or https://HOST:PORT for TLS with the keys "
    "of `listener.name.metrics.ssl.…`, else of `ssl.…`. The option --metrics gives it. None: nowhere.",
)
USERS_FILE: Final = text_or_none(
    "ottla.metrics.users.file",
    None,
    "Who may read the metrics by name and password (Basic): a file of lines as `prometheus: SCRYPT:…`, which "
    "`ottla user hash` writes. Read again when it changes.",
)
TOKENS_FILE: Final = text_or_none(
    "ottla.metrics.tokens.file",
    None,
    "Who may read the metrics by a token (Bearer): a file of lines as `prometheus: SCRYPT:…`, with the hash "
    "of the token in place of a password's. Read again when it changes.",
)
OPEN: Final = boolean(
    "ottla.metrics.open",
    False,
    "Whether metrics are served without authentication to every machine that reaches their address. Without "
    "it, an address beyond loopback needs users, tokens, or TLS that asks for certificates.",
)
MOST_CLIENTS: Final = integer(
    "ottla.metrics.client.series.max",
    0,
    "How many clients (by principal and client id) have series of their own; the others together have "
    "one. 0: there are no series of clients.",
    at_least(0),
)

ENDPOINT_SETTINGS: Final[tuple[Setting[Any], ...]] = (LISTEN, USERS_FILE, TOKENS_FILE, OPEN)
"""The settings that every program with an endpoint has."""
METRICS_SETTINGS: Final[tuple[Setting[Any], ...]] = (*ENDPOINT_SETTINGS, MOST_CLIENTS)
"""Those of a broker."""
LISTENER_NAME: Final = "metrics"
"""The name of the endpoint as a listener, in the settings of its TLS."""
_HTTPS: Final = "https://"
_HTTP: Final = "http://"


class Address(NamedTuple):
    """Where an endpoint listens."""

    host: str
    port: int
    uses_tls: bool = False

    @property
    def setting(self) -> str:
        """The address as `parse_address` reads it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{_HTTPS if self.uses_tls else ''}{host}:{self.port}"

    @property
    def url(self) -> str:
        """The address as a URL; 0.0.0.0 for all interfaces."""
        host = self.host or "0.0.0.0"
        return f"{'https' if self.uses_tls else 'http'}://{f'[{host}]' if ':' in host else host}:{self.port}"


@dataclass(frozen=True, slots=True)
class EndpointOptions:
    """The values of an endpoint's settings. users_file, tokens_file: None without."""

    address: Address
    users_file: str | None = None
    tokens_file: str | None = None
    is_open: bool = False

    @classmethod
    def of(cls, config: Config) -> EndpointOptions | None:
        """The options that these settings give; None where metrics are off. Raises ConfigError."""
        listen = config[LISTEN]
        if listen is None:
            for setting in (USERS_FILE, TOKENS_FILE):
                if config[setting] is not None:
                    raise ConfigError(f"{setting.name} is given, but no {LISTEN.name} (--metrics HOST:PORT)")
            return None
        return cls(parse_address(listen), config[USERS_FILE], config[TOKENS_FILE], config[OPEN])


def parse_address(text: str) -> Address:
    """HOST:PORT, with https:// before it for TLS; an empty host is every interface. Raises ConfigError."""
    uses_tls = text.startswith(_HTTPS)
    place = text.removeprefix(_HTTPS if uses_tls else _HTTP).rstrip("/")
    host, colon, port = place.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if (
        not colon
        or not (port.isascii() and port.isdecimal())
        or int(port) > 65535
        or (":" in host and not bracketed)
    ):
        raise ConfigError(f"{LISTEN.name}={text}: give HOST:PORT, as 127.0.0.1:9404, or https://HOST:PORT")
    return Address(host[1:-1] if bracketed else host, int(port), uses_tls)
