"""The settings of the program `ottla mirror` itself, by the names that mm2.properties has for them."""

from __future__ import annotations

from typing import Final

from ottla.config.setting import HIGH, LOW, Table, boolean, by_name, string_list
from ottla.config.settings import Settings
from ottla.config.sources import Given
from ottla.config.validators import ListOf
from ottla.connect import settings as worker
from ottla.web.front_settings import FRONT_SETTINGS
from ottla.web.http_settings import LISTENER_PROTOCOL_MAP, PORT, listeners_setting

DEFAULT_LISTEN: Final = "127.0.0.1:8084"
URL_VARIABLE: Final = "OTTLA_MIRROR_URL"
"""Where `ottla mirror status` asks; no setting of the program."""
HTTPS_PREFIX: Final = "listeners.https."
"""Connect's prefix for the TLS of its listeners; without it `ssl.` is the clients'."""

CLUSTERS: Final = string_list(
    "clusters", (), "The aliases of the clusters, with commas between.", ListOf(empty=False), importance=HIGH
)
INTERNAL_REST: Final = boolean(
    "dedicated.mode.enable.internal.rest",
    False,
    "Whether copies of the process ask each other over HTTP. Here they always do.",
    importance=LOW,
)
LISTENERS: Final = listeners_setting(DEFAULT_LISTEN)

_CLIENTS: Final = ("ssl.", "sasl.", "security.")
TABLE: Final = Table(
    "ottla mirror",
    by_name(
        (
            CLUSTERS,
            INTERNAL_REST,
            LISTENERS,
            PORT,
            LISTENER_PROTOCOL_MAP,
            worker.ADVERTISED_HOST,
            worker.ADVERTISED_PORT,
            worker.ADVERTISED_LISTENER,
            *FRONT_SETTINGS,
        )
    ),
    variables="OTTLA_MIRROR_",
    other_variables=(URL_VARIABLE,),
)


def is_own(name: str) -> bool:
    """Whether a key of the file is for the program itself, and not for a cluster, flow or client."""
    if name.startswith(HTTPS_PREFIX):
        return True
    return name in TABLE.settings and not name.startswith(_CLIENTS)


def own_settings(given: dict[str, Given]) -> Settings:
    """The settings of the program. Raises ConfigError."""
    return Settings(
        TABLE,
        {name.removeprefix(HTTPS_PREFIX): each for name, each in given.items() if is_own(name)},
    )
