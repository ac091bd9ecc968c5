"""The values of a program's settings: those that were given, and the defaults of its table."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from ottla.config.errors import ConfigError
from ottla.config.setting import HIDDEN, InvalidValue, Setting, Table
from ottla.config.sources import Given

T = TypeVar("T")

MAX_SHOWN_CHARACTERS: Final = 200
"""The most of a value that a message holds."""


class Settings:
    """Values by setting, `settings[TOPIC]`, and given texts by the prefix of their names."""

    __slots__ = ("_given", "_table", "_values")

    def __init__(self, table: Table, given: Mapping[str, Given]) -> None:
        """Raises ConfigError for a value that its setting can't have; it names value, place and problem."""
        self._table = table
        self._given = given
        self._values: dict[str, Any] = {}
        for name, each in given.items():
            setting = table.find(name)
            if setting is None:
                continue
            try:
                self._values[name] = setting.parse(each.text)
            except InvalidValue as invalid:
                raise self.refusal(name, invalid.problem) from None

    def __getitem__(self, setting: Setting[T]) -> T:
        value: T = self._values.get(setting.name, setting.default)
        return value

    def is_given(self, name: str) -> bool:
        """Whether any layer has a value for this name."""
        return name in self._given

    def with_prefix(self, prefix: str) -> dict[str, str]:
        """The texts given under `prefix` that are no settings of the table, by the rest of their names.

        They are the properties of a client or plugin.
        """
        return {
            name.removeprefix(prefix): each.text
            for name, each in self._given.items()
            if name.startswith(prefix) and self._table.find(name) is None
        }

    def warn_of_unknown(self, log: logging.Logger) -> None:
        """One line with all names that are neither settings of the table nor passed on."""
        unknown = sorted(
            name
            for name in self._given
            if self._table.find(name) is None and not name.startswith(self._table.prefixes)
        )
        if unknown:
            log.warning("unknown settings are ignored keys=%s", ",".join(unknown))

    def refusal(self, name: str, problem: str) -> ConfigError:
        """The error of a setting that can't be used: place, name, value (not of a password) and problem."""
        given = self._given.get(name)
        if given is None:
            return ConfigError(f"{name}: {problem}")
        setting = self._table.find(name)
        text = HIDDEN if setting is not None and setting.sensitive else _shortened(given.text)
        return ConfigError(f"{given.origin}{name}={text}: {problem}")


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[:MAX_SHOWN_CHARACTERS]}…"
