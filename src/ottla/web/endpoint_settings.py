"""The settings of a metrics endpoint and its TLS alone, for processes that are no service."""

from __future__ import annotations

from typing import Final

from ottla.config.setting import Table, by_name
from ottla.config.settings import Settings
from ottla.metrics.settings import ENDPOINT_SETTINGS, LISTENER_NAME, EndpointOptions
from ottla.security.server_tls import ServerTls
from ottla.web.tls_settings import TLS_SETTINGS, base_name, tls_of

TABLE: Final = Table("metrics endpoint", by_name((*ENDPOINT_SETTINGS, *TLS_SETTINGS)), base_name=base_name)


def tls_of_endpoint(settings: Settings, options: EndpointOptions) -> ServerTls | None:
    """The TLS that an endpoint is served by; None where its address has no https://. Reads no file."""
    return tls_of(settings, LISTENER_NAME) if options.address.uses_tls else None
