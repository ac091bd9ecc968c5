"""Files of connectors: Connect's JSON, properties files, and YAML where PyYAML is installed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ottla.config.errors import ConfigError, UserError
from ottla.config.sources import MAX_FILE_BYTES, from_file, texts

STATES: Final = ("RUNNING", "PAUSED", "STOPPED")
SUFFIXES: Final = (".json", ".properties", ".yaml", ".yml")
STDIN: Final = "-"
MAX_CONNECTORS: Final = 10_000
_KEYS: Final = frozenset({"name", "config", "initial_state", "tasks", "type"})
"""Of a connector as Connect tells it; the last two are its own words, and are passed over."""


@dataclass(frozen=True, slots=True)
class WantedConnector:
    """A connector as a file says. config: with its name. place: the file, for messages."""

    name: str
    config: Mapping[str, str]
    initial_state: str | None
    place: str


def read_connectors(words: Sequence[str]) -> list[WantedConnector]:
    """The connectors of files, and of the files in directories; `-` is JSON on stdin.

    Raises ConfigError, which names the file.
    """
    found: dict[str, WantedConnector] = {}
    for place, path in _files(words):
        for one in _read(place, path):
            if one.name in found:
                raise ConfigError(
                    f"{place}: connector {one.name} is in {found[one.name].place} already: leave one out"
                )
            found[one.name] = one
            if len(found) > MAX_CONNECTORS:
                raise ConfigError(f"{place}: more than {MAX_CONNECTORS} connectors")
    return list(found.values())


def read_connector(path: Path) -> WantedConnector:
    """The connector of a file: JSON, or properties whatever the file is called. Raises ConfigError."""
    if path.suffix.lower() != ".json":
        return _connector(str(path), texts(from_file(path)))
    found = list(_read(str(path), path))
    if len(found) != 1:
        raise ConfigError(f"{path}: {len(found)} connectors, and one is wanted")
    return found[0]


def _files(words: Sequence[str]) -> Iterator[tuple[str, Path | None]]:
    """The name of each file for messages, and its path; None for stdin."""
    for word in dict.fromkeys(words):
        path = Path(word)
        if word == STDIN:
            yield "stdin", None
        elif path.is_dir():
            inside = sorted(each for each in path.iterdir() if each.suffix in SUFFIXES and each.is_file())
            if not inside:
                raise ConfigError(f"{path}: no file of a connector is in it ({', '.join(SUFFIXES)})")
            yield from ((str(each), each) for each in inside)
        elif path.suffix not in SUFFIXES:
            raise ConfigError(f"{path}: the name of a file of connectors ends with {', '.join(SUFFIXES)}")
        else:
            yield str(path), path


def _read(place: str, path: Path | None) -> Iterator[WantedConnector]:
    if path is not None and path.suffix == ".properties":
        yield _connector(place, texts(from_file(path)))
        return
    text = _text(place, path)
    whole = (
        _yaml(place, text) if path is not None and path.suffix in (".yaml", ".yml") else _json(place, text)
    )
    for each in whole if isinstance(whole, list) else [whole]:
        yield _connector(place, each)


def _text(place: str, path: Path | None) -> str:
    try:
        if path is None:
            data = sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
        else:
            with path.open("rb") as file:
                data = file.read(MAX_FILE_BYTES + 1)
    except OSError as problem:
        raise ConfigError(f"{place}: can't read it: {problem.strerror or problem}") from None
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(f"{place}: larger than {MAX_FILE_BYTES} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ConfigError(f"{place}: it is not a text in UTF-8") from None


def _json(place: str, text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as problem:
        raise ConfigError(f"{place}:{problem.lineno}: it is not JSON: {problem.msg}") from None
    except (ValueError, RecursionError) as problem:
        raise ConfigError(f"{place}: it is not JSON: {problem}") from None


def _yaml(place: str, text: str) -> Any:
    try:
        import yaml  # type: ignore[import-untyped]
    except ModuleNotFoundError:
        raise UserError(f"{place}: YAML needs PyYAML (pip install pyyaml), or write it as JSON") from None
    try:
        documents = [each for each in yaml.safe_load_all(text) if each is not None]
    except (yaml.YAMLError, ValueError, RecursionError) as problem:
        raise ConfigError(f"{place}: it is not YAML: {' '.join(str(problem).split())}") from None
    return [one for each in documents for one in (each if isinstance(each, list) else [each])]


def _connector(place: str, given: Any) -> WantedConnector:
    """A connector of `{name, config}`, or of a configuration with its name."""
    if not isinstance(given, Mapping):
        raise ConfigError(f"{place}: a connector is an object with `name` and `config`")
    state = None
    if isinstance(given.get("config"), Mapping):
        for key in sorted(set(map(str, given)) - _KEYS):
            raise ConfigError(f"{place}: {key} is no part of a connector; settings stand in its `config`")
        config = _texts(place, given["config"])
        name = given.get("name", config.get("name"))
        if name != config.get("name", name):
            raise ConfigError(f"{place}: the connector is {name}, its configuration says {config['name']}")
        state = given.get("initial_state")
        if state is not None and state not in STATES:
            raise ConfigError(f"{place}: initial_state is {state!r}, and must be one of {', '.join(STATES)}")
    else:
        config = _texts(place, given)
        name = config.get("name")
    if not isinstance(name, str) or not name.strip():
        raise ConfigError(f"{place}: the connector has no name")
    if not config.get("connector.class"):
        raise ConfigError(f"{place}: connector {name} has no connector.class")
    return WantedConnector(name, {**config, "name": name}, state, place)


def _texts(place: str, config: Mapping[Any, Any]) -> dict[str, str]:
    """The values as texts, as Connect reads them: numbers and true or false may stand without quotes."""
    found = {}
    for key, value in config.items():
        match value:
            case str():
                found[str(key)] = value
            case bool():
                found[str(key)] = "true" if value else "false"
            case int() | float():
                found[str(key)] = json.dumps(value)
            case _:
                raise ConfigError(f"{place}: {key} is not a text, a number, true or false")
    return found
