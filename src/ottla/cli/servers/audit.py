"""`ottla audit count`: counts a cluster, until SIGTERM or Ctrl-C."""

from __future__ import annotations

from typing import Final

import click

from ottla.audit import settings
from ottla.audit.count.service import CountService
from ottla.cli.servers.service_command import ServiceCommand

count: Final[click.Command] = ServiceCommand(
    "Count each record of a cluster, a tier of the audit, and write down what is there.",
    settings.COUNT_TABLE,
    settings.BOOTSTRAP_SERVERS,
    settings.LISTENERS,
    CountService,
).command(
    "count",
    [
        "ottla audit count --bootstrap 127.0.0.1:9092 --set tier=app",
        "ottla audit count --bootstrap lake:9092 --set tier=lake --set 'topics.include=app\\..*'",
    ],
)
