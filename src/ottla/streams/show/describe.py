"""Describe a topology: its queries, and the topics, the work and the state of each. Needs no Spark, no
broker.

`described` gives it as data; `describe` writes that as text, `as_json` as JSON and `mermaid` as a diagram for
READMEs (`picture.py` draws it). All of them are the same for the same topology, so they may be kept in a
repository and compared.

Where an operation runs: *native* ones are Spark's own expressions and need no Python; *Python* ones are
called once a record; *vectorized* ones once a batch of columns.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from ottla.pipeline.query.realtime import ModeKind, Wanted
from ottla.streams.compile.query_facts import mode_of
from ottla.streams.operators.described import StateText
from ottla.streams.plan.node import Facts, Node, Operation, Reads, State, Writes
from ottla.streams.plan.nodes.sink import ToInternalTopic
from ottla.streams.plan.planner import Plan, PlannedQuery, plan
from ottla.streams.plan.topology import Topology


class Kind(Enum):
    """The kind of a node, as a reader of the description sees it."""

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
class DescribedNode:
    """One node of a query. `runs` is None where there is nothing to run: sources and sinks.

    operation: in a word or two. detail: the difference from others of its kind, in few words, or nothing.
    what: both in full. The JSON has these fields, so this is a plain record.
    """

    name: str
    kind: Kind
    operation: str
    detail: str
    what: str
    inputs: tuple[str, ...]
    runs: Runs | None
    state: StateText | None
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
        facts = node.facts
        if facts.python is not None:
            return "micro-batches", f"{node.name} calls Python: {facts.python}"
        if any(each.facts.reads is not None and each.facts.reads.whole for each in node.inputs):
            return "micro-batches", f"{node.name} joins a global table"
        if facts.writes is not None and not facts.writes.kafka:
            return "micro-batches", f"{node.name} is a sink of Spark's"
    mode = mode_of(query, _NEWEST_SPARK, Wanted.AUTO, exactly_once=False, source_partitions=None)
    if mode.kind is ModeKind.REAL_TIME:
        return "micro-batches", "for exactly once; with at_least_once in real time, on Spark 4.1 and newer"
    return "micro-batches", mode.reason


_NEWEST_SPARK = "4.1"
"""The mode that a query can have at best: what the installed Spark has, only a start knows."""


def _node(node: Node) -> DescribedNode:
    facts, text = node.facts, node.text
    reads = () if facts.reads is None else facts.reads.topics.in_words
    writes = () if facts.writes is None else (facts.writes.target,)
    inputs = tuple(each.name for each in node.inputs)
    return DescribedNode(
        node.name,
        _kind(facts),
        text.operation,
        text.detail,
        text.what,
        inputs,
        _runs(facts),
        text.state,
        reads,
        writes,
    )


def _kind(facts: Facts) -> Kind:
    match facts.part:
        case Reads():
            return Kind.SOURCE
        case Operation():
            return Kind.OPERATION
        case State():
            return Kind.STATE
        case Writes():
            return Kind.SINK


def _runs(facts: Facts) -> Runs | None:
    if isinstance(facts.part, Reads | Writes):
        return None
    if facts.python is None:
        return Runs.NATIVE
    vectorized = facts.own_python is None and all(each.vectorized for each in facts.functions)
    return Runs.VECTORIZED if vectorized else Runs.PYTHON


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
