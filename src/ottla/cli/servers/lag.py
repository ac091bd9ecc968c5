"""`ottla lag serve`: watches the groups of any Kafka cluster, until SIGTERM or Ctrl-C."""

from __future__ import annotations

from typing import Final

import click

from ottla.cli.servers.service_command import ServiceCommand
from ottla.lag import settings
from ottla.lag.service import LagService

serve: Final[click.Command] = ServiceCommand(
    "Watch all groups of a cluster, tell over HTTP in Burrow's shape how they are, and tell of incidents.",
    settings.TABLE,
    settings.BOOTSTRAP_SERVERS,
    settings.LISTENERS,
    LagService,
).command(
    "serve",
    [
        "ottla lag serve --bootstrap 127.0.0.1:9092",
        "ottla lag serve --set notifier.http.url=https://alerts.example.com/lag --set allowed.lag=100",
    ],
)
