"""`ottla up`: the platform on this machine, brokers and the services on them, until SIGTERM or Ctrl-C.

A broker is a process of its own, so that no service's work delays a produce request; the services share
another. A service that can't start or ends leaves the others and the broker alone, and is started again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from ottla.broker.config import BROKER_TABLE
from ottla.cli.frame.commands import command
from ottla.cli.frame.event_loop import loop_factory
from ottla.cli.frame.options import Decorated
from ottla.cli.servers.child_broker import ChildBroker
from ottla.cli.servers.given_settings import given_from, given_in_environment
from ottla.cli.servers.options import (
    allow_anonymous_option,
    log_level_option,
    metrics_option,
    settings_options,
)
from ottla.cli.servers.service_command import log_service_to_stderr, told_ready
from ottla.client.access import DEFAULT_BOOTSTRAP
from ottla.config.errors import ConfigError
from ottla.config.setting import Table
from ottla.config.settings import Settings
from ottla.config.sources import SET, Given, Layer, from_mapping, layered
from ottla.connect import settings as connect_settings
from ottla.connect.service import connect_service
from ottla.metrics.endpoint import MetricsEndpoint, endpoint_tls
from ottla.metrics.settings import LISTEN, EndpointOptions, parse_address
from ottla.mqtt import settings as mqtt_settings
from ottla.mqtt.service import MqttService
from ottla.registry import settings as registry_settings
from ottla.registry.service import RegistryService
from ottla.rest import settings as rest_settings
from ottla.rest.service import RestService
from ottla.security.server_tls import ClientAuthentication
from ottla.web import endpoint_settings
from ottla.web.authentication_settings import ALLOW_ANONYMOUS
from ottla.web.front_settings import FrontOptions
from ottla.web.running import Kept, Place, Watched, run_together
from ottla.web.server import HttpAddress, Service
from ottla.web.service_metrics import ServicesMetrics
from ottla.web.tls_settings import CLIENT_AUTHENTICATION

PROG: Final = "ottla up"
LOCAL_HOST: Final = "127.0.0.1"
LAST_PORT: Final = 65_535
SQL_LISTEN: Final = "127.0.0.1:8088"
MQTT_LISTEN: Final = "127.0.0.1:1883"
MQTT_ROUTE: Final = "#=mqtt"
DEFAULT_DATA: Final = "ottla-data"
BROKER_CLIENT_AUTH: Final = "ssl.client.auth"
"""The brokers' setting with the values of the services' ssl.client.authentication, in lower case."""
log = logging.getLogger("ottla.cli")

EVERY_ADDRESS: Final = frozenset({"0.0.0.0", "[::]", "::"})


class UpOptions(NamedTuple):
    """The values of the options, as the command's help explains them."""

    data: Path | None
    brokers: int | None
    listen: str
    registry: str
    rest: str
    connect: str
    sql: str
    mqtt: str
    allow_anonymous: bool
    metrics: str | None
    config: Path | None
    set_words: tuple[str, ...]
    log_level: str


def _address_option(option: str, default: str, clients: str) -> Decorated:
    help = f"Where {clients} connect."
    return click.option(option, metavar="HOST:PORT", default=default, show_default=True, help=help)


@command(
    "up",
    examples=[
        "ottla up --data ./data",
        "ottla up --data ./cluster --brokers 3",
        "ottla up --listen 127.0.0.1:19092 --registry 127.0.0.1:18081 --rest 127.0.0.1:18082",
    ],
)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where the broker keeps its logs. [default: ./ottla-data]",
)
@click.option(
    "--brokers",
    type=int,
    metavar="N",
    help="Run N brokers, each a process with its own directory in DIR; they listen on the port of --listen "
    "and those that follow.",
)
@_address_option("--listen", DEFAULT_BOOTSTRAP, "Kafka clients")
@_address_option("--registry", registry_settings.DEFAULT_LISTEN, "clients of the Schema Registry")
@_address_option("--rest", rest_settings.DEFAULT_LISTEN, "clients of the REST Proxy")
@_address_option("--connect", connect_settings.DEFAULT_LISTEN, "clients of Connect")
@_address_option("--sql", SQL_LISTEN, "clients of SQL")
@_address_option("--mqtt", MQTT_LISTEN, "MQTT clients")
@allow_anonymous_option
@metrics_option(
    "The broker listens on PORT (--brokers: each on one that follows), the services on the port behind."
)
@settings_options(BROKER_TABLE, "server.properties")
@log_level_option
def up(**options: Any) -> int:
    """Run a broker, Schema Registry, REST Proxy, Connect, SQL and MQTT together, until SIGTERM or Ctrl-C.

    What is published by MQTT goes to the Kafka topic `mqtt`, unless ottla.mqtt.topics in the environment
    (OTTLA_MQTT_OTTLA_MQTT_TOPICS) says otherwise.
    SQL is left out where ottla[sql] is not installed; Spark starts with the first query.
    """
    given = UpOptions(**options)
    log_service_to_stderr(given.log_level)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_run(given))


