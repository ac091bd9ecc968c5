"""Nodes of a topology: their inputs, their facts and their descriptions. No Spark in here.

A node's `name` is unique in its topology and names its internal topic, its query and its state in Kafka and
on disk. Names that the user did not give are made from the node's kind and its number, so they change when
nodes are put before them: name nodes with state (as with Kafka Streams).

The planner, the compiler, the test kit and the descriptions ask a node for its `facts` and its `text`; none
of them knows the kinds of nodes. A new kind is a class in `plan/nodes/` and its compiler in `compile/`, which
`compile/compilers.py` lists.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ottla.config.errors import UserError
from ottla.streams.operators.described import StateText
from ottla.streams.operators.operator import KeyedOperator
from ottla.streams.operators.windows import Windows
from ottla.streams.plan.records import PythonFunction

if TYPE_CHECKING:
    from ottla.pipeline.formats.format import Format


class TopologyError(UserError):
    """A topology that can't be: the message says which node and why."""


class Formats(NamedTuple):
    """The formats of a topic's keys and values."""

    key: Format
    value: Format

    @property
    def in_words(self) -> str:
        return f"key {self.key.describe()}, value {self.value.describe()}"


@dataclass(frozen=True, slots=True)
class Topics:
    """Topics by name, or all topics whose names match a pattern (a Java regular expression)."""

    names: tuple[str, ...]
    pattern: str | None = None

    def include(self, topic: str) -> bool:
        """Whether the topic is one of them."""
        if self.pattern is not None:
            return re.fullmatch(self.pattern, topic) is not None
        return topic in self.names

    @property
    def in_words(self) -> tuple[str, ...]:
        """Their names, or the pattern in words."""
        return self.names or (f"topics like {self.pattern}",)


@dataclass(frozen=True, slots=True)
class Start:
    """Where a source begins without a checkpoint: earliest, latest, or the first record since a time."""

    latest: bool = False
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Reads:
    """A node that reads topics.

    formats: None where types say them: of internal topics. start: None where every record is needed. whole:
    the topic's rows are read anew by each batch that they are joined with; they are no stream.
    """

    topics: Topics
    formats: Formats | None = None
    start: Start | None = None
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """A node without state. apart: no query has it behind a stateful node, at whatever distance."""

    apart: bool = False


@dataclass(frozen=True, slots=True)
class EventTime:
    """How a node waits for event time, in ms.

    delay_ms: by how much its watermark is behind. horizon_ms: after which event time nothing that a record
    holds open is left; None: not known.
    """

    delay_ms: int
    horizon_ms: int | None


@dataclass(frozen=True, slots=True)
class Windowed:
    """Windows that a node's keys have. closed: gives the node that sends each window once, under a name."""

    windows: Windows
    closed: Callable[[str], Node] | None


@dataclass(frozen=True, slots=True)
class State:
    """A node with state, of which a query has one at most.

    identity: a change of these makes the state useless (see fingerprints.py); the types are not among them.
    event_time: None where it does not wait for event time. operator: run in Python; None: Spark's own.
    two_steps: Spark reads the state in one step of a batch and writes it in another one.
    """

    identity: Mapping[str, str]
    event_time: EventTime | None = None
    windowed: Windowed | None = None
    operator: KeyedOperator | None = None
    two_steps: bool = False


@dataclass(frozen=True, slots=True)
class Writes:
    """A node that writes. target: in words. kafka: to topics. topic: the one topic, if it is one.

    formats: None where types say them: of internal topics. constant: columns that are the same for all rows,
    which the sink fills in itself.
    """

    target: str
    kafka: bool = True
    topic: str | None = None
    formats: Formats | None = None
    constant: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Facts:
    """A node as the planner and the compiler see it.

    part: the node's work in a query. functions: the Python functions among its expressions. own_python:
    other Python of the node, in a word. rows_of: the node whose rows these are, key by key; None where keys
    are new.
    """

    part: Reads | Operation | State | Writes
    functions: tuple[PythonFunction, ...] = ()
    own_python: str | None = None
    rows_of: Node | None = None

    @property
    def reads(self) -> Reads | None:
        return self.part if isinstance(self.part, Reads) else None

    @property
    def state(self) -> State | None:
        return self.part if isinstance(self.part, State) else None

    @property
    def writes(self) -> Writes | None:
        return self.part if isinstance(self.part, Writes) else None

    @property
    def python(self) -> str | None:
        """The first thing of the node that is Python, in a word; None for a node that needs none."""
        if self.functions:
            return self.functions[0].name
        if self.own_python is not None:
            return self.own_python
        if isinstance(self.part, Reads | Writes) and self.part.formats is not None:
            for each in self.part.formats:
                if not each.native:
                    return f"the format {each.describe()}"
        return None


@dataclass(frozen=True, slots=True)
class NodeText:
    """A node in words.

    operation: in a word or two. detail: the difference from others of its kind, in few words, or nothing.
    what: both in full. state: of stateful nodes.
    """

    operation: str
    detail: str
    what: str
    state: StateText | None = None


class Node(Protocol):
    """One node of a topology: a frozen dataclass, equal to itself alone."""

    @property
    def name(self) -> str: ...

    @property
    def table(self) -> bool:
        """Whether its records are upserts of their keys, a null value a deletion."""
        ...

    @property
    def inputs(self) -> tuple[Node, ...]: ...

    def with_inputs(self, inputs: tuple[Node, ...], name: str | None = None) -> Node:
        """The same over other inputs, and under another name where one is given."""
        ...

    @property
    def facts(self) -> Facts: ...

    @property
    def text(self) -> NodeText: ...


def python_functions(*expressions: object) -> tuple[PythonFunction, ...]:
    """Those of the expressions that are Python functions, in their order."""
    return tuple(each for each in expressions if isinstance(each, PythonFunction))


def called(expression: object) -> str:
    """The name of a Python function, with a space before it; nothing for an expression."""
    return f" {expression.name}" if isinstance(expression, PythonFunction) else ""


def event_time_of(node: Node | None) -> EventTime | None:
    """How a stateful node waits for event time; None for others, and for no node."""
    state = None if node is None else node.facts.state
    return None if state is None else state.event_time
