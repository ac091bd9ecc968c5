"""`ottla balance serve`: plans and carries out over HTTP, until SIGTERM or Ctrl-C."""

from __future__ import annotations

from typing import Final

import click

from ottla.balance.service import settings
from ottla.balance.service.service import BalanceService
from ottla.cli.servers.service_command import ServiceCommand

serve: Final[click.Command] = ServiceCommand(
    "Plan and carry out over HTTP, in Cruise Control's shape; move replicas off dead brokers, if asked to.",
    settings.TABLE,
    settings.BOOTSTRAP_SERVERS,
    settings.LISTENERS,
    BalanceService,
).command(
    "serve",
    [
        "ottla balance serve --bootstrap 127.0.0.1:9092",
        "ottla balance serve --set self.healing.enabled=true",
    ],
)
