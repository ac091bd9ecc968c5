"""`ottla sql server`: SQL over streams on any Kafka cluster, until SIGTERM or Ctrl-C."""

from __future__ import annotations

from typing import Final

import click

from ottla.cli.servers.service_command import ServiceCommand
from ottla.sql.server import settings
from ottla.sql.server.service import SqlService

server: Final[click.Command] = ServiceCommand(
    "A server of SQL: runs the queries of streams and tables, and answers others, by ksqlDB's REST API.",
    settings.TABLE,
    settings.BOOTSTRAP_SERVERS,
    settings.LISTENERS,
    SqlService,
).command(
    "server",
    [
        "ottla sql server --bootstrap 127.0.0.1:9092",
        "ottla sql server --config ksql-server.properties --listen 0.0.0.0:8088 --allow-anonymous",
        "ottla sql server --set ksql.queries.file=statements.sql",
    ],
)
