"""The options that several commands take, and what the commands make of them: settings, pairs, a log."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path

from ottla.config.setting import Table
from ottla.config.sources import SET, Given, from_environment, from_file, from_words, layered, texts


def add_config(parser: argparse.ArgumentParser, file: str, help: str, *, required: bool = False) -> None:
    """`--config` alone, which `given_in_file` reads. file: the usual name of the properties file."""
    parser.add_argument("--config", type=Path, required=required, metavar=file, help=help)


def add_settings(parser: argparse.ArgumentParser, table: Table, file: str = "FILE") -> None:
    """`--config` and `--set` for the settings of a table, which `given_from` reads.

    file: the usual name of its properties file.
    """
    add_config(
        parser,
        file,
        f"a properties file with settings of {table.title}; variables {table.variables}… win over it",
    )
    add_pairs(parser, SET, f"one setting of {table.title}; may be repeated, wins over --config")


def given_from(options: argparse.Namespace, table: Table) -> dict[str, Given]:
    """The settings that `--config`, the environment and `--set` give. Raises ConfigError, UsageError."""
    return layered(given_in_file(options, table), from_words(options.set))


def given_in_file(options: argparse.Namespace, table: Table) -> dict[str, Given]:
    """The settings that `--config` and the environment give. Raises ConfigError."""
    file: Path | None = options.config
    return layered({} if file is None else from_file(file), from_environment(os.environ, table.variables))


def add_pairs(parser: argparse.ArgumentParser, option: str, help: str) -> None:
    """An option of KEY=VALUE that may be repeated; its value is the list of them, which `pairs_of` reads."""
    parser.add_argument(option, action="append", default=[], metavar="KEY=VALUE", help=help)


def pairs_of(option: str, words: list[str]) -> dict[str, str]:
    """The pairs of an option of `add_pairs` that gives no settings of a table. Raises UsageError."""
    return texts(from_words(words, option))


def add_log_level(parser: argparse.ArgumentParser) -> None:
    """`--log-level`, in the lower case of logging's names."""
    parser.add_argument(
        "--log-level",
        default="warning",
        choices=("debug", "info", "warning", "error"),
        help="what goes to stderr",
    )


def log_to_stderr(level: str, bounded: Callable[[logging.Handler], logging.Handler] | None = None) -> None:
    """Log to stderr, one structured line an event; `bounded` may put a bound before the lines."""
    lines: logging.Handler = logging.StreamHandler(sys.stderr)
    lines.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[lines if bounded is None else bounded(lines)])
