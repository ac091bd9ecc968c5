"""Which plugins there are, by the class names that configurations have: ours, and Java's for the same thing.

A plugin's code is imported when it is first used. Packages add theirs by entry points of the group
`ottla.connect`, each a module with a tuple PLUGINS.
"""

from __future__ import annotations

import enum
import importlib
import importlib.metadata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

ENTRY_POINTS: Final = "ottla.connect"
BUILT_IN: Final = (
    "ottla.connect.converters.plugins",
    "ottla.connect.transforms.plugins",
    "ottla.connect.connectors.plugins",
    "ottla.connect.cdc.plugins",
    "ottla.connect.spark.plugins",
    "ottla.mirror.plugins",  # a system that stands on this one: named here, imported by nothing
)


class Engine(enum.StrEnum):
    """Which kind of host process runs a connector's tasks."""

    PYTHON = "python"
    SPARK = "spark"


class Kind(enum.StrEnum):
    """What a plugin is; the value is its type in GET /connector-plugins."""

    SOURCE = "source"
    SINK = "sink"
    CONVERTER = "converter"
    HEADER_CONVERTER = "header_converter"
    TRANSFORMATION = "transformation"
    PREDICATE = "predicate"


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plugin. names: its class names, the first one reported; target: "package.module:Class"."""

    names: tuple[str, ...]
    kind: Kind
    version: str
    target: str
    engine: Engine = Engine.PYTHON

    def load(self) -> Any:
        """The class."""
        module, _, name = self.target.partition(":")
        return getattr(importlib.import_module(module), name)


class Catalog:
    """Plugins by name: whole class names, and simple ones (FileStreamSource) where they mean one plugin."""

    def __init__(self, plugins: Iterable[Plugin]) -> None:
        self.plugins: Final = tuple(plugins)
        self._by_name: dict[tuple[Kind, str], Plugin | None] = {}
        for plugin in self.plugins:
            for name in plugin.names:
                simple = name.rpartition(".")[2]
                for known in {name, simple, simple.removesuffix("Connector")}:
                    first = self._by_name.setdefault((plugin.kind, known), plugin)
                    if first is not plugin and known != name:
                        self._by_name[plugin.kind, known] = None  # two plugins: the simple name means neither

    def find(self, name: str, *kinds: Kind) -> Plugin | None:
        """The plugin of this name among some kinds."""
        for kind in kinds:
            found = self._by_name.get((kind, name))
            if found is not None:
                return found
        return None


def installed_plugins() -> Catalog:
    """The built-in plugins and those of installed packages."""
    found: list[Plugin] = []
    modules = [*BUILT_IN, *(point.value for point in importlib.metadata.entry_points(group=ENTRY_POINTS))]
    for module in modules:
        found += importlib.import_module(module).PLUGINS
    return Catalog(found)
