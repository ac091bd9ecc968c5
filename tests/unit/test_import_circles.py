"""No module imports itself over others, whatever its imports stand under: type checking, functions.

import-linter holds the floors and the rooms; of circles inside a room it says nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

import ottla
from ottla.broker.handlers.apis import CONTROLLER_FAMILIES, FAMILIES

SOURCE = Path(ottla.__file__).parent
#: What loads handlers by names that another module has.
HANDLER_TABLE = "ottla.broker.handlers.table"
HANDLERS = "ottla.broker.handlers"


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def named_in(tree: ast.AST, package: list[str]) -> Iterable[str]:
    """Every module or name in a module that an import, or a load by a literal name, asks for."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (each.name for each in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = package[: len(package) - level + 1] if level else []
                where = ".".join([*base, *([module] if module else [])])
                yield from (f"{where}.{each.name}" for each in names)
            case ast.Call(func=ast.Attribute(attr="import_module"), args=[ast.Constant(value=str(name)), *_]):
                yield name


@pytest.fixture(scope="module")
def graph() -> Mapping[str, set[str]]:
    """Of each module of ottla: the modules that it imports."""
    modules = {module_name(path): path for path in SOURCE.rglob("*.py")}
    found_in: dict[str, set[str]] = {}
    for name, path in modules.items():
        package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
        found = found_in[name] = set()
        for wanted in named_in(ast.parse(path.read_bytes()), package):
            for module in (wanted, wanted.rpartition(".")[0]):
                if module in modules:
                    found.add(module)
                    break
        found.discard(name)
    families = {*FAMILIES.values(), *CONTROLLER_FAMILIES.values()}
    found_in[HANDLER_TABLE] |= {f"{HANDLERS}.{each}" for each in families}
    return found_in


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one module (Tarjan, without recursion)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    found: list[list[str]] = []
    for root in graph:
        if root in index:
            continue
        work = [(root, iter(sorted(graph[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            name, left = work[-1]
            for other in left:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(sorted(graph[other]))))
                    break
                if other in on_stack:
                    low[name] = min(low[name], index[other])
            else:
                work.pop()
                if work:
                    above = work[-1][0]
                    low[above] = min(low[above], low[name])
                if low[name] == index[name]:
                    at = stack.index(name)
                    component = sorted(stack[at:])
                    del stack[at:]
                    on_stack.difference_update(component)
                    if len(component) > 1:
                        found.append(component)
    return found


def test_there_is_no_circle(graph: Mapping[str, set[str]]) -> None:
    assert not [" <-> ".join(circle) for circle in circles(graph)]


def test_a_circle_is_found() -> None:
    drawn = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": {"e"}, "e": set(), "f": {"a", "f2"}, "f2": {"f"}}
    assert circles(drawn) == [["b", "c"], ["f", "f2"]]


def test_imports_are_seen_wherever_they_stand() -> None:
    text = """
from __future__ import annotations
import importlib
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from ottla.one import One
def late():
    from . import two
    from ..up import three
    return importlib.import_module("ottla.four")
"""
    seen = set(named_in(ast.parse(text), ["ottla", "room"]))
    assert {"ottla.one.One", "ottla.room.two", "ottla.up.three", "ottla.four"} <= seen


def test_no_part_of_a_node_knows_the_whole(graph: Mapping[str, set[str]]) -> None:
    whole = "ottla.broker.broker"
    knows = {name for name, imports in graph.items() if whole in imports}
    assert not [name for name in knows if name.startswith("ottla.broker.")]
