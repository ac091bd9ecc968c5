"""The common part of the commands that run a service: options, settings, the process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from ottla.cli.frame.commands import Command
from ottla.cli.frame.event_loop import loop_factory
from ottla.cli.frame.options import Decorated
from ottla.cli.servers.garbage import freeze_started_server
from ottla.cli.servers.given_settings import given_from
from ottla.cli.servers.log_lines import log_to_stderr
from ottla.cli.servers.options import (
    ALLOW_ANONYMOUS_OPTION,
    allow_anonymous_option,
    log_level_option,
    metrics_option,
    settings_options,
)
from ottla.config.setting import Setting, Table
from ottla.config.settings import Settings
from ottla.config.sources import Given, Layer, from_mapping, layered
from ottla.metrics import settings as metrics_settings
from ottla.web.authentication_settings import ALLOW_ANONYMOUS
from ottla.web.bounded_log import BoundedHandler
from ottla.web.http_settings import addresses_of
from ottla.web.running import Watched, run_alone
from ottla.web.security import Security
from ottla.web.server import Service
from ottla.web.service_metrics import ServicesMetrics, endpoint_of


@dataclass(frozen=True, slots=True)
class ServiceCommand:
    """A command that runs one service.

    table: the service's settings. bootstrap, listeners: those that --bootstrap and --listen give.
    """

    description: str
    table: Table
    bootstrap: Setting[str]
    listeners: Setting[tuple[str, ...]]
    make: Callable[[Settings], Service]

    def command(self, name: str, examples: Sequence[str]) -> Command:
        """The click command of this name, with its options."""

        @click.command(name, cls=Command, help=self.description, examples=examples)
        @self._address_option("--bootstrap", self.bootstrap, "The cluster, ottla's or another Kafka.")
        @self._address_option("--listen", self.listeners, "Where HTTP clients connect; port 0: any.")
        @allow_anonymous_option
        @metrics_option()
        @settings_options(self.table)
        @log_level_option
        def run(
            bootstrap: str | None,
            listen: str | None,
            allow_anonymous: bool,
            metrics: str | None,
            config: Path | None,
            set_words: tuple[str, ...],
            log_level: str,
        ) -> int:
            log_service_to_stderr(log_level)
            options = (
                ("--bootstrap", self.bootstrap, bootstrap),
                ("--listen", self.listeners, listen),
                ("--metrics", metrics_settings.LISTEN, metrics),
            )
            given = given_from(config, set_words, self.table)
            settings = with_options(self.table, given, options, allow_anonymous=allow_anonymous)
            return run_service(self.make, settings, self.listeners)

        return run

    def _address_option(self, option: str, setting: Setting[Any], help: str) -> Decorated:
        default = f"[default: {setting.name} of --config, else {setting.default_text}]"
        return click.option(option, metavar="HOST:PORT,…", help=f"{help} {default}")


def with_options(
    table: Table,
    given: Mapping[str, Given],
    options: Iterable[tuple[str, Setting[Any], str | None]],
    *,
    allow_anonymous: bool,
) -> Settings:
    """The settings of a service: those that were given, and over them the command's own options.

    options: each with the setting that it gives, and its value, None where it was left out.
    Raises ConfigError.
    """
    own = {option: {setting.name: value} for option, setting, value in options if value is not None}
    if allow_anonymous:
        own[ALLOW_ANONYMOUS_OPTION] = {ALLOW_ANONYMOUS.name: "true"}
    layers = (from_mapping(values, Layer.COMMAND, option) for option, values in own.items())
    return Settings(table, layered(given, *layers))


def run_service(
    make: Callable[[Settings], Service], settings: Settings, listeners: Setting[tuple[str, ...]]
) -> int:
    """Run a command's service until SIGTERM or Ctrl-C; 0 after a clean stop, 1 after a failure."""
    addresses = addresses_of(settings, listeners)
    service = make(settings)
    path = click.get_current_context().command_path
    watched = watched_services(path, settings, service.front.security)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(run_alone(service, addresses, told_ready, watched))


def watched_services(program: str, settings: Settings, security: Security | None) -> Watched | None:
    """Where the services of this process are watched, None where metrics are off. Raises ConfigError."""
    metrics = ServicesMetrics(program)
    endpoint = endpoint_of(settings, security, metrics)
    return None if endpoint is None else Watched(metrics, endpoint)


def told_ready(line: str) -> None:
    """Print the line with which a service says that it is ready."""
    freeze_started_server()
    print(line, flush=True)


def log_service_to_stderr(level: str) -> None:
    """Log to stderr, one structured line an event; in floods one a second and kind."""
    if level == "debug":
        log_to_stderr(level)
        return
    log_to_stderr(level, BoundedHandler)
    # aiokafka logs each attempt to connect; ottla logs one.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
