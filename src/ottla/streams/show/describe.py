"""Say what a topology is: its queries, what each reads, does, keeps and writes. Needs no Spark and no broker.

`described` gives it as data; `describe` writes that as text, `as_json` as JSON and `mermaid` as a diagram for
READMEs (`picture.py` draws it). All of them are the same for the same topology, so they may be kept in a
repository and compared.

Where an operation runs: *native* ones are Spark's own expressions and need no Python; *Python* ones are
called once a record; *vectorized* ones once a batch of columns.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ottla.pipeline.query.realtime import ModeKind, Wanted
from ottla.streams.compile.query_facts import mode_of
from ottla.streams.operators.aggregate import StreamAggregate
from ottla.streams.operators.aggregation import Aggregate, Aggregation, Count, Reduce
from ottla.streams.operators.foreign_key_join import Matches, Resolution, Subscriptions
from ottla.streams.operators.grouped_table import GroupedTableAggregate
from ottla.streams.operators.join_kind import JoinKind
from ottla.streams.operators.processor import ProcessorOperator
from ottla.streams.operators.session_aggregate import SessionAggregate
from ottla.streams.operators.sliding_aggregate import SlidingAggregate
from ottla.streams.operators.stream_table_join import StreamTableJoin
from ottla.streams.operators.suppress import UntilTimeLimit
from ottla.streams.operators.table_changes import TableChanges
from ottla.streams.operators.table_table_join import TableTableJoin
from ottla.streams.operators.windowed_aggregate import WindowedAggregate
from ottla.streams.operators.windows import (
    HoppingWindows,
    JoinWindows,
    SessionWindows,
    SlidingWindows,
    TumblingWindows,
    Windows,
)
from ottla.streams.plan.planner import Plan, PlannedQuery, plan
from ottla.streams.plan.records import Expression, PythonFunction
from ottla.streams.plan.topology import (
    Boundary,
    Emit,
    Filter,
    FlatMap,
    GlobalJoin,
    GlobalTable,
    Keyed,
    Map,
    Merge,
    NativeAggregate,
    Node,
    Peek,
    Source,
    Start,
    StreamJoin,
    ToInternalTopic,
    Topology,
    ToSpark,
    ToTopic,
)


class Kind(Enum):
    """What a node is to a reader of the topology."""

    SOURCE = "source"
    OPERATION = "operation"
    STATE = "stateful operation"
    SINK = "sink"


class Runs(Enum):
    """Where a node's work is done."""

    NATIVE = "native"
    PYTHON = "Python"
    VECTORIZED = "Python, vectorized"


@dataclass(frozen=True, slots=True)
class DescribedState:
    """What a stateful node remembers.

    what: of which things one entry is kept. kept: until when. windows: None without windows. emits: when
    results go on.
    """

    what: str
    kept: str
    windows: str | None
    emits: str


