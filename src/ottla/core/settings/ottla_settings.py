"""Settings of a broker that Apache Kafka does not have, in a table of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ottla.config.setting import LOW, Setting, boolean

SSL_PRINCIPAL_SPIFFE: Final = boolean(
    "ottla.ssl.principal.spiffe",
    False,
    "Whether a client certificate's SPIFFE id, where it has one, is the name of its principal.",
    importance=LOW,
)

OTTLA_BROKER_SETTINGS: Final[Mapping[str, Setting[Any]]] = {
    setting.name: setting for setting in (SSL_PRINCIPAL_SPIFFE,)
}
