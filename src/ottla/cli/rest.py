"""`ottla rest`: a REST Proxy to any Kafka cluster, until SIGTERM or Ctrl-C."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.cli.service_command import ServiceCommand
from ottla.rest import settings
from ottla.rest.service import RestService


def main(argv: Sequence[str]) -> int:
    """Parse the options and run the proxy; its exit code. Raises UserError."""
    return ServiceCommand(
        "REST Proxy: produce, consume and administer over HTTP, by Confluent's APIs v2 and v3.",
        settings.TABLE,
        settings.BOOTSTRAP_SERVERS,
        settings.LISTENERS,
        RestService,
    ).run(argv)
