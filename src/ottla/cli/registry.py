"""`ottla registry`: a Schema Registry on any Kafka cluster, until SIGTERM or Ctrl-C."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.cli.service_command import ServiceCommand
from ottla.registry import settings
from ottla.registry.service import RegistryService


def main(argv: Sequence[str]) -> int:
    """Parse the options and run the registry; its exit code. Raises UserError."""
    return ServiceCommand(
        "Schema Registry: Avro, JSON Schema and Protobuf schemas over HTTP, kept in a topic of any cluster.",
        settings.TABLE,
        settings.BOOTSTRAP_SERVERS,
        settings.LISTENERS,
        RegistryService,
    ).run(argv)
