"""Streams and the pipeline have no circle of imports; those for type checking and in functions count too."""

from __future__ import annotations

import ast
import graphlib
from pathlib import Path

import pytest

import ottla

ROOT = Path(ottla.__path__[0])

#: Circles that are still there: exactly-once's modules name each other.
ALLOWED = frozenset(
    {
        frozenset({"ottla.pipeline.sink.exactly_once", "ottla.pipeline.sink.exactly_once_source"}),
        frozenset({"ottla.pipeline.sink.exactly_once_clients", "ottla.pipeline.sink.exactly_once_writer"}),
    }
)


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(("ottla", *(parts[:-1] if parts[-1] == "__init__" else parts)))


def graph_of(houses: tuple[str, ...]) -> dict[str, set[str]]:
    """By module: which modules of the houses it imports, wherever the import stands."""
    files = {module_of(path): path for house in houses for path in (ROOT / house).rglob("*.py")}
    graph: dict[str, set[str]] = {}
    for module, path in files.items():
        named: set[str] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Import():
                    named |= {each.name for each in node.names}
                case ast.ImportFrom(module=str(base)):
                    modules = {f"{base}.{each.name}" for each in node.names} & set(files)
                    named |= modules or {base}
        graph[module] = (named & set(files)) - {module}
    return graph


@pytest.mark.parametrize("houses", [("streams", "pipeline")])
def test_there_is_no_circle(houses: tuple[str, ...]) -> None:
    graph = graph_of(houses)
    for circle in ALLOWED:
        for module in circle & graph.keys():
            graph[module] -= circle
    tuple(graphlib.TopologicalSorter(graph).static_order())  # names a circle in its error
