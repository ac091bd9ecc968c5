"""`ottla rest`: a REST Proxy to any Kafka cluster, until SIGTERM or Ctrl-C."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.cli.service_command import run_service
from ottla.rest.service import RestService

DEFAULT_LISTEN = "127.0.0.1:8082"


def main(argv: Sequence[str]) -> int:
    """Parse the options and run the proxy; its exit code."""
    return run_service(
        argv,
        "ottla rest",
        "REST Proxy: produce, consume and administer over HTTP, by Confluent's APIs v2 and v3.",
        DEFAULT_LISTEN,
        "bootstrap.servers",
        RestService.from_given,
    )
