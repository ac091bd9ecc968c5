"""The command `ottla broker`: its options and help; broker.py runs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ottla.broker.config import BROKER_TABLE
from ottla.cli.frame.commands import command
from ottla.cli.servers.broker_options import DEFAULT_LISTEN, BrokerOptions
from ottla.cli.servers.options import log_level_option, metrics_option, settings_options


@command(
    "broker",
    examples=[
        "ottla broker --data ./data",
        "ottla broker --config server.properties --set num.partitions=12",
        "# three brokers on this machine, on the ports 9092 to 9094",
        "ottla broker --brokers 3 --data ./data",
        "# with metrics for Prometheus and health checks on port 9404",
        "ottla broker --metrics 127.0.0.1:9404",
    ],
)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where the logs are kept. [default: log.dirs of --config, else ./ottla-data]",
)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help=f"Where clients connect; port 0: any. [default: listeners of --config, else {DEFAULT_LISTEN}]",
)
@click.option(
    "--brokers",
    type=int,
    metavar="N",
    help="Run N brokers on this machine, each a process with its own directory in DIR; they listen on PORT "
    "and the ports that follow.",
)
@settings_options(BROKER_TABLE, "server.properties")
@click.option(
    "--cluster-id",
    metavar="ID",
    help="The cluster that an empty directory becomes one of, and any other must belong to.",
)
@metrics_option("With --brokers, each node listens on PORT and the ports that follow.")
@log_level_option
# Given by --brokers to the brokers that it starts: see launched.py.
@click.option("--with-launcher", is_flag=True, hidden=True)
def broker(**options: Any) -> int:
    """Run a broker that any Kafka client can use, until SIGTERM or Ctrl-C."""
    from ottla.cli.servers.broker import run_broker

    return run_broker(BrokerOptions(**options))
