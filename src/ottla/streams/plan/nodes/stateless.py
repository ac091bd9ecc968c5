"""Operations without state: filters, maps, merges, and a look at each record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from ottla.streams.plan.node import Facts, Node, NodeText, Operation, called, python_functions
from ottla.streams.plan.records import Expression, PythonFunction


@dataclass(frozen=True, slots=True, eq=False)
class Filter:
    """Only the records for which `predicate` holds; of a table, the others become tombstones.

    `drops`: they are left out of a table too; for tables that send no second value of a key.
    """

    name: str
    input: Node
    predicate: Expression
    negated: bool = False
    drops: bool = False

    @property
    def table(self) -> bool:
        return self.input.table

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_inputs(self, inputs: tuple[Node, ...], name: str | None = None) -> Filter:
        return replace(self, input=inputs[0], name=name or self.name)

    @property
    def facts(self) -> Facts:
        return Facts(Operation(), python_functions(self.predicate), rows_of=self.input)

    @property
    def text(self) -> NodeText:
        name = called(self.predicate)
        holds = "does not hold" if self.negated else "holds"
        rest = ", others become tombstones" if self.table else ""
        return NodeText("filter", name.strip(), f"records for which the predicate{name} {holds}{rest}")


class Becomes(Enum):
    """The kind of a map's output."""

    SAME = "a table of a table, a stream of a stream"
    STREAM = "a stream"
    TABLE = "a table: the records are upserts of their keys, those without a key are left out"


@dataclass(frozen=True, slots=True)
class Changes:
    """The parts of a record that a map makes anew; None keeps what is there.

    both: returns a struct of key and value.
    """

    key: Expression | None = None
    value: Expression | None = None
    both: PythonFunction | None = None
    headers: Expression | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Map:
    """Another key, value or headers for each record. A tombstone of a table stays one."""

    name: str
    input: Node
    new: Changes
    becomes: Becomes

    @property
    def table(self) -> bool:
        return self.becomes is Becomes.TABLE or (self.becomes is Becomes.SAME and self.input.table)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_inputs(self, inputs: tuple[Node, ...], name: str | None = None) -> Map:
        return replace(self, input=inputs[0], name=name or self.name)

    @property
    def facts(self) -> Facts:
        new = self.new
        functions = python_functions(new.key, new.value, new.both, new.headers)
        keeps_keys = new.key is None and new.both is None
        return Facts(Operation(), functions, rows_of=self.input if keeps_keys else None)

    @property
    def text(self) -> NodeText:
        new = self.new
        parts = (("key", new.key), ("value", new.value), ("headers", new.headers))
        changed = [f"{part}{called(each)}" for part, each in parts if each is not None]
        if new.both is not None:
            changed = [f"key and value {new.both.name}"]
        if changed:
            what = f"new {', '.join(changed)}"
            return NodeText("map", what, what)
        if self.becomes is Becomes.TABLE:
            return NodeText("map", "to a table", "the records as changes of a table")
        changes = self.input.table and self.becomes is Becomes.STREAM
        return NodeText(
            "map", "to a stream", "the changes as a stream" if changes else "the records as they are"
        )


@dataclass(frozen=True, slots=True, eq=False)
class FlatMap:
    """Any number of records for each: an array of values, or of `record(key, value)` (`with_keys`)."""

    name: str
    input: Node
    records: Expression
    with_keys: bool

    table = False

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_inputs(self, inputs: tuple[Node, ...], name: str | None = None) -> FlatMap:
        return replace(self, input=inputs[0], name=name or self.name)

    @property
    def facts(self) -> Facts:
        return Facts(Operation(), python_functions(self.records))

    @property
    def text(self) -> NodeText:
        name = called(self.records)
        of = "records" if self.with_keys else "values"
        return NodeText("flat map", name.strip(), f"any number of {of} for each record{name}")


@dataclass(frozen=True, slots=True, eq=False)
class Merge:
    """The records of several streams of equal types."""

    name: str
    inputs: tuple[Node, ...]

    table = False

    def with_inputs(self, inputs: tuple[Node, ...], name: str | None = None) -> Merge:
        return replace(self, inputs=inputs, name=name or self.name)

    @property
    def facts(self) -> Facts:
        # Two of its ways may have state, and a query has one stateful node.
        return Facts(Operation(apart=True))

    @property
    def text(self) -> NodeText:
        return NodeText("merge", "", "the records of all its inputs")


@dataclass(frozen=True, slots=True, eq=False)
class Peek:
    """The same records; `action` sees each of them on its way, on the machine that has it, at least once."""

    name: str
    input: Node
    action: Callable[[Any], None]

    @property
    def table(self) -> bool:
        return self.input.table

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_inputs(self, inputs: tuple[Node, ...], name: str | None = None) -> Peek:
        return replace(self, input=inputs[0], name=name or self.name)

    @property
    def facts(self) -> Facts:
        return Facts(Operation(), own_python=self._action, rows_of=self.input)

    @property
    def text(self) -> NodeText:
        return NodeText("peek", "", f"{self._action} looks at each record")

    @property
    def _action(self) -> str:
        return getattr(self.action, "__name__", "an action")
