"""Joins that Spark does itself: of two streams in time, and of a stream with a global table."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ottla.streams.operators.described import StateText
from ottla.streams.operators.join_kind import JoinKind
from ottla.streams.operators.windows import JoinWindows
from ottla.streams.plan.node import (
    EventTime,
    Facts,
    Node,
    NodeText,
    Operation,
    State,
    called,
    python_functions,
)
from ottla.streams.plan.nodes.source import GlobalTable
from ottla.streams.plan.records import Expression, Joiner

_KEPT = {JoinKind.INNER: "pairs", JoinKind.LEFT: "pairs, and left records without a partner"}


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

    def with_inputs(self, inputs: tuple[Node, ...], name: str | None = None) -> StreamJoin:
        return replace(self, left=inputs[0], right=inputs[1], name=name or self.name)

    @property
    def watermark_delay_ms(self) -> int:
        """By how much the watermark is behind the largest event time of the slower side."""
        return self.windows.before_ms + self.windows.after_ms + self.windows.grace_ms

    @property
    def facts(self) -> Facts:
        delay_ms = self.watermark_delay_ms
        identity = {"operator": f"{self.kind.value} join of streams", "windows": str(self.windows)}
        return Facts(State(identity, EventTime(delay_ms, 2 * delay_ms + 1)))

    @property
    def text(self) -> NodeText:
        kept = _KEPT.get(self.kind, "pairs, and records of both sides without a partner")
        late = (
            "" if self.kind is JoinKind.INNER else "; records without a partner once their window is closed"
        )
        state = StateText(
            "the records of both streams",
            "until none can meet them any more",
            self.windows.in_words,
            f"sends each pair at once{late}",
        )
        what = f"{kept} of {self.left.name} and {self.right.name}, by key"
        return NodeText(f"{self.kind.value} join", state.windows_in_short, what, state)


@dataclass(frozen=True, slots=True, eq=False)
class GlobalJoin:
    """Records of a stream with those of a global table; `key` gives the table's key for a record."""

    name: str
    stream: Node
    global_table: GlobalTable
    key: Expression
    kind: JoinKind
    joiner: Joiner | None

    table = False

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.stream, self.global_table)

    def with_inputs(self, inputs: tuple[Node, ...], name: str | None = None) -> GlobalJoin:
        return replace(self, stream=inputs[0], name=name or self.name)

    @property
    def facts(self) -> Facts:
        return Facts(Operation(), python_functions(self.key))

    @property
    def text(self) -> NodeText:
        what = f"each record with its row of {self.global_table.name}{called(self.key)}"
        return NodeText(f"{self.kind.value} join", "", what)