@dataclass(frozen=True, slots=True)
class DescribedNode:
    """One node of a query. `runs` is None where there is nothing to run: sources and sinks.

    operation: in a word or two. detail: what tells it from others of its kind, in few words, or nothing.
    what: both in full.
    """

    name: str
    kind: Kind
    operation: str
    detail: str
    what: str
    inputs: tuple[str, ...]
    runs: Runs | None
    state: DescribedState | None
    reads: tuple[str, ...]
    writes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DescribedQuery:
    """One Spark query. `mode` is what it can run in, `reason` why."""

    name: str
    mode: str
    reason: str
    nodes: tuple[DescribedNode, ...]


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A topic that queries of the application hand records over in."""

    name: str
    compacted: bool
    written_by: str
    read_by: tuple[str, ...]
    asked_as: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DescribedTopology:
    """All of an application, queries that write before those that read it."""

    application: str
    queries: tuple[DescribedQuery, ...]
    internal_topics: tuple[InternalTopic, ...]


def described(topology: Topology) -> DescribedTopology:
    """The topology as data."""
    planned = plan(topology)
    queries = tuple(_query(each) for each in planned.queries)
    return DescribedTopology(topology.name, queries, _internal_topics(planned, queries))


# -- as text -----------------------------------------------------------------------------------------------


def describe(topology: Topology) -> str:
    """The topology as text, for people."""
    whole = described(topology)
    counts = [_counted(len(whole.queries), "query", "queries")]
    if whole.internal_topics:
        counts.append(_counted(len(whole.internal_topics), "internal topic", "internal topics"))
    lines = [f"{whole.application}: {', '.join(counts)}"]
    for query in whole.queries:
        lines += ["", f"query {query.name}: {query.mode} ({query.reason})", *_table(_rows(query))]
    if whole.internal_topics:
        lines += ["", "internal topics", *_table([(t.name, "", _use(t)) for t in whole.internal_topics])]
    return "\n".join(lines) + "\n"


def as_json(topology: Topology) -> str:
    """The topology as JSON, for programs."""
    return json.dumps(dataclasses.asdict(described(topology)), default=_enum_value, indent=2) + "\n"


def mermaid(topology: Topology) -> str:
    """The topology as a Mermaid flowchart, which GitHub and most wikis draw."""
    whole = described(topology)
    topics = {topic: f"t{number}" for number, topic in enumerate(topics_of(whole))}
    lines = ["flowchart TB"]
    between = []
    for number, query in enumerate(whole.queries):
        nodes = {node.name: f"q{number}n{position}" for position, node in enumerate(query.nodes)}
        lines.append(f"  subgraph q{number}[{_quoted(query.name)}]")
        for node in query.nodes:
            label = node.name if node.operation in (node.name, "to") else f"{node.name}<br/>{node.operation}"
            opening, closing = _MERMAID_SHAPES[node.kind]
            shape = f"{opening}{_quoted(label)}{closing}:::{node.kind.name.lower()}"
            lines.append(f"    {nodes[node.name]}{shape}")
            between += [f"  {topics[topic]} --> {nodes[node.name]}" for topic in node.reads]
            between += [f"  {nodes[node.name]} --> {topics[topic]}" for topic in node.writes]
        for node in query.nodes:
            lines += [f"    {nodes[each]} --> {nodes[node.name]}" for each in node.inputs]
        lines.append("  end")
    lines += [f"  {identifier}[({_quoted(topic)})]:::topic" for topic, identifier in topics.items()]
    return "\n".join([*lines, *between, *_MERMAID_CLASSES]) + "\n"


def topics_of(whole: DescribedTopology) -> list[str]:
    """All topics, patterns and targets outside that its nodes read and write, each once."""
    nodes = [node for query in whole.queries for node in query.nodes]
    return list(dict.fromkeys(topic for node in nodes for topic in (*node.reads, *node.writes)))


_MERMAID_SHAPES = {
    Kind.SOURCE: ("([", "])"),
    Kind.OPERATION: ("[", "]"),
    Kind.STATE: ("[[", "]]"),
    Kind.SINK: ("([", "])"),
}
_MERMAID_CLASSES = (
    "  classDef source fill:#cfe8d5,stroke:#3f8f5b,color:#10301c",
    "  classDef operation fill:#e3e7ee,stroke:#7b8798,color:#1d2530",
    "  classDef state fill:#fbe3b5,stroke:#b9842a,color:#3a2a08",
    "  classDef sink fill:#cfe0fa,stroke:#4673b8,color:#10233f",
    "  classDef topic fill:#e6d9f5,stroke:#7d57b0,color:#2a1745",
)


def _rows(query: DescribedQuery) -> list[tuple[str, str, str]]:
    rows = []
    for node in query.nodes:
        arrow = f"<- {', '.join(node.inputs)}" if node.inputs else ""
        rows.append((node.name, arrow, node.what + (f"; {node.runs.value}" if node.runs else "")))
        if node.state is not None:
            if node.state.windows is not None:
                rows.append(("", "", node.state.windows))
            rows.append(("", "", f"keeps {node.state.what}, {node.state.kept}"))
            rows.append(("", "", node.state.emits))
    return rows


def _table(rows: Sequence[tuple[str, str, str]]) -> list[str]:
    names = max(len(name) for name, _, _ in rows)
    arrows = max(len(arrow) for _, arrow, _ in rows)
    middle = arrows + 2 if arrows else 0
    return [f"  {name:{names}}  {arrow:{middle}}{what}".rstrip() for name, arrow, what in rows]


def _use(topic: InternalTopic) -> str:
    parts = ["compacted" if topic.compacted else "not compacted", f"written by {topic.written_by}"]
    if topic.read_by:
        parts.append(f"read by {', '.join(topic.read_by)}")
    if topic.asked_as:
        parts.append(f"asked as {', '.join(topic.asked_as)}")
    return "; ".join(parts)


# -- queries and nodes -------------------------------------------------------------------------------------


def _query(query: PlannedQuery) -> DescribedQuery:
    nodes = query.nodes
    mode, reason = _mode(query)
    return DescribedQuery(query.name, mode, reason, tuple(_node(node) for node in nodes))


def _mode(query: PlannedQuery) -> tuple[str, str]:
    if (stateful := query.stateful) is not None:
        return "micro-batches", f"{stateful.name} keeps state"
    for node in query.nodes:
        if (python := _python_in(node)) is not None:
            return "micro-batches", f"{node.name} calls Python: {python}"
        if isinstance(node, GlobalJoin):
            return "micro-batches", f"{node.name} joins a global table"
        if isinstance(node, ToSpark):
            return "micro-batches", f"{node.name} is a sink of Spark's"
    mode = mode_of(query, _NEWEST_SPARK, Wanted.AUTO, exactly_once=False, source_partitions=None)
    if mode.kind is ModeKind.REAL_TIME:
        return "micro-batches", "for exactly once; with at_least_once in real time, on Spark 4.1 and newer"
    return "micro-batches", mode.reason


_NEWEST_SPARK = "4.1"
"""The mode that a query can have at best: what the installed Spark has, only a start knows."""


def _python_in(node: Node) -> str | None:
    """What of a node is Python, or None."""
    for function in node.functions:
        return function.name
    match node:
        case Peek():
            return getattr(node.action, "__name__", "an action")
        case Source() | ToTopic() | GlobalTable():
            for each in (node.key, node.value):
                if not each.native:
                    return f"the format {each.describe()}"
    return None


def _node(node: Node) -> DescribedNode:
    kind = Kind.OPERATION
    detail = ""
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    state: DescribedState | None = None
    match node:
        case Source():
            kind, operation, what = Kind.SOURCE, "table" if node.table else "stream", _source(node)
            reads = node.topics or (f"topics like {node.pattern}",)
            detail = _formats(node.key, node.value)
        case GlobalTable():
            kind, operation, reads = Kind.SOURCE, "global table", (node.topic,)
            detail = _formats(node.key, node.value)
            what = f"the whole topic {node.topic}, on every machine; {detail}"
        case Boundary():
            kind, operation, reads = Kind.SOURCE, "table" if node.table else "stream", (node.topic,)
            what = f"reads what {node.origin.name} wrote"
        case Filter():
            operation, detail = "filter", _called(node.predicate).strip()
            holds = "does not hold" if node.negated else "holds"
            rest = ", others become tombstones" if node.table else ""
            what = f"records for which the predicate{_called(node.predicate)} {holds}{rest}"
        case Map():
            operation, what = "map", _map(node)
            detail = what if what.startswith("new") else "to a table" if node.makes_table else "to a stream"
        case FlatMap():
            operation, detail = "flat map", _called(node.records).strip()
            of = "records" if node.with_keys else "values"
            what = f"any number of {of} for each record{_called(node.records)}"
        case Merge():
            operation, what = "merge", "the records of all its inputs"
        case Peek():
            operation = "peek"
            what = f"{getattr(node.action, '__name__', 'an action')} looks at each record"
        case NativeAggregate():
            kind, operation = Kind.STATE, "aggregate"
            what, state = _native_aggregate(node)
            detail = _of_windows(state) or "by key"
        case StreamJoin():
            kind, operation = Kind.STATE, f"{node.kind.value} join"
            what, state = _stream_join(node)
            detail = _of_windows(state)
        case GlobalJoin():
            operation = f"{node.kind.value} join"
            what = f"each record with its row of {node.global_table.name}{_called(node.key)}"
        case Keyed():
            kind = Kind.STATE
            operation, what, state = _keyed(node)
            detail = _of_windows(state)
        case ToTopic():
            kind, operation = Kind.SINK, "to"
            target = node.topic if isinstance(node.topic, str) else "the topic that each record names"
            writes = (target,)
            place = f"topic {target}" if isinstance(node.topic, str) else target
            detail = _formats(node.key, node.value)
            what = f"writes {place}, exactly once; {detail}"
        case ToInternalTopic():
            kind, operation, writes = Kind.SINK, "to", (node.topic,)
            what = "writes the internal topic, exactly once"
        case ToSpark():
            kind, operation = Kind.SINK, "to Spark"
            what, writes = "writes a sink of Spark's: as often as that sink says", (f"sink {node.name}",)
    inputs = tuple(each.name for each in node.inputs)
    runs = None if kind in (Kind.SOURCE, Kind.SINK) else _runs(node)
    return DescribedNode(node.name, kind, operation, detail, what, inputs, runs, state, reads, writes)


def _of_windows(state: DescribedState) -> str:
    return (state.windows or "").partition(", closed")[0]


def _runs(node: Node) -> Runs:
    if isinstance(node, Keyed | Peek):
        return Runs.PYTHON
    functions = node.functions
    if not functions:
        return Runs.NATIVE
    return Runs.VECTORIZED if all(each.vectorized for each in functions) else Runs.PYTHON


def _called(expression: Expression | None) -> str:
    return f" {expression.name}" if isinstance(expression, PythonFunction) else ""


def _source(source: Source) -> str:
    topics = (
        f"topics like {source.pattern}"
        if source.pattern is not None
        else f"topic{'s' if len(source.topics) > 1 else ''} {', '.join(source.topics)}"
    )
    as_table = " as a table" if source.table else ""
    event_time = (
        "" if source.timestamp is None else f"; event time from the record{_called(source.timestamp)}"
    )
    formats = _formats(source.key, source.value)
    return f"reads {topics}{as_table} from {_start(source.start)}; {formats}{event_time}"


def _start(start: Start) -> str:
    if start.timestamp_ms is not None:
        return f"the first record since {iso_time(start.timestamp_ms)}"
    return "the end" if start.latest else "the beginning"


def iso_time(timestamp_ms: int) -> str:
    """Milliseconds since 1970 as UTC text, milliseconds only where there are any."""
    from datetime import UTC, datetime, timedelta

    time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=timestamp_ms)
    return time.isoformat(timespec="milliseconds" if timestamp_ms % 1000 else "seconds").replace(
        "+00:00", "Z"
    )


def _formats(key: Any, value: Any) -> str:
    return f"key {key.describe()}, value {value.describe()}"


def _map(node: Map) -> str:
    changed = [
        f"{part}{_called(expression)}"
        for part, expression in (("key", node.key), ("value", node.value), ("headers", node.headers))
        if expression is not None
    ]
    if node.both is not None:
        changed = [f"key and value {node.both.name}"]
    if changed:
        return f"new {', '.join(changed)}"
    if node.makes_table:
        return "the records as changes of a table"
    return (
        "the changes as a stream" if node.input.table and not node.keeps_table else "the records as they are"
    )


def _native_aggregate(node: NativeAggregate) -> tuple[str, DescribedState]:
    what = "counts records" if node.aggregates is None else "Spark's aggregates"
    by = "key" if node.windows is None else "key and window"
    return f"{what} by {by}", _state_of_windows(f"one row for each {by}", node.windows, node.emit)


def _state_of_windows(what: str, windows: Windows | None, emit: Emit) -> DescribedState:
    if windows is None:
        return DescribedState(what, "for ever", None, _EMITS_CHANGES)
    return DescribedState(
        what,
        "until the window is closed",
        windows_text(windows),
        _EMITS_CHANGES if emit is Emit.CHANGES else _EMITS_CLOSED,
    )


def _stream_join(node: StreamJoin) -> tuple[str, DescribedState]:
    kept = {JoinKind.INNER: "pairs", JoinKind.LEFT: "pairs, and left records without a partner"}.get(
        node.kind, "pairs, and records of both sides without a partner"
    )
    late = "" if node.kind is JoinKind.INNER else "; records without a partner once their window is closed"
    state = DescribedState(
        "the records of both streams",
        "until none can meet them any more",
        _join_windows(node.windows),
        f"sends each pair at once{late}",
    )
    return f"{kept} of {node.left.name} and {node.right.name}, by key", state


def _join_windows(windows: JoinWindows) -> str:
    if windows.before_ms == windows.after_ms:
        reach = f"records at most {duration(windows.before_ms)} apart"
    else:
        reach = (
            f"right records at most {duration(windows.before_ms)} older"
            f" or {duration(windows.after_ms)} younger than the left one"
        )
    return f"{reach}, {_grace(windows.grace_ms)}"


def windows_text(windows: Windows) -> str:
    """Windows in words, and when they close."""
    match windows:
        case TumblingWindows():
            text = f"tumbling windows of {duration(windows.size_ms)}"
        case HoppingWindows():
            text = f"hopping windows of {duration(windows.size_ms)}, one every {duration(windows.advance_ms)}"
        case SlidingWindows():
            text = f"sliding windows of records at most {duration(windows.difference_ms)} apart"
        case SessionWindows():
            text = f"sessions that end after {duration(windows.gap_ms)} of silence"
    return f"{text}, {_grace(windows.grace_ms)}"


def _grace(grace_ms: int) -> str:
    if not grace_ms:
        return "closed when event time has passed the end"
    return f"closed when event time has passed the end by {duration(grace_ms)}"


def duration(milliseconds: int) -> str:
    """A length of time in the units that people use: `1 h 30 min`, `1.5 s`, `250 ms`."""
    parts = []
    rest = milliseconds
    for unit, length in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000)):
        count, rest = divmod(rest, length)
        if count:
            parts.append(f"{count} {unit}")
    if rest >= 1_000:
        parts.append(f"{rest / 1_000:g} s")
    elif rest or not parts:
        parts.append(f"{rest} ms" if rest else "0 s")
    return " ".join(parts)


_EMITS_CHANGES = "sends, after each batch, the new value of each key that it changed"
_EMITS_CLOSED = "sends each window's value once, when the window is closed"


def _keyed(node: Keyed) -> tuple[str, str, DescribedState]:
    """Operation, what it does, state."""
    names = [each.name for each in node.inputs]
    changes = "sends a record for each change"
    for_ever = "for ever"
    match node.operator:
        case WindowedAggregate() | SlidingAggregate() | SessionAggregate() as operator:
            emit = Emit.WINDOW_CLOSE if operator.emit_on_close else Emit.CHANGES
            what = f"{_aggregation(operator.aggregation)} by key and window"
            one = "one value for each key and window"
            return "aggregate", what, _state_of_windows(one, node.windows or operator.windows, emit)
        case StreamAggregate() as operator:
            kept = DescribedState("one value for each key", for_ever, None, _EMITS_CHANGES)
            return "aggregate", f"{_aggregation(operator.aggregation)} by key", kept
        case GroupedTableAggregate() as operator:
            kept = DescribedState("one value for each key", for_ever, None, _EMITS_CHANGES)
            return (
                "aggregate",
                f"{_aggregation(operator.aggregation)} by group, rows that left taken out",
                kept,
            )
        case StreamTableJoin() as operator:
            kind = "left join" if operator.left_join else "inner join"
            each = "" if operator.left_join else ", those without a row left out"
            moment = "at that moment"
            if operator.grace_ms is not None:
                moment = f"of its own time, {duration(operator.grace_ms)} of event time later"
            what = f"each record of {names[-1]} with the row of {names[0]} {moment}{each}"
            return (
                kind,
                what,
                DescribedState(f"the rows of {names[0]}", for_ever, None, "sends each record once"),
            )
        case TableTableJoin() as operator:
            what = f"rows of {names[0]} and {names[-1]} with the same key"
            state = DescribedState("the rows of both tables", for_ever, None, changes)
            return f"{operator.kind.name.lower()} join", what, state
        case Subscriptions():
            state = DescribedState("the foreign key of each row", for_ever, None, changes)
            return "foreign-key join", "tells by foreign key which rows ask for it", state
        case Matches():
            state = DescribedState(f"the rows of {names[0]} and who asks for them", for_ever, None, changes)
            return "foreign-key join", f"answers with the rows of {names[0]}", state
        case Resolution():
            state = DescribedState("what each row waits for", for_ever, None, changes)
            return "foreign-key join", "leaves out answers that are out of date", state
        case TableChanges():
            state = DescribedState("each row as it was grouped last", for_ever, None, changes)
            return "group", "takes a changed row out of its old group and puts it into its new one", state
        case UntilTimeLimit() as operator:
            bound = f", at most {operator.max_records} rows" if operator.max_records is not None else ""
            what = f"holds changes of a row back for {duration(operator.limit_ms)}{bound}"
            return (
                "suppress",
                what,
                DescribedState("the last change of each row", "until it is sent", None, changes),
            )
        case ProcessorOperator() as operator:
            stores = ", ".join(operator.processor.stores)
            keeps = f"the stores {stores}" if stores else "nothing"
            until = "for as long as it says"
            state = DescribedState(keeps, until, None, "sends what it forwards")
            return "process", type(operator.processor).__name__, state
    state = DescribedState("its own stores", "for as long as it says", None, changes)
    return "process", _words(type(node.operator).__name__), state


def _aggregation(aggregation: Aggregation) -> str:
    """`counts records`, or which Python function makes the aggregate."""
    match aggregation:
        case Count():
            return "counts records"
        case Reduce():
            return f"reduces records by {_function_name(aggregation.function)}"
        case Aggregate():
            return f"aggregates records by {_function_name(aggregation.adder)}"
    return _words(type(aggregation).__name__)


def _function_name(function: Callable[..., Any]) -> str:
    while isinstance(function, functools.partial):
        function = next((each for each in function.args if callable(each)), function.func)
    name = getattr(function, "__name__", type(function).__name__)
    return "a function" if name == "<lambda>" else str(name)


def _words(name: str) -> str:
    """`TableTableJoin` as `table table join`."""
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip()


def _internal_topics(planned: Plan, queries: Sequence[DescribedQuery]) -> tuple[InternalTopic, ...]:
    found = []
    for query, origin in zip(queries, planned.queries, strict=True):
        for sink in origin.sinks:
            if not isinstance(sink, ToInternalTopic):
                continue
            readers = [q.name for q in queries if any(sink.topic in node.reads for node in q.nodes)]
            asked = [name for name, each in planned.materialized.items() if each.topic == sink.topic]
            found.append(
                InternalTopic(sink.topic, sink.input.table, query.name, tuple(readers), tuple(asked))
            )
    return tuple(found)


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def _enum_value(value: object) -> str:
    assert isinstance(value, Enum), value
    return str(value.value)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', "#quot;") + '"'
