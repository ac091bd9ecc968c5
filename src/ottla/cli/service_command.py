"""What the commands of services have in common: their options, and a process that runs services."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ottla.cli.event_loop import loop_factory
from ottla.cli.options import add_log_level, add_pairs, log_to_stderr
from ottla.web.running import run_alone
from ottla.web.server import HttpAddress, Service
from ottla.web.settings import given_values


def run_service(
    argv: Sequence[str],
    prog: str,
    description: str,
    default_listen: str,
    bootstrap_key: str,
    make: Callable[[Mapping[str, str]], Service],
) -> int:
    """Parse a service's options, run it until SIGTERM or Ctrl-C; 0 after a clean stop, 1 after a failure.

    `make` gets what the user set, by name; --bootstrap stands in it as `bootstrap_key`. Raises UserError.
    """
    options = _parser(prog, description, default_listen, bootstrap_key).parse_args(list(argv))
    log_service_to_stderr(options.log_level)
    given = given_values(options.config, options.set)
    if options.bootstrap is not None:
        given[bootstrap_key] = options.bootstrap
    listen = options.listen or given.get("listeners", default_listen).split(",")[0].strip()
    service, address = make(given), HttpAddress.parse(listen)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(run_alone(service, address, told_ready))


def told_ready(line: str) -> None:
    """Say on stdout that a service is ready."""
    # What start-up made lives as long as the process: the collector need not walk it again and again.
    gc.collect()
    gc.freeze()
    print(line, flush=True)


def log_service_to_stderr(level: str) -> None:
    """One structured line an event of ours."""
    log_to_stderr(level)
    if level != "debug":
        # It tells each attempt to connect, thirty lines a second while a cluster is away: ours tell it once.
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)


def _parser(prog: str, description: str, default_listen: str, bootstrap_key: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=prog, description=description)
    parser.add_argument(
        "--bootstrap",
        metavar="HOST:PORT",
        help=f"the cluster, ottla's or another Kafka ({bootstrap_key} of --config, else 127.0.0.1:9092)",
    )
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help=f"where HTTP clients connect (listeners of --config, else {default_listen}); port 0: any",
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="a properties file, names as Confluent's")
    add_pairs(parser, "--set", "one setting; may be repeated, wins over --config")
    add_log_level(parser)
    return parser
