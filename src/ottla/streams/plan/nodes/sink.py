"""Where records go: to topics, to other queries of the application, to sinks of Spark's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ottla.streams.plan.node import Facts, Formats, Node, NodeText, Writes, called, python_functions
from ottla.streams.plan.records import Expression

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


@dataclass(frozen=True, slots=True, eq=False)
class ToTopic:
    """Records into a topic; `topic` may be an expression that gives each record's topic.

    timestamp: gives each record's time, in place of the one that it has.
    """

    name: str
    input: Node
    topic: str | Expression
    formats: Formats
    partition: Expression | None = None
    timestamp: Expression | None = None

    table = False

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_inputs(self, inputs: tuple[Node, ...], name: str | None = None) -> ToTopic:
        return replace(self, input=inputs[0], name=name or self.name)

    @property
    def facts(self) -> Facts:
        topic = self.topic if isinstance(self.topic, str) else None
        constant = () if topic is None else ("topic",)
        if self.partition is None:
            constant = ("partition", *constant)
        target = topic or "the topic that each record names"
        writes = Writes(target, topic=topic, formats=self.formats, constant=constant)
        return Facts(writes, python_functions(self.topic, self.partition, self.timestamp))

    @property
    def text(self) -> NodeText:
        place = f"topic {self.topic}" if isinstance(self.topic, str) else "the topic that each record names"
        formats = self.formats.in_words
        time = "" if self.timestamp is None else f"; times from the record{called(self.timestamp)}"
        return NodeText("to", formats, f"writes {place}, exactly once; {formats}{time}")


@dataclass(frozen=True, slots=True, eq=False)
class ToInternalTopic:
    """The output of `input` into an internal topic, for other queries of the application."""

    name: str
    input: Node
    topic: str

    table = False

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_inputs(self, inputs: tuple[Node, ...], name: str | None = None) -> ToInternalTopic:
        return replace(self, input=inputs[0], name=name or self.name)

    @property
    def facts(self) -> Facts:
        return Facts(Writes(self.topic, topic=self.topic, constant=("partition", "topic")))

    @property
    def text(self) -> NodeText:
        return NodeText("to", "", "writes the internal topic, exactly once")


@dataclass(frozen=True, slots=True, eq=False)
class ToSpark:
    """Records to any of Spark's sinks: `writer` makes a writer of the frame (key, value, timestamp, …)."""

    name: str
    input: Node
    writer: Callable[[DataFrame], DataStreamWriter]

    table = False

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)

    def with_inputs(self, inputs: tuple[Node, ...], name: str | None = None) -> ToSpark:
        return replace(self, input=inputs[0], name=name or self.name)

    @property
    def facts(self) -> Facts:
        return Facts(Writes(f"sink {self.name}", kafka=False))

    @property
    def text(self) -> NodeText:
        return NodeText("to Spark", "", "writes a sink of Spark's: as often as that sink says")
