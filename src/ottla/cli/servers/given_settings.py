"""The settings that a server's `--config`, environment and `--set` give, by layers; without click."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ottla.config.setting import Table
from ottla.config.sources import Given, from_environment, from_file, from_words, layered
from ottla.config.telemetry_settings import STANDARD_VARIABLES


def given_from(config: Path | None, set_words: Sequence[str], table: Table) -> dict[str, Given]:
    """The settings that `--config`, the environment and `--set` give. Raises ConfigError, UsageError."""
    return layered(given_in_file(config, table), from_words(set_words))


def given_in_file(config: Path | None, table: Table) -> dict[str, Given]:
    """The settings that `--config` and the environment give. Raises ConfigError."""
    file = {} if config is None else from_file(config)
    return layered(file, given_in_environment(table))


def given_in_environment(table: Table) -> dict[str, Given]:
    """The settings that the environment gives: the program's own variables, and OpenTelemetry's."""
    standard = {
        variable: name for variable, name in STANDARD_VARIABLES.items() if table.find(name) is not None
    }
    own = {name: text for name, text in os.environ.items() if name not in table.other_variables}
    return from_environment(own, table.variables, standard)
