"""Settings without a default: those that every configuration of a connector has to give."""

from __future__ import annotations

from typing import Any, TypeVar

from ottla.config.errors import ConfigError
from ottla.config.setting import Setting
from ottla.config.settings import Settings
from ottla.config.validators import Check

T = TypeVar("T")


class Required:
    """The check of a setting that has to be given, with a further check of its value.

    Settings made by `Kind.optional(name, doc, Required())` have the default None, which this check refuses.
    """

    __slots__ = ("_check",)

    def __init__(self, check: Check | None = None) -> None:
        self._check = check

    @property
    def further(self) -> Check | None:
        """The check of a value that is given."""
        return self._check

    @property
    def allowed(self) -> str:
        """See Check."""
        return "" if self._check is None else self._check.allowed

    def __call__(self, value: Any, /) -> str | None:
        if value is None:
            return "the setting has no default and must be given"
        return None if self._check is None else self._check(value)


def is_required(setting: Setting[Any]) -> bool:
    """Whether a configuration without this setting is refused."""
    return isinstance(setting.check, Required)


def missing(name: str) -> str:
    """Kafka's sentence for a required setting that is not given."""
    return f'Missing required configuration "{name}" which has no default value.'


def require(settings: Settings, setting: Setting[T | None]) -> T:
    """The value of a setting that has to be given. Raises ConfigError where it is not."""
    value = settings[setting]
    if value is None:
        raise ConfigError(missing(setting.name))
    return value
