"""Each kind of node brings all that the house asks of it: facts, a description, a compiler."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla.streams
from ottla.streams.compile.compilers import COMPILERS
from ottla.streams.dsl import Streams
from ottla.streams.plan import nodes
from ottla.streams.plan.node import Facts, Node, NodeText, Operation, Reads, Writes
from ottla.streams.plan.planner import plan
from ottla.streams.show.describe import described
from support.pipeline.streams_names import APPLICATIONS

HOUSE = Path(ottla.streams.__file__).parent


def kinds() -> list[type[Any]]:
    """Every class of a node, by looking into all modules of plan/nodes."""
    found: dict[type[Any], None] = {}
    for module in pkgutil.iter_modules(nodes.__path__, f"{nodes.__name__}."):
        for each in vars(importlib.import_module(module.name)).values():
            if isinstance(each, type) and each.__module__ == module.name and hasattr(each, "with_inputs"):
                found[each] = None
    return list(found)


def all_nodes() -> Iterator[Node]:
    """The nodes of the applications that the golden test keeps, in their queries."""
    for build in APPLICATIONS:
        app = Streams(build.__name__)
        build(app)
        for query in plan(app.topology()).queries:
            yield from query.nodes


@pytest.mark.parametrize("kind", kinds())
def test_each_kind_of_node_has_a_compiler_and_is_equal_to_itself_alone(kind: type[Any]) -> None:
    assert kind in COMPILERS
    assert dataclasses.is_dataclass(kind)
    assert kind.__eq__ is object.__eq__, "frames are kept by node"


def test_no_compiler_is_for_a_kind_that_does_not_exist() -> None:
    assert set(COMPILERS) == set(kinds())


def test_each_kind_tells_its_facts_and_describes_itself() -> None:
    seen = set()
    for node in all_nodes():
        seen.add(type(node))
        facts, text = node.facts, node.text
        assert isinstance(facts, Facts)
        assert isinstance(text, NodeText)
        assert text.operation
        assert text.what
        assert (text.state is not None) == (facts.state is not None), "what has state says what it keeps"
        if isinstance(facts.part, Reads):
            assert not node.inputs
        if isinstance(facts.part, Reads | Writes):
            assert facts.own_python is None, "sources and sinks have formats, not code"
    assert seen == set(kinds())


def test_a_node_with_other_inputs_is_the_same_but_for_them() -> None:
    for node in all_nodes():
        again = node.with_inputs(node.inputs)
        assert type(again) is type(node)
        assert (again.name, again.inputs, again.text) == (node.name, node.inputs, node.text)
        if node.inputs:
            assert node.with_inputs(node.inputs, "another").name == "another"


def test_a_kind_of_node_is_known_to_its_module_its_compiler_and_its_builders_alone() -> None:
    """So a new kind is a module in plan/nodes, its compiler and its line in the table, and its method."""
    names = {kind.__name__ for kind in kinds()}
    may_know = {
        "plan/nodes",
        "compile/compilers.py",
        "compile/keyed.py",
        "compile/native_aggregate.py",
        "compile/native_join.py",
        "compile/reading.py",
        "compile/stateless.py",
        "compile/writing.py",
        "dsl",
        "__init__.py",
        "plan/table_nodes.py",  # nodes of several operators
        "plan/windowed_tables.py",  # builds a filter
        "plan/planner.py",  # cuts: a boundary and its sink
    }
    knows: dict[str, set[str]] = {}
    for file in HOUSE.rglob("*.py"):
        place = file.relative_to(HOUSE).as_posix()
        if any(place == each or place.startswith(f"{each}/") for each in may_know):
            continue
        for statement in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith(nodes.__name__):
                knows.setdefault(place, set()).update(names & {each.name for each in statement.names})
    # Internal topics are made, drawn and purged as the planner's sinks.
    assert knows == {
        "run/internal_topics.py": {"ToInternalTopic"},
        "show/describe.py": {"ToInternalTopic"},
    }


@dataclasses.dataclass(frozen=True, eq=False)
class Sampled:
    """A kind of node that the house does not know: every n-th record."""

    name: str
    input: Node
    table = False

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_inputs(self, inputs: tuple[Node, ...], name: str | None = None) -> Sampled:
        return dataclasses.replace(self, input=inputs[0], name=name or self.name)

    @property
    def facts(self) -> Facts:
        return Facts(Operation(), own_python="random")

    @property
    def text(self) -> NodeText:
        return NodeText("sample", "", "now and then a record")


def test_a_kind_of_node_that_the_house_does_not_know_is_planned_and_described() -> None:
    app = Streams("unknown")
    counts = app.stream("in", name="in").group_by_key().count(name="counts").to_stream(name="counted")
    sampled = type(counts)(counts._building, Sampled("sampled", counts._node))
    sampled.group_by_key().count(name="again").to("out", name="out")

    first, second = described(app.topology()).queries

    assert [each.name for each in first.nodes] == ["in", "counts", "unknown-counts-changelog"]
    assert [each.name for each in second.nodes][:3] == ["counts-changelog", "counted", "sampled"]
    (told,) = [each for each in second.nodes if each.name == "sampled"]
    assert (told.operation, told.what) == ("sample", "now and then a record")
    assert told.runs is not None
    assert told.runs.value == "Python"
