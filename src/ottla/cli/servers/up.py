"""`ottla up`: the platform on this machine, brokers and the services on them, until SIGTERM or Ctrl-C.

A broker is a process of its own, so that no service's work delays a produce request; the services share
another. A service that can't start or ends leaves the others and the broker alone, and is started again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from ottla.broker.config import BROKER_TABLE
from ottla.cli.frame.commands import command
from ottla.cli.frame.event_loop import loop_factory
from ottla.cli.frame.options import Decorated
from ottla.cli.servers.child_broker import ChildBroker
from ottla.cli.servers.options import (
    allow_anonymous_option,
    log_level_option,
    settings_options,
)
from ottla.cli.servers.service_command import log_service_to_stderr, told_ready
from ottla.client.access import DEFAULT_BOOTSTRAP
from ottla.config.setting import Table
from ottla.config.settings import Settings
from ottla.config.sources import SET, Layer, from_environment, from_mapping, layered
from ottla.registry import settings as registry_settings
from ottla.registry.service import RegistryService
from ottla.rest import settings as rest_settings
from ottla.rest.service import RestService
from ottla.web.authentication_settings import ALLOW_ANONYMOUS
from ottla.web.front_settings import FrontOptions
from ottla.web.running import Kept, Place, run_together
from ottla.web.server import HttpAddress

PROG: Final = "ottla up"
LOCAL_HOST: Final = "127.0.0.1"
EVERY_ADDRESS: Final = frozenset({"0.0.0.0", "[::]", "::"})


class UpOptions(NamedTuple):
    """The values of the options, as the command's help explains them."""

    data: Path | None
    brokers: int | None
    listen: str
    registry: str
    rest: str
    allow_anonymous: bool
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
@allow_anonymous_option
@settings_options(BROKER_TABLE, "server.properties")
@log_level_option
def up(**options: Any) -> int:
    """Run a broker, a Schema Registry and a REST Proxy on this machine, until SIGTERM or Ctrl-C."""
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
        _require_known_clients(options, (registry, registry_settings.TABLE), (rest, rest_settings.TABLE))
        broker = ChildBroker(_broker_words(options, registry.address.url))
        try:
            line = await broker.start()
            print(line, flush=True)
            services = _services(_bootstrap(line), registry, rest, options.allow_anonymous)
            return await run_together(services, told_ready, broker.ended)
        finally:
            await broker.stop()


def _require_known_clients(options: UpOptions, *services: tuple[Place, Table]) -> None:
    """Raises ServiceError for a service that would be open to other machines, before anything runs."""
    for place, table in services:
        security = FrontOptions.of(_settings(table, _flags(options.allow_anonymous))).security
        assert security is not None
        places = [(each.host, each.port, each.tls_listener) for each in place.addresses]
        security.require_known_clients(place.name, places, warns=False)


def _flags(allow_anonymous: bool) -> dict[str, str]:
    return {ALLOW_ANONYMOUS.name: "true"} if allow_anonymous else {}


def _services(bootstrap: str, registry: Place, rest: Place, allow_anonymous: bool) -> Sequence[Kept]:
    flags = _flags(allow_anonymous)
    of_registry = {**flags, registry_settings.BOOTSTRAP_SERVERS.name: bootstrap}
    of_rest = {
        **flags,
        rest_settings.BOOTSTRAP_SERVERS.name: bootstrap,
        rest_settings.SCHEMA_REGISTRY_URL.name: registry.address.url,
    }
    return (
        Kept(registry, lambda: RegistryService(_settings(registry_settings.TABLE, of_registry))),
        Kept(rest, lambda: RestService(_settings(rest_settings.TABLE, of_rest))),
    )


def _settings(table: Table, own: Mapping[str, str]) -> Settings:
    """What this command gives a service; the environment gives the others. Raises ConfigError."""
    given = from_environment(os.environ, table.variables)
    return Settings(table, layered(given, from_mapping(own, Layer.COMMAND, PROG)))


def _broker_words(options: UpOptions, registry_url: str) -> list[str]:
    words = ["--listen", options.listen, "--log-level", options.log_level]
    if options.brokers is not None:
        words += ["--brokers", str(options.brokers)]
    if options.data is not None:
        words += ["--data", str(options.data)]
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
