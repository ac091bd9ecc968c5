"""Stateful operators in plain Python, as nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ottla.streams.operators.operator import KeyedOperator
from ottla.streams.operators.windows import Windows
from ottla.streams.plan.node import EventTime, Facts, Node, NodeText, State, Windowed

if TYPE_CHECKING:
    from pyspark.sql.types import DataType


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


@dataclass(frozen=True, slots=True)
class KeyedOutput:
    """The records that an operator sends. same_rows: they are the rows of input 0, later."""

    key_type: OutputType
    value_type: OutputType
    table: bool
    same_rows: bool = False


@dataclass(frozen=True, slots=True)
class Grace:
    """An operator without windows that wants a watermark, so far behind event time."""

    grace_ms: int


@runtime_checkable
class ClosesWindows(Protocol):
    """An operator with windows that can send each of them once, when it is closed."""

    def sending_once(self) -> KeyedOperator: ...


@dataclass(frozen=True, slots=True, eq=False)
class Keyed:
    """A stateful operator in plain Python, run over the records of its inputs key by key.

    event_time: windows, or a grace, where event time matters: late records are dropped by the query's
    watermark.
    """

    name: str
    inputs: tuple[Node, ...]
    operator: KeyedOperator
    output: KeyedOutput
    event_time: Windows | Grace | None = None

    @property
    def table(self) -> bool:
        return self.output.table

    def with_inputs(self, inputs: tuple[Node, ...], name: str | None = None) -> Keyed:
        return replace(self, inputs=inputs, name=name or self.name)

    @property
    def facts(self) -> Facts:
        match self.event_time:
            case None | Grace():
                identity, windowed = {"windows": str(None)}, None
                event_time = None if self.event_time is None else EventTime(self.event_time.grace_ms, None)
            case windows:
                identity = {"windows": str(windows)}
                windowed = Windowed(
                    windows, self._sending_once if isinstance(self.operator, ClosesWindows) else None
                )
                # Sliding windows and sessions are kept as long again, for records that may join them.
                event_time = EventTime(windows.grace_ms, windows.grace_ms + 2 * windows.length_ms + 1)
        return Facts(
            State(identity, event_time, windowed, self.operator),
            own_python=type(self.operator).__name__,
            rows_of=self.inputs[0] if self.output.same_rows else None,
        )

    @property
    def text(self) -> NodeText:
        told = self.operator.described([each.name for each in self.inputs])
        return NodeText(told.operation, told.state.windows_in_short, told.what, told.state)

    def _sending_once(self, name: str) -> Keyed:
        assert isinstance(self.operator, ClosesWindows)
        return replace(self, name=name, operator=self.operator.sending_once())
