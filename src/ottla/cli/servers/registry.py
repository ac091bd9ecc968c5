"""`ottla registry`: a Schema Registry on any Kafka cluster, until SIGTERM or Ctrl-C."""

from __future__ import annotations

from typing import Final

import click

from ottla.cli.servers.service_command import ServiceCommand
from ottla.registry import settings
from ottla.registry.service import RegistryService

registry: Final[click.Command] = ServiceCommand(
    "Schema Registry: Avro, JSON Schema and Protobuf schemas over HTTP, kept in a topic of any cluster.",
    settings.TABLE,
    settings.BOOTSTRAP_SERVERS,
    settings.LISTENERS,
    RegistryService,
).command(
    "registry",
    [
        "ottla registry --bootstrap 127.0.0.1:9092",
        "ottla registry --config schema-registry.properties --listen 0.0.0.0:8081 --allow-anonymous",
    ],
)
