"""`ottla audit count` and `serve`: count a cluster, and show the audit, until SIGTERM or Ctrl-C."""

from __future__ import annotations

from typing import Final

import click

from ottla.audit import settings
from ottla.audit.count.service import CountService
from ottla.audit.serve.service import ServeService
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
serve: Final[click.Command] = ServiceCommand(
    "Show the audit over HTTP and on a page, and tell of buckets that are not complete.",
    settings.SERVE_TABLE,
    settings.BOOTSTRAP_SERVERS,
    settings.SERVE_LISTENERS,
    ServeService,
).command(
    "serve",
    [
        "ottla audit serve --bootstrap 127.0.0.1:9092",
        "ottla audit serve --set also.bootstrap.servers=lake:9092 "
        "--set alert.http.url=https://alerts.example.com/audit",
    ],
)
