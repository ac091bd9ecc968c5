"""`ottla rest`: a REST Proxy to any Kafka cluster, until SIGTERM or Ctrl-C."""

from __future__ import annotations

from typing import Final

import click

from ottla.cli.servers.service_command import ServiceCommand
from ottla.rest import settings
from ottla.rest.service import RestService

rest: Final[click.Command] = ServiceCommand(
    "REST Proxy: produce, consume and administer over HTTP, by Confluent's APIs v2 and v3.",
    settings.TABLE,
    settings.BOOTSTRAP_SERVERS,
    settings.LISTENERS,
    RestService,
).command(
    "rest",
    [
        "ottla rest --bootstrap 127.0.0.1:9092",
        "ottla rest --set schema.registry.url=http://127.0.0.1:8081",
    ],
)
