"""Where settings are given: defaults of a command, a properties file, the environment, the command line.

Each place gives names and texts, and each text keeps its place, so that an error can say where the user has
to look. Where several places give a name, the highest `Layer` wins (`layered`).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from ottla.config.errors import ConfigError, UsageError
from ottla.config.java_properties import MalformedProperties, parse_properties

MAX_FILE_BYTES: Final = 16 << 20
SET: Final = "--set"


class Layer(enum.IntEnum):
    """The kind of place that gives a setting; a higher one wins."""

    DEFAULT = 0
    FILE = 1
    ENVIRONMENT = 2
    COMMAND = 3


class Origin(NamedTuple):
    """A place: `server.properties:12`, the name of a variable, `--set`, or nothing for a default."""

    layer: Layer
    place: str = ""

    def __str__(self) -> str:
        """The beginning of a message, before `name=value`."""
        if not self.place:
            return ""
        return f"{self.place} " if self.layer is Layer.COMMAND else f"{self.place}: "


OUR_DEFAULT: Final = Origin(Layer.DEFAULT)


class Given:
    """The text of a setting and its place. A plain class, whose text is not printed: it may be a password."""

    __slots__ = ("origin", "text")

    def __init__(self, text: str, origin: Origin = OUR_DEFAULT) -> None:
        self.text = text
        self.origin = origin


def from_mapping(
    values: Mapping[str, str], layer: Layer = Layer.DEFAULT, place: str = ""
) -> dict[str, Given]:
    """Values that are all given in one place, by name."""
    origin = Origin(layer, place)
    return {name: Given(text, origin) for name, text in values.items()}


def from_file(path: Path) -> dict[str, Given]:
    """The values of a properties file, by name. Raises ConfigError, which names the file and the line."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as problem:
        raise ConfigError(f"{path}: can't read it: {problem.strerror or problem}") from None
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(f"{path}: larger than {MAX_FILE_BYTES} bytes, is this a properties file?")
    try:
        properties = parse_properties(data.decode())
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: it is not a text in UTF-8") from None
    except MalformedProperties as malformed:
        raise ConfigError(f"{path}:{malformed.line}: {malformed.problem}") from None
    return {
        name: Given(value, Origin(Layer.FILE, f"{path}:{line}")) for name, (value, line) in properties.items()
    }


def from_environment(
    environ: Mapping[str, str], prefix: str, standard: Mapping[str, str] | None = None
) -> dict[str, Given]:
    """The values of the variables that begin with `prefix`, by the names of their settings.

    standard: common variables, and the settings that they stand for; those with the prefix win.

    After the prefix stands the setting's name in capitals, with `_` for a dot, `__` for a `_` and `___` for a
    dash, as in the container images of Kafka and Confluent.
    """
    found = {
        name: Given(environ[variable], Origin(Layer.ENVIRONMENT, variable))
        for variable, name in (standard or {}).items()
        if environ.get(variable)
    }
    found.update(
        (_setting_name(variable.removeprefix(prefix)), Given(text, Origin(Layer.ENVIRONMENT, variable)))
        for variable, text in environ.items()
        if variable.startswith(prefix) and variable != prefix
    )
    return found


def _setting_name(variable: str) -> str:
    return variable.lower().replace("___", "-").replace("__", "\0").replace("_", ".").replace("\0", "_")


def from_words(words: Iterable[str], option: str = SET) -> dict[str, Given]:
    """The values of an option's words, `name=value` each, by name; the last word with a name counts.

    As in a properties file, space around the first `=` goes and space at the end is part of the value.
    Raises UsageError.
    """
    origin = Origin(Layer.COMMAND, option)
    given: dict[str, Given] = {}
    for word in words:
        name, separator, text = word.partition("=")
        if not separator or not name.strip():
            raise UsageError(f"{option} {word}: write it as key=value")
        given[name.strip()] = Given(text.lstrip(), origin)
    return given


def layered(*layers: Mapping[str, Given]) -> dict[str, Given]:
    """All values by name; of several, that of the highest layer, of equal layers the last argument's."""
    found: dict[str, Given] = {}
    for name, given in (item for layer in layers for item in layer.items()):
        if name not in found or given.origin.layer >= found[name].origin.layer:
            found[name] = given
    return found


def texts(given: Mapping[str, Given]) -> dict[str, str]:
    """The texts without their places."""
    return {name: each.text for name, each in given.items()}