async def _run(options: UpOptions) -> int:
    # An address that is taken is a mistake to be told of before anything runs.
    with contextlib.ExitStack() as stack:
        registry = Place.take("registry", [HttpAddress.parse(options.registry)])
        stack.callback(registry.close)
        rest = Place.take("rest", [HttpAddress.parse(options.rest)])
        stack.callback(rest.close)
        connect = Place.take("connect", [HttpAddress.parse(options.connect)])
        stack.callback(connect.close)
        mqtt = _mqtt_place(options.mqtt)
        stack.callback(mqtt.close)
        sql = _sql_place(options)
        if sql is not None:
            stack.callback(sql.place.close)
        _require_known_clients(
            options,
            (registry, registry_settings.TABLE),
            (rest, rest_settings.TABLE),
            (connect, connect_settings.TABLE),
            (mqtt, mqtt_settings.TABLE),
            *(() if sql is None else ((sql.place, sql.table),)),
        )
        watched = _watched(options)
        if watched is not None:
            others = (mqtt,) if sql is None else (mqtt, sql.place)
            _require_ports_of_their_own(options, registry, rest, connect, *others)
            watched.bind()
            stack.callback(watched.endpoint.abandon)
        broker = ChildBroker(_broker_words(options, registry.address.url))
        try:
            line = await broker.start()
            print(line, flush=True)
            services = _services(_bootstrap(line), registry, rest, connect, options.allow_anonymous)
            if sql is not None:
                addresses = (_bootstrap(line), registry.address.url, connect.address.url)
                services = [*services, _sql_service(sql, options, *addresses)]
            services = [*services, _mqtt_service(mqtt, _bootstrap(line), options.allow_anonymous)]
            return await run_together(services, told_ready, broker.ended, watched)
        finally:
            await broker.stop()


def _require_known_clients(options: UpOptions, *services: tuple[Place, Table]) -> None:
    """Raises ServiceError for a service that would be open to other machines, before anything runs."""
    for place, table in services:
        security = FrontOptions.of(_settings(table, _flags(options.allow_anonymous))).security
        assert security is not None
        places = [(each.host, each.port, each.tls_listener) for each in place.addresses]
        security.require_known_clients(place.name, places, warns=False)


def _watched(options: UpOptions) -> Watched | None:
    """Where the services are watched: on the port behind those of the brokers. Raises ConfigError."""
    if options.metrics is None:
        return None
    given = given_from(options.config, options.set_words, BROKER_TABLE)
    given = layered(given, from_mapping({LISTEN.name: options.metrics}, Layer.COMMAND, "--metrics"))
    endpoint = EndpointOptions.of(Settings(BROKER_TABLE, given))
    assert endpoint is not None, "the option is given"
    address = endpoint.address
    if address.port:
        address = address._replace(port=address.port + (options.brokers or 1))
    if address.port > LAST_PORT:
        raise ConfigError(f"--metrics {options.metrics}: there is no port for the services, take a lower one")
    metrics = ServicesMetrics(PROG)
    watching = replace(endpoint, address=address)
    tls = endpoint_settings.tls_of_endpoint(Settings(endpoint_settings.TABLE, _of_endpoint(given)), watching)
    return Watched(
        metrics,
        MetricsEndpoint(
            PROG,
            watching,
            metrics.exposition,
            metrics.health,
            None if tls is None else endpoint_tls(tls),
            asks_for_certificates=tls is not None
            and tls.client_authentication is ClientAuthentication.REQUIRED,
        ),
    )


def _of_endpoint(given: Mapping[str, Given]) -> dict[str, Given]:
    """Those of the broker's settings that are about its metrics endpoint, by the names of the services'."""
    found: dict[str, Given] = {}
    for name, each in given.items():
        if name.endswith(BROKER_CLIENT_AUTH):
            name = name.removesuffix(BROKER_CLIENT_AUTH) + CLIENT_AUTHENTICATION.name
            each = Given(each.text.upper(), each.origin)
        if endpoint_settings.TABLE.find(name) is not None:
            found[name] = each
    return found


def _require_ports_of_their_own(options: UpOptions, *services: Place) -> None:
    """Raises ConfigError where metrics and clients would share a port: sockets alone do not tell that."""
    first = parse_address(options.metrics or "").port
    if not first:
        return
    brokers = options.brokers or 1
    listen = HttpAddress.parse(options.listen).port
    taken = {*range(listen, listen + brokers), *(service.address.port for service in services)}
    for port in range(first, first + brokers + 1):
        if port in taken:
            raise ConfigError(
                f"--metrics {options.metrics}: port {port} is that of clients, take another one"
            )


