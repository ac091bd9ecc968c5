"""The settings that a server's `--config`, environment and `--set` give, by layers; without click."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ottla.config.setting import Table
from ottla.config.sources import Given, from_environment, from_file, from_words, layered


def given_from(config: Path | None, set_words: Sequence[str], table: Table) -> dict[str, Given]:
    """The settings that `--config`, the environment and `--set` give. Raises ConfigError, UsageError."""
    return layered(given_in_file(config, table), from_words(set_words))


def given_in_file(config: Path | None, table: Table) -> dict[str, Given]:
    """The settings that `--config` and the environment give. Raises ConfigError."""
    file = {} if config is None else from_file(config)
    return layered(file, from_environment(os.environ, table.variables))
