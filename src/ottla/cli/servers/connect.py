"""`ottla connect`: a worker of a Connect cluster, or a worker alone, until SIGTERM or Ctrl-C."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from ottla.cli.frame.commands import command
from ottla.cli.frame.connector_files import read_connector
from ottla.cli.servers.given_settings import given_from
from ottla.cli.servers.options import allow_anonymous_option, log_level_option, metrics_option
from ottla.cli.servers.service_command import (
    ServiceCommand,
    log_service_to_stderr,
    run_service,
    with_options,
)
from ottla.config.sources import SET
from ottla.connect import settings
from ottla.connect.service import connect_service, standalone_service
from ottla.connect.worker.standalone import GivenConnector
from ottla.metrics import settings as metrics_settings

connect: Final[click.Command] = ServiceCommand(
    "A worker of Connect: runs connectors between Kafka and other systems, together with the other workers "
    "of its group, and answers Kafka Connect's REST API.",
    settings.TABLE,
    settings.BOOTSTRAP_SERVERS,
    settings.LISTENERS,
    connect_service,
).command(
    "connect",
    [
        "ottla connect --bootstrap 127.0.0.1:9092",
        "ottla connect --config worker.properties --listen 0.0.0.0:8083 --allow-anonymous",
        "ottla connect worker --set group.id=lake --set exactly.once.source.support=enabled",
    ],
)


@command(
    "standalone",
    examples=[
        "ottla connect standalone worker.properties file-source.properties",
        "ottla connect standalone worker.properties source.json sink.json --listen 127.0.0.1:8084",
    ],
)
@click.argument("worker", type=click.Path(path_type=Path), metavar="WORKER.properties")
@click.argument("connectors", type=click.Path(path_type=Path), nargs=-1, metavar="[CONNECTOR]…")
@click.option("--bootstrap", metavar="HOST:PORT,…", help="The cluster, in place of bootstrap.servers.")
@click.option("--listen", metavar="HOST:PORT,…", help="Where HTTP clients connect, in place of listeners.")
@allow_anonymous_option
@metrics_option()
@click.option(SET, "set_words", metavar="KEY=VALUE", multiple=True, help="A setting; may be repeated.")
@log_level_option
def standalone(
    worker: Path,
    connectors: tuple[Path, ...],
    bootstrap: str | None,
    listen: str | None,
    allow_anonymous: bool,
    metrics: str | None,
    set_words: tuple[str, ...],
    log_level: str,
) -> int:
    """Run a worker alone, without a group and topics: with the connectors of files, and offsets in a file.

    A CONNECTOR is a properties file, or JSON as the REST API takes it. offset.storage.file.filename of the
    worker's properties names the file of offsets: lines of JSON, not what Kafka's workers write.
    """
    log_service_to_stderr(log_level)
    options = (
        ("--bootstrap", settings.BOOTSTRAP_SERVERS, bootstrap),
        ("--listen", settings.LISTENERS, listen),
        ("--metrics", metrics_settings.LISTEN, metrics),
    )
    given = given_from(worker, set_words, settings.TABLE)
    found = with_options(settings.TABLE, given, options, allow_anonymous=allow_anonymous)
    wanted = [read_connector(path) for path in connectors]
    begun = [GivenConnector(each.config, each.initial_state) for each in wanted]
    return run_service(lambda own: standalone_service(own, begun), found, settings.LISTENERS)
