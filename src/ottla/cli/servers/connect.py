"""`ottla connect`: a worker of a Connect cluster, or a worker alone, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from ottla.cli.frame.commands import command
from ottla.cli.servers.given_settings import given_from
from ottla.cli.servers.options import allow_anonymous_option, log_level_option, metrics_option
from ottla.cli.servers.service_command import (
    ServiceCommand,
    log_service_to_stderr,
    run_service,
    with_options,
)
from ottla.config.errors import ConfigError
from ottla.config.sources import MAX_FILE_BYTES, SET, from_file, texts
from ottla.connect import settings
from ottla.connect.service import connect_service, standalone_service
from ottla.metrics import settings as metrics_settings

NAME: Final = "name"

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
    configs = [read_connector(path) for path in connectors]
    return run_service(lambda own: standalone_service(own, configs), found, settings.LISTENERS)


def read_connector(path: Path) -> Mapping[str, str]:
    """The configuration of a connector's file: properties, or JSON. Raises ConfigError."""
    if path.suffix.lower() != ".json":
        config = texts(from_file(path))
    else:
        config = _configuration(path, _json(path))
    if not config.get(NAME):
        raise ConfigError(f"{path}: the connector has no {NAME}")
    return config


def _json(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise ConfigError(f"{path}: larger than {MAX_FILE_BYTES} bytes, is this a connector's file?")
        return json.loads(data)
    except OSError as problem:
        raise ConfigError(f"{path}: can't read it: {problem.strerror or problem}") from None
    except (ValueError, RecursionError) as problem:
        raise ConfigError(f"{path}: it is no JSON: {problem}") from None


def _configuration(path: Path, found: Any) -> dict[str, str]:
    """The texts of {"name": …, "config": {…}}, or of the configuration alone."""
    config, name = found, None
    if isinstance(found, dict) and isinstance(found.get("config"), dict):
        config, name = found["config"], found.get(NAME)
    if not isinstance(config, dict):
        raise ConfigError(f"{path}: it is no connector's configuration")
    known: dict[str, str] = {}
    for key, value in config.items():
        match value:
            case str():
                known[key] = value
            case bool():
                known[key] = "true" if value else "false"
            case int() | float():
                known[key] = str(value)
            case _:
                raise ConfigError(f"{path}: the value of {key} is no text")
    if isinstance(name, str):
        known.setdefault(NAME, name)
    return known
