"""The common part of the commands that run a service: options, settings, the process."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ottla.cli.event_loop import loop_factory
from ottla.cli.options import add_log_level, add_settings, given_from, log_to_stderr
from ottla.config.setting import Setting, Table
from ottla.config.settings import Settings
from ottla.config.sources import Layer, from_mapping, layered
from ottla.web.bounded_log import BoundedHandler
from ottla.web.http_settings import addresses_of
from ottla.web.running import run_alone
from ottla.web.server import Service


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

    def run(self, argv: Sequence[str]) -> int:
        """Parse the options, run the service until SIGTERM or Ctrl-C. Raises UserError.

        Returns 0 after a clean stop and 1 after a failure.
        """
        options = self._parser().parse_args(list(argv))
        log_service_to_stderr(options.log_level)
        own = {
            option: {setting.name: value}
            for option, setting, value in (
                ("--bootstrap", self.bootstrap, options.bootstrap),
                ("--listen", self.listeners, options.listen),
            )
            if value is not None
        }
        given = (from_mapping(values, Layer.COMMAND, option) for option, values in own.items())
        settings = Settings(self.table, layered(given_from(options, self.table), *given))
        addresses = addresses_of(settings, self.listeners)
        service = self.make(settings)
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(run_alone(service, addresses, told_ready))

    def _parser(self) -> argparse.ArgumentParser:
        parser = argparse.ArgumentParser(prog=self.table.title, description=self.description)
        for option, setting, help in (
            ("--bootstrap", self.bootstrap, "the cluster, ottla's or another Kafka"),
            ("--listen", self.listeners, "where HTTP clients connect; port 0: any"),
        ):
            default = f"({setting.name} of --config, else {setting.default_text})"
            parser.add_argument(option, metavar="HOST:PORT,…", help=f"{help} {default}")
        add_settings(parser, self.table)
        add_log_level(parser)
        return parser


def told_ready(line: str) -> None:
    """Print the line with which a service says that it is ready."""
    # Objects made by the start live as long as the process: the collector need not walk them again and again.
    gc.collect()
    gc.freeze()
    print(line, flush=True)


def log_service_to_stderr(level: str) -> None:
    """Log to stderr, one structured line an event; in floods one a second and kind."""
    if level == "debug":
        log_to_stderr(level)
        return
    log_to_stderr(level, BoundedHandler)
    # aiokafka logs each attempt to connect; ottla logs one.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
