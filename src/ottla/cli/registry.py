"""`ottla registry`: a Schema Registry on any Kafka cluster, until SIGTERM or Ctrl-C."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.cli.service_command import run_service
from ottla.registry.service import RegistryService

DEFAULT_LISTEN = "127.0.0.1:8081"


def main(argv: Sequence[str]) -> int:
    """Parse the options and run the registry; its exit code."""
    return run_service(
        argv,
        "ottla registry",
        "Schema Registry: Avro, JSON Schema and Protobuf schemas over HTTP, kept in a topic of any cluster.",
        DEFAULT_LISTEN,
        "kafkastore.bootstrap.servers",
        RegistryService.from_given,
    )
