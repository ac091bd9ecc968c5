"""A topology as data: nodes that name their inputs, from sources to sinks. No Spark in here.

A node's `name` is unique in its topology and names what Kafka and the checkpoints know of it: internal
topics, queries, stores. Names that nobody gave are made from the node's kind and its number, so they change
when nodes are put before them: name what has state (as with Kafka Streams).

Every node tells its `inputs`, itself `with_inputs` in their places (a source stays as it is: it has none),
and the Python `functions` among its expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from ottla.config.errors import UserError
from ottla.streams.operators.join_kind import JoinKind
from ottla.streams.operators.operator import KeyedOperator
from ottla.streams.operators.windows import JoinWindows, Windows
from ottla.streams.plan.records import Expression, Joiner, PythonFunction, Record

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import DataType

    from ottla.pipeline.formats.format import Format


class TopologyError(UserError):
    """A topology that can't be: the message says which node and why."""


class Emit(Enum):
    """When an aggregate's value goes on."""

    CHANGES = "changes"
    """After each batch that changed it."""
    WINDOW_CLOSE = "window close"
    """Once, when its window is closed."""


def python_functions(*expressions: object) -> tuple[PythonFunction, ...]:
    """Those of the expressions that are Python functions, in their order."""
    return tuple(each for each in expressions if isinstance(each, PythonFunction))


@dataclass(frozen=True, slots=True)
class Start:
    """Where a source begins without a checkpoint: earliest, latest, or the first record since a time."""

    latest: bool = False
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """Records of topics. `table`: each is an upsert of its key, a null value a deletion."""

    name: str
    topics: tuple[str, ...]
    pattern: str | None
    key: Format
    value: Format
    start: Start
    timestamp: Expression | None
    table: bool

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    def with_inputs(self, inputs: tuple[Node, ...]) -> Source:
        return self

    @property
    def functions(self) -> tuple[PythonFunction, ...]:
        return python_functions(self.timestamp)


@dataclass(frozen=True, slots=True, eq=False)
class GlobalTable:
    """A whole topic as a table that every record may be joined with, on any key."""

    name: str
    topic: str
    key: Format
    value: Format

    table = True

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    def with_inputs(self, inputs: tuple[Node, ...]) -> GlobalTable:
        return self

    @property
    def functions(self) -> tuple[PythonFunction, ...]:
        return ()


@dataclass(frozen=True, slots=True, eq=False)
class Boundary:
    """What another query of the application wrote to the internal topic `topic`: the output of `origin`."""

    name: str
    topic: str
    origin: Node

    @property
    def table(self) -> bool:
        return self.origin.table

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    def with_inputs(self, inputs: tuple[Node, ...]) -> Boundary:
        return self

    @property
    def functions(self) -> tuple[PythonFunction, ...]:
        return ()


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

    def with_inputs(self, inputs: tuple[Node, ...]) -> Filter:
        return replace(self, input=inputs[0])

    @property
    def functions(self) -> tuple[PythonFunction, ...]:
        return python_functions(self.predicate)


@dataclass(frozen=True, slots=True, eq=False)
class Map:
    """Another key, value, timestamp or headers for each record; None keeps what is there.

    A tombstone of a table stays one: `value` is not asked.
    """

    name: str
    input: Node
    key: Expression | None = None
    value: Expression | None = None
    both: PythonFunction | None = None
    """Returns a struct of key and value."""
    headers: Expression | None = None
    keeps_table: bool = True
    makes_table: bool = False
    """The records are from here on upserts of their keys; those without a key are left out."""

    @property
    def table(self) -> bool:
        return self.makes_table or (self.keeps_table and self.input.table)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_inputs(self, inputs: tuple[Node, ...]) -> Map:
        return replace(self, input=inputs[0])

    @property
    def functions(self) -> tuple[PythonFunction, ...]:
        return python_functions(self.key, self.value, self.both, self.headers)


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

    def with_inputs(self, inputs: tuple[Node, ...]) -> FlatMap:
        return replace(self, input=inputs[0])

    @property
    def functions(self) -> tuple[PythonFunction, ...]:
        return python_functions(self.records)


@dataclass(frozen=True, slots=True, eq=False)
class Merge:
    """The records of several streams of equal types."""

    name: str
    inputs: tuple[Node, ...]

    table = False

    def with_inputs(self, inputs: tuple[Node, ...]) -> Merge:
        return replace(self, inputs=inputs)

    @property
    def functions(self) -> tuple[PythonFunction, ...]:
        return ()


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

    def with_inputs(self, inputs: tuple[Node, ...]) -> Peek:
        return replace(self, input=inputs[0])

    @property
    def functions(self) -> tuple[PythonFunction, ...]:
        return ()


Aggregates = Callable[[Record], "Mapping[str, Column]"]
"""Names a struct's fields and gives a Spark aggregate for each."""


@dataclass(frozen=True, slots=True, eq=False)
class NativeAggregate:
    """A table by key, or by key and window, of Spark aggregates.

    `aggregates` None counts, and the value is a number; else the value is a struct. `single`: the one field
    of `aggregates` is the value itself.
    """

    name: str
    input: Node
    windows: Windows | None
    aggregates: Aggregates | None
    single: bool
    emit: Emit

    table = True

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_inputs(self, inputs: tuple[Node, ...]) -> NativeAggregate:
        return replace(self, input=inputs[0])

    @property
    def functions(self) -> tuple[PythonFunction, ...]:
        return ()


