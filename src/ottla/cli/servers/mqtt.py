"""`ottla mqtt`: MQTT on any Kafka cluster, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

import click

from ottla.cli.frame.commands import command
from ottla.cli.frame.event_loop import loop_factory
from ottla.cli.servers.given_settings import given_from
from ottla.cli.servers.options import (
    allow_anonymous_option,
    log_level_option,
    metrics_option,
    settings_options,
)
from ottla.cli.servers.service_command import (
    log_service_to_stderr,
    told_ready,
    watched_services,
    with_options,
)
from ottla.metrics import settings as metrics_settings
from ottla.mqtt import settings
from ottla.mqtt.service import MqttService
from ottla.web.running import run_alone

_BOOTSTRAP_HELP: Final = (
    f"The cluster, ottla's or another Kafka. [default: {settings.BOOTSTRAP_SERVERS.name} of --config, else "
    f"{settings.BOOTSTRAP_SERVERS.default_text}]"
)
_LISTEN_HELP: Final = (
    "Where MQTT clients connect: HOST:PORT, mqtts://…, ws://… or wss://…; port 0: any. "
    f"[default: {settings.LISTENERS.name} of --config, else {settings.LISTENERS.default_text}]"
)


@command(
    "mqtt",
    examples=[
        "ottla mqtt --topic 'sensors/#=readings'",
        "ottla mqtt --topic 'sensors/+/temperature=temperatures' --topic '#=things' "
        "--listen mqtt://127.0.0.1:1883,ws://127.0.0.1:8884",
    ],
)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="FILTER=TOPIC",
    help="Write messages whose MQTT topic FILTER matches to the Kafka topic TOPIC; may be repeated, and the "
    f"first that matches counts. [default: {settings.TOPICS.name} of --config]",
)
@click.option("--bootstrap", metavar="HOST:PORT,…", help=_BOOTSTRAP_HELP)
@click.option("--listen", metavar="HOST:PORT,…", help=_LISTEN_HELP)
@allow_anonymous_option
@metrics_option()
@settings_options(settings.TABLE)
@log_level_option
def mqtt(
    topics: tuple[str, ...],
    bootstrap: str | None,
    listen: str | None,
    allow_anonymous: bool,
    metrics: str | None,
    config: Path | None,
    set_words: tuple[str, ...],
    log_level: str,
) -> int:
    """MQTT 3.1.1 and 5 on any Kafka cluster: messages become records, and records go to those who subscribe.

    Messages of QoS 0 and 1 are taken; one of QoS 1 is acknowledged once all replicas in sync have it. What
    comes into the Kafka topics goes to subscribers with QoS 0, from their subscription on.
    """
    log_service_to_stderr(log_level)
    options = (
        ("--topic", settings.TOPICS, ",".join(topics) or None),
        ("--bootstrap", settings.BOOTSTRAP_SERVERS, bootstrap),
        ("--listen", settings.LISTENERS, listen),
        ("--metrics", metrics_settings.LISTEN, metrics),
    )
    given = given_from(config, set_words, settings.TABLE)
    values = with_options(settings.TABLE, given, options, allow_anonymous=allow_anonymous)
    addresses = settings.addresses_of(values)
    service = MqttService(values)
    path = click.get_current_context().command_path
    watched = watched_services(path, values, service.front.security)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(run_alone(service, addresses, told_ready, watched))
