"""The values of a program's settings: those that were given, and the defaults of its table."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Any, Final, TypeVar

from ottla.config.errors import ConfigError
from ottla.config.setting import HIDDEN, InvalidValue, Setting, Table
from ottla.config.sources import Given
from ottla.config.unsupported import is_secret

T = TypeVar("T")

MAX_SHOWN_CHARACTERS: Final = 200
"""The most of a value that a message holds."""


class Settings:
    """Values by setting, `settings[TOPIC]`, and given texts by the prefix of their names."""

    __slots__ = ("_given", "_table", "_values")

    def __init__(self, table: Table, given: Mapping[str, Given]) -> None:
        """Raises ConfigError for a value that its setting can't have, and for protection that is not there.

        The error names value, place and problem.
        """
        self._table = table
        self._given = given
        self._values: dict[str, Any] = {}
        for name, each in given.items():
            setting = table.find(name)
            if setting is None:
                self._require_harmless(name, each)
                continue
            try:
                self._values[name] = setting.parse(each.text)
            except InvalidValue as invalid:
                raise self.refusal(name, invalid.problem) from None

    def changed(self, texts: Mapping[str, str], without: Collection[str] = ()) -> Settings:
        """The same settings with other texts for some names, and without some. Raises ConfigError."""
        kept = {name: each for name, each in self._given.items() if name not in without}
        return Settings(self._table, {**kept, **{name: Given(text) for name, text in texts.items()}})

    def __getitem__(self, setting: Setting[T]) -> T:
        value: T = self._values.get(setting.name, setting.default)
        return value

    def under(self, prefix: str, setting: Setting[T]) -> T:
        """The value given for the setting behind a prefix (`listener.name.x.`), else its own value."""
        value: T = self._values.get(f"{prefix}{setting.name}", self[setting])
        return value

    def is_given(self, name: str) -> bool:
        """Whether any layer has a value for this name."""
        return name in self._given

    def texts(self) -> dict[str, str]:
        """All texts that were given, secrets among them, by name."""
        return {name: each.text for name, each in self._given.items()}

    def with_prefix(self, prefix: str) -> dict[str, str]:
        """The texts given under `prefix` that are no settings of the program, by the rest of their names.

        They are the properties of a client or plugin.
        """
        return {
            name.removeprefix(prefix): each.text
            for name, each in self._given.items()
            if name.startswith(prefix) and self._is_foreign(name)
        }

    def warn_of_unknown(self, log: logging.Logger) -> None:
        """Name all settings that are ignored: those that no program knows, and those of the original."""
        unknown = sorted(
            name
            for name in self._given
            if self._is_foreign(name) and not name.startswith(self._table.prefixes)
        )
        if unknown:
            log.warning("unknown settings are ignored keys=%s", ",".join(unknown))
        reasons: dict[str, list[str]] = {}
        for name, each in sorted(self._given.items()):
            unsupported = self._table.find_unsupported(name)
            if unsupported is not None and not unsupported.asks_for_nothing(each.text):
                reasons.setdefault(unsupported.reason, []).append(name)
        if reasons:
            # One line: of several a second, a service's log writes the first and counts the others.
            told = "; ".join(f"{','.join(names)} ({reason})" for reason, names in reasons.items())
            log.warning("settings without effect: %s", told)

    def _is_foreign(self, name: str) -> bool:
        return self._table.find(name) is None and self._table.find_unsupported(name) is None

    def _require_harmless(self, name: str, given: Given) -> None:
        unsupported = self._table.find_unsupported(name)
        if unsupported is not None and unsupported.stops(given.text):
            raise self.refusal(name, unsupported.reason)

    def refusal(self, name: str, problem: str) -> ConfigError:
        """The error of a setting that can't be used: place, name, value (not of a password) and problem."""
        given = self._given.get(name)
        if given is None:
            return ConfigError(f"{name}: {problem}")
        setting = self._table.find(name)
        secret = is_secret(name) if setting is None else setting.sensitive
        text = HIDDEN if secret else _shortened(given.text)
        return ConfigError(f"{given.origin}{name}={text}: {problem}")


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[:MAX_SHOWN_CHARACTERS]}…"