@dataclass(frozen=True, slots=True, eq=False)
class StreamJoin:
    """Records of two streams with the same key and close in time."""

    name: str
    left: Node
    right: Node
    windows: JoinWindows
    kind: JoinKind
    joiner: Joiner | None

    table = False

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    def with_inputs(self, inputs: tuple[Node, ...]) -> StreamJoin:
        return replace(self, left=inputs[0], right=inputs[1])

    @property
    def functions(self) -> tuple[PythonFunction, ...]:
        return ()


@dataclass(frozen=True, slots=True, eq=False)
class GlobalJoin:
    """Records of a stream with those of a global table; `key` gives the table's key for a record."""

    name: str
    stream: Node
    global_table: GlobalTable
    key: Expression
    kind: JoinKind
    joiner: Joiner | None

    @property
    def table(self) -> bool:
        return False

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.stream, self.global_table)

    def with_inputs(self, inputs: tuple[Node, ...]) -> GlobalJoin:
        return replace(self, stream=inputs[0])

    @property
    def functions(self) -> tuple[PythonFunction, ...]:
        return python_functions(self.key)


class TypeOf(Enum):
    """An output type that is made of the inputs' types."""

    KEY = "the key of input 0"
    VALUE = "the value of input 0"
    LAST_VALUE = "the value of the last input"
    PAIR = "a struct of left and right: the values of inputs 0 and 1"
    PAIR_STREAM_FIRST = "a struct of left and right: the values of inputs 1 and 0"
    WINDOWED_KEY = "a struct of key, start and end"


InputTypes = Sequence["tuple[DataType, DataType]"]
"""Key and value type of each input of an operator."""

OutputType = Any
"""A TypeOf, a Spark type, its DDL, a Python type, or a function of InputTypes that returns a Spark type."""


@dataclass(frozen=True, slots=True, eq=False)
class Keyed:
    """A stateful operator in plain Python, run over the records of its inputs key by key.

    `windows` are set where event time matters: late records are dropped by the query's watermark.
    `watermark_grace_ms`: the operator wants a watermark although it has no windows.
    """

    name: str
    inputs: tuple[Node, ...]
    operator: KeyedOperator
    key_type: OutputType
    value_type: OutputType
    table: bool
    windows: Windows | None = None
    watermark_grace_ms: int | None = None

    def with_inputs(self, inputs: tuple[Node, ...]) -> Keyed:
        return replace(self, inputs=inputs)

    @property
    def functions(self) -> tuple[PythonFunction, ...]:
        return ()


@dataclass(frozen=True, slots=True, eq=False)
class ToTopic:
    """Records into a topic; `topic` may be an expression that gives each record's topic."""

    name: str
    input: Node
    topic: str | Expression
    key: Format
    value: Format
    partition: Expression | None = None

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    table = False

    def with_inputs(self, inputs: tuple[Node, ...]) -> ToTopic:
        return replace(self, input=inputs[0])

    @property
    def functions(self) -> tuple[PythonFunction, ...]:
        return python_functions(self.topic, self.partition)


@dataclass(frozen=True, slots=True, eq=False)
class ToInternalTopic:
    """The output of `input` into an internal topic, for other queries of the application."""

    name: str
    input: Node
    topic: str

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    table = False

    def with_inputs(self, inputs: tuple[Node, ...]) -> ToInternalTopic:
        return replace(self, input=inputs[0])

    @property
    def functions(self) -> tuple[PythonFunction, ...]:
        return ()


@dataclass(frozen=True, slots=True, eq=False)
class ToSpark:
    """Records to any of Spark's sinks: `writer` makes a writer of the frame (key, value, timestamp, …)."""

    name: str
    input: Node
    writer: Callable[[DataFrame], DataStreamWriter]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    table = False

    def with_inputs(self, inputs: tuple[Node, ...]) -> ToSpark:
        return replace(self, input=inputs[0])

    @property
    def functions(self) -> tuple[PythonFunction, ...]:
        return ()


Node = (
    Source
    | GlobalTable
    | Boundary
    | Filter
    | Map
    | FlatMap
    | Merge
    | Peek
    | NativeAggregate
    | StreamJoin
    | GlobalJoin
    | Keyed
    | ToTopic
    | ToInternalTopic
    | ToSpark
)
Sink = ToTopic | ToInternalTopic | ToSpark
STATEFUL = (NativeAggregate, StreamJoin, Keyed)


@dataclass(frozen=True, slots=True)
class Materialized:
    """A table that can be asked by key while the application runs."""

    name: str
    node: Node


@dataclass(frozen=True, slots=True)
class Topology:
    """All of an application: its sinks lead to everything else."""

    name: str
    sinks: tuple[ToTopic | ToSpark, ...]
    materialized: tuple[Materialized, ...]

    def nodes(self) -> list[Node]:
        """Every node once, inputs before those that read them."""
        return in_order([*self.sinks, *(each.node for each in self.materialized)])


def in_order(ends: Sequence[Node]) -> list[Node]:
    """All nodes that `ends` depend on, and they themselves, inputs first."""
    found: dict[int, Node] = {}

    def visit(node: Node) -> None:
        if id(node) not in found:
            for each in node.inputs:
                visit(each)
            found[id(node)] = node

    for end in ends:
        visit(end)
    return list(found.values())


def consumers(nodes: Sequence[Node]) -> dict[int, list[Node]]:
    """By id() of a node: who reads it."""
    readers: dict[int, list[Node]] = {id(node): [] for node in nodes}
    for node in nodes:
        for each in node.inputs:
            readers[id(each)].append(node)
    return readers
