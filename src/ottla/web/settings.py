"""A service's settings: a table of names, kinds and defaults, and values from a properties file and --set."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from ottla.config.java_properties import MalformedProperties, parse_properties
from ottla.web.errors import ServiceError

T = TypeVar("T")

log = logging.getLogger("ottla.services")

MAX_PROPERTIES_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class Setting(Generic[T]):
    """One setting: `read` turns its text into a value, raising ValueError with what it must be."""

    name: str
    read: Callable[[str], T]
    default: T
    doc: str


class Settings:
    """The values of a table's settings: `settings[BOOTSTRAP_SERVERS]`, and others by prefix."""

    def __init__(self, table: Iterable[Setting[Any]], given: Mapping[str, str]) -> None:
        """Raises ServiceError, which names the setting, for a value that its setting can't have."""
        self._given = dict(given)
        self._values: dict[str, Any] = {}
        for setting in table:
            text = given.get(setting.name)
            try:
                self._values[setting.name] = setting.default if text is None else setting.read(text)
            except ValueError as problem:
                raise ServiceError(f"{setting.name}={text}: {problem}") from None

    def __getitem__(self, setting: Setting[T]) -> T:
        value: T = self._values[setting.name]
        return value

    def given(self, name: str) -> bool:
        """Whether the user said anything about it."""
        return name in self._given

    def with_prefix(self, prefix: str) -> dict[str, str]:
        """Settings that begin with `prefix`, which their keys are without: those of a client, say."""
        return {
            name.removeprefix(prefix): text for name, text in self._given.items() if name.startswith(prefix)
        }


OF_THE_COMMAND: Final = frozenset({"listeners"})
"""What the command reads for every service."""


def warn_of_unknown(
    service: str, given: Iterable[str], table: Iterable[Setting[Any]], prefixes: tuple[str, ...]
) -> None:
    """One line for each name that is neither in the table nor begins as settings of clients do."""
    known = OF_THE_COMMAND | {setting.name for setting in table}
    for name in sorted(given):
        if name not in known and not name.startswith(prefixes):
            log.warning("the setting %s is unknown to ottla %s and is ignored", name, service)


def given_values(path: Path | None, overrides: Sequence[str]) -> dict[str, str]:
    """What a properties file and `key=value` words say; the words win. Raises ServiceError."""
    given: dict[str, str] = {}
    if path is not None:
        given.update(_read_file(path))
    for override in overrides:
        name, separator, value = override.partition("=")
        if not separator or not name.strip():
            raise ServiceError(f"--set {override}: write it as key=value")
        given[name.strip()] = value.strip()
    return given


def _read_file(path: Path) -> dict[str, str]:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_PROPERTIES_BYTES + 1)
        if len(data) > MAX_PROPERTIES_BYTES:
            raise ServiceError(f"{path}: larger than {MAX_PROPERTIES_BYTES} bytes")
        return {name: found.value for name, found in parse_properties(data.decode()).items()}
    except OSError as problem:
        raise ServiceError(f"{path}: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise ServiceError(f"{path}: is not UTF-8 text") from None
    except MalformedProperties as problem:
        raise ServiceError(f"{path}:{problem.line}: {problem.problem}") from None


def integer(least: int, most: int = 2**63 - 1) -> Callable[[str], int]:
    """A whole number from `least` to `most`."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ValueError("must be a whole number") from None
        if not least <= value <= most:
            raise ValueError(f"must be from {least} to {most}")
        return value

    return read


def boolean(text: str) -> bool:
    """`true` or `false`."""
    match text.lower():
        case "true":
            return True
        case "false":
            return False
    raise ValueError("must be true or false")


def text(value: str) -> str:
    """Any text that is not empty."""
    if not value:
        raise ValueError("must not be empty")
    return value


def optional_text(value: str) -> str | None:
    """Any text; an empty one is none."""
    return value or None


def one_of(*choices: str) -> Callable[[str], str]:
    """One of these words, in upper or lower case."""

    def read(value: str) -> str:
        for choice in choices:
            if choice.lower() == value.lower():
                return choice
        raise ValueError(f"must be one of {', '.join(choices)}")

    return read
