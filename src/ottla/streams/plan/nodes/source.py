"""Sources: topics, global tables, and the internal topics that other queries of the application write."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ottla.streams.plan.node import (
    Facts,
    Formats,
    Node,
    NodeText,
    Reads,
    Start,
    Topics,
    called,
    python_functions,
)
from ottla.streams.plan.records import Expression


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """Records of topics. `table`: each is an upsert of its key, a null value a deletion."""

    name: str
    topics: Topics
    formats: Formats
    start: Start
    timestamp: Expression | None
    table: bool

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    def with_inputs(self, inputs: tuple[Node, ...], name: str | None = None) -> Source:
        return self

    @property
    def facts(self) -> Facts:
        # A table is needed whole, whatever time an application is told to begin at.
        reads = Reads(self.topics, self.formats, None if self.table else self.start)
        return Facts(reads, python_functions(self.timestamp))

    @property
    def text(self) -> NodeText:
        names = self.topics.names
        topics = (
            f"topic{'s' if len(names) > 1 else ''} {', '.join(names)}"
            if names
            else f"topics like {self.topics.pattern}"
        )
        as_table = " as a table" if self.table else ""
        formats = self.formats.in_words
        event_time = ""
        if self.timestamp is not None:
            event_time = f"; event time from the record{called(self.timestamp)}"
        what = f"reads {topics}{as_table} from {_start(self.start)}; {formats}{event_time}"
        return NodeText("table" if self.table else "stream", formats, what)


@dataclass(frozen=True, slots=True, eq=False)
class GlobalTable:
    """A whole topic as a table that every record may be joined with, on any key."""

    name: str
    topic: str
    formats: Formats

    table = True

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    def with_inputs(self, inputs: tuple[Node, ...], name: str | None = None) -> GlobalTable:
        return self

    @property
    def facts(self) -> Facts:
        return Facts(Reads(Topics((self.topic,)), self.formats, whole=True))

    @property
    def text(self) -> NodeText:
        formats = self.formats.in_words
        return NodeText("global table", formats, f"the whole topic {self.topic}, on every machine; {formats}")


@dataclass(frozen=True, slots=True, eq=False)
class Boundary:
    """The output of `origin`, which another query of the application writes to the internal topic `topic`."""

    name: str
    topic: str
    origin: Node

    @property
    def table(self) -> bool:
        return self.origin.table

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    def with_inputs(self, inputs: tuple[Node, ...], name: str | None = None) -> Boundary:
        return self

    @property
    def facts(self) -> Facts:
        return Facts(Reads(Topics((self.topic,))), rows_of=self.origin)

    @property
    def text(self) -> NodeText:
        return NodeText("table" if self.table else "stream", "", f"reads what {self.origin.name} wrote")


def _start(start: Start) -> str:
    if start.timestamp_ms is not None:
        return f"the first record since {_iso_time(start.timestamp_ms)}"
    return "the end" if start.latest else "the beginning"


def _iso_time(timestamp_ms: int) -> str:
    """Milliseconds since 1970 as UTC text, milliseconds only where there are any."""
    time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=timestamp_ms)
    parts = "milliseconds" if timestamp_ms % 1000 else "seconds"
    return time.isoformat(timespec=parts).replace("+00:00", "Z")
