"""Config providers: the values that `${file:path:key}`, `${dir:path:file}` and `${env:KEY}` stand for.

They are looked up when a run starts, and nowhere else: what is stored, shown and logged has the references.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla.config.errors import ConfigError
from ottla.config.java_properties import MalformedProperties, parse_properties
from ottla.config.settings import Settings

MAX_FILE_BYTES: Final = 1 << 20
CONFIG_PROVIDERS: Final = "config.providers"
_REFERENCE: Final = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")
_KAFKA: Final = "org.apache.kafka.common.config.provider."
_CLASSES: Final = {
    _KAFKA + "FileConfigProvider": "file",
    _KAFKA + "DirectoryConfigProvider": "dir",
    _KAFKA + "EnvVarConfigProvider": "env",
}
_KINDS: Final = {"file": "file", "dir": "dir", "directory": "dir", "env": "env"}

Lookup = Callable[[str, str], str]
"""The value of a path and a key. Raises ConfigError."""


@dataclass(frozen=True, slots=True)
class ConfigProviders:
    """The providers of a worker by their names."""

    by_name: Mapping[str, Lookup]

    @property
    def names(self) -> frozenset[str]:
        """The names that references may have."""
        return frozenset(self.by_name)

    def resolve(self, config: Mapping[str, str]) -> dict[str, str]:
        """The configuration with the values of all references. Blocks. Raises ConfigError."""
        return {name: self._resolved(name, text) for name, text in config.items()}

    def _resolved(self, name: str, text: str) -> str:
        def found(match: re.Match[str]) -> str:
            lookup = self.by_name.get(match[1])
            if lookup is None:
                return match[0]
            try:
                return lookup(match[3] or "", match[4])
            except ConfigError as problem:
                raise ConfigError(f"{name}={text}: {problem}") from None

        return _REFERENCE.sub(found, text) if "${" in text else text


def config_providers(settings: Settings) -> ConfigProviders:
    """The providers that these settings describe. Raises ConfigError for one that is not there."""
    given = settings.with_prefix("config.providers.")
    names = settings.texts().get(CONFIG_PROVIDERS)
    listed = [each.strip() for each in names.split(",") if each.strip()] if names is not None else []
    found: dict[str, Lookup] = {name: _made(kind, {}) for name, kind in _KINDS.items() if name != "directory"}
    for name in listed:
        kind = _CLASSES.get(given[f"{name}.class"]) if f"{name}.class" in given else _KINDS.get(name)
        if kind is None:
            raise settings.refusal(
                CONFIG_PROVIDERS,
                f"{name}: config.providers.{name}.class is none of {', '.join(_CLASSES)}",
            )
        prefix = f"{name}.param."
        own = {key.removeprefix(prefix): text for key, text in given.items() if key.startswith(prefix)}
        found[name] = _made(kind, own)
    return ConfigProviders(found)


def _made(kind: str, parameters: Mapping[str, str]) -> Lookup:
    match kind:
        case "file":
            return _Files(_allowed(parameters)).value
        case "dir":
            return _Directories(_allowed(parameters)).value
        case _:
            return _Environment(re.compile(parameters.get("allowlist.pattern", ".*"))).value


def _allowed(parameters: Mapping[str, str]) -> tuple[Path, ...]:
    texts = parameters.get("allowed.paths", "").split(",")
    return tuple(Path(text.strip()).resolve() for text in texts if text.strip())


def _require_allowed(path: Path, allowed: tuple[Path, ...]) -> Path:
    found = path.resolve()
    if allowed and not any(found == each or each in found.parents for each in allowed):
        raise ConfigError(f"{path} is not within allowed.paths")
    return found


def _content(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise ConfigError(f"{path} is larger than {MAX_FILE_BYTES} bytes")
        return data.decode()
    except OSError as problem:
        raise ConfigError(f"{path}: {problem.strerror or problem}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not a text in UTF-8") from None


@dataclass(frozen=True, slots=True)
class _Files:
    allowed: tuple[Path, ...]

    def value(self, path: str, key: str) -> str:
        """A value of a properties file."""
        file = _require_allowed(Path(path), self.allowed)
        try:
            found = parse_properties(_content(file)).get(key)
        except MalformedProperties as malformed:
            raise ConfigError(f"{path}:{malformed.line}: {malformed.problem}") from None
        if found is None:
            raise ConfigError(f"{path} has no key {key}")
        return found.value


@dataclass(frozen=True, slots=True)
class _Directories:
    allowed: tuple[Path, ...]

    def value(self, path: str, key: str) -> str:
        """The content of a file of a directory, as secrets are mounted into containers."""
        if not key or Path(key).name != key:
            raise ConfigError(f"{key!r} is no name of a file in {path}")
        return _content(_require_allowed(Path(path) / key, self.allowed))


@dataclass(frozen=True, slots=True)
class _Environment:
    allowed: re.Pattern[str]

    def value(self, path: str, key: str) -> str:
        """A variable of the worker's environment."""
        name = key or path
        found = os.environ.get(name)
        if found is None or self.allowed.fullmatch(name) is None:
            raise ConfigError(f"the environment has no variable {name} that may be read")
        return found
