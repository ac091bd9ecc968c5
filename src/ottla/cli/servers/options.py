"""The options that several servers take."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from ottla.cli.frame.options import Decorated, pairs_option
from ottla.cli.servers.broker_options import DEFAULT_LOG_LEVEL, LOG_LEVELS
from ottla.config.setting import Table
from ottla.config.sources import SET

ALLOW_ANONYMOUS_OPTION: Final = "--allow-anonymous"


def config_option(file: str, help: str, *, required: bool = False) -> Decorated:
    """`--config` alone, for `given_settings.given_in_file`. file: the usual name of the properties file."""
    return click.option(
        "--config", type=click.Path(path_type=Path), required=required, metavar=file, help=help
    )


def settings_options(table: Table, file: str = "FILE") -> Decorated:
    """`--config` and `--set` for the settings of a table, for `given_settings.given_from`.

    Their values are `config` and `set_words`. file: the usual name of the properties file.
    """
    config = config_option(
        file,
        f"A properties file with settings of {table.title}; variables {table.variables}… win over it.",
    )
    pairs = pairs_option(
        SET, "set_words", f"One setting of {table.title}; may be repeated, wins over --config."
    )
    return lambda function: config(pairs(function))


def allow_anonymous_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--allow-anonymous` of HTTP services."""
    return click.option(
        ALLOW_ANONYMOUS_OPTION,
        is_flag=True,
        help="Serve other machines too without asking who their users are, on an address they reach.",
    )(function)


def metrics_option(further: str = "") -> Decorated:
    """--metrics HOST:PORT."""
    help = "Where /metrics (for Prometheus), /healthz and /readyz are served. [default: nowhere]"
    return click.option("--metrics", metavar="HOST:PORT", help=f"{help} {further}".rstrip())


def log_level_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--log-level`, in the lower case of logging's names."""
    return click.option(
        "--log-level",
        type=click.Choice(LOG_LEVELS),
        default=DEFAULT_LOG_LEVEL,
        show_default=True,
        help="The least severe messages that go to stderr.",
    )(function)
