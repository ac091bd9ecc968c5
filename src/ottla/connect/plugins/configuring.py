"""The settings of a plugin from the texts of its configuration, with Connect's words for what is wrong."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.config.errors import ConfigError
from ottla.config.setting import InvalidValue, Table
from ottla.config.settings import Settings
from ottla.config.sources import from_mapping
from ottla.connect.plugins.required import is_required, missing


def configured(table: Table, texts: Mapping[str, str]) -> Settings:
    """The settings of a table. Raises ConfigError for the first setting that is missing or wrong."""
    for name, setting in table.settings.items():
        text = texts.get(name)
        if text is None:
            if is_required(setting):
                raise ConfigError(missing(name))
            continue
        try:
            setting.parse(text)
        except InvalidValue as invalid:
            raise ConfigError(str(invalid)) from None
    return Settings(table, from_mapping(texts))