def _flags(allow_anonymous: bool) -> dict[str, str]:
    return {ALLOW_ANONYMOUS.name: "true"} if allow_anonymous else {}


def _services(
    bootstrap: str, registry: Place, rest: Place, connect: Place, allow_anonymous: bool
) -> Sequence[Kept]:
    flags = _flags(allow_anonymous)
    of_registry = {**flags, registry_settings.BOOTSTRAP_SERVERS.name: bootstrap}
    of_rest = {
        **flags,
        rest_settings.BOOTSTRAP_SERVERS.name: bootstrap,
        rest_settings.SCHEMA_REGISTRY_URL.name: registry.address.url,
    }
    of_connect = {**flags, connect_settings.BOOTSTRAP_SERVERS.name: bootstrap}
    return (
        Kept(registry, lambda: RegistryService(_settings(registry_settings.TABLE, of_registry))),
        Kept(rest, lambda: RestService(_settings(rest_settings.TABLE, of_rest))),
        Kept(connect, lambda: connect_service(_settings(connect_settings.TABLE, of_connect))),
    )


def _mqtt_place(listen: str) -> Place:
    """Where MQTT listens. Raises ServiceError."""
    return Place.take("mqtt", [replace(HttpAddress.parse(listen), scheme="mqtt", listener="mqtt")])


def _mqtt_service(place: Place, bootstrap: str, allow_anonymous: bool) -> Kept:
    own = {**_flags(allow_anonymous), mqtt_settings.BOOTSTRAP_SERVERS.name: bootstrap}
    given = given_in_environment(mqtt_settings.TABLE)
    if not {mqtt_settings.TOPICS.name, mqtt_settings.TOPIC_REGEX_LIST.name} & given.keys():
        own[mqtt_settings.TOPICS.name] = MQTT_ROUTE
    return Kept(place, lambda: MqttService(_settings(mqtt_settings.TABLE, own)))


class SqlParts(NamedTuple):
    """What of SQL is imported only where it is installed."""

    place: Place
    table: Table
    make: Callable[[Settings], Service]


def _sql_place(options: UpOptions) -> SqlParts | None:
    """Where SQL listens; None where what it needs is not installed. Raises ServiceError."""
    try:
        from ottla.sql.server.service import SqlService
        from ottla.sql.server.settings import TABLE
    except ModuleNotFoundError as problem:
        if (problem.name or "").startswith("ottla."):
            raise
        log.info("SQL is left out: %s is not installed (pip install 'ottla[sql]')", problem.name)
        return None
    return SqlParts(Place.take("sql", [HttpAddress.parse(options.sql)]), TABLE, SqlService)


def _sql_service(sql: SqlParts, options: UpOptions, bootstrap: str, registry: str, connect: str) -> Kept:
    # Beside the brokers' directory and not in it, where Apache Kafka knows nothing but partitions.
    data = options.data or Path(DEFAULT_DATA)
    directory = data.with_name(f"{data.name}-sql")
    own = {
        **_flags(options.allow_anonymous),
        "bootstrap.servers": bootstrap,
        "ksql.schema.registry.url": registry,
        "ksql.connect.url": connect,
        "ksql.streams.state.dir": str(directory),
        "ottla.sql.spark.warm": "false",
    }
    return Kept(sql.place, lambda: sql.make(_settings(sql.table, own)))


def _settings(table: Table, own: Mapping[str, str]) -> Settings:
    """What this command gives a service; the environment gives the others. Raises ConfigError."""
    given = given_in_environment(table)
    return Settings(table, layered(given, from_mapping(own, Layer.COMMAND, PROG)))


def _broker_words(options: UpOptions, registry_url: str) -> list[str]:
    words = ["--listen", options.listen, "--log-level", options.log_level]
    if options.brokers is not None:
        words += ["--brokers", str(options.brokers)]
    if options.data is not None:
        words += ["--data", str(options.data)]
    if options.metrics is not None:
        words += ["--metrics", options.metrics]
    # The first of these, so that the user's own win.
    words += [SET, f"confluent.schema.registry.url={registry_url}"]
    if options.config is not None:
        words += ["--config", str(options.config)]
    else:
        # A group's first member is served at once: on one machine nobody starts a hundred of them.
        words += [SET, "group.initial.rebalance.delay.ms=0"]
    for override in options.set_words:
        words += [SET, override]
    return words


def _bootstrap(ready_line: str) -> str:
    """The addresses that the brokers say they listen on, as a client on this machine says them."""
    found = re.search(r"listening on (\S+), node", ready_line)
    assert found is not None, ready_line
    addresses = [each.rpartition(":") for each in found[1].split(",")]
    return ",".join(f"{LOCAL_HOST if host in EVERY_ADDRESS else host}:{port}" for host, _, port in addresses)
