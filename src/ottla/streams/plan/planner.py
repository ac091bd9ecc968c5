"""Cut a topology into Spark queries, joined by internal topics.

A Spark query holds at most one stateful operator here, with the stateless nodes before and behind it.
So a stateful node is *materialized*, that is written to an internal topic that others read, when
- another stateful node reads it, at whatever distance,
- more than one node reads it, or a merge does, or
- it can be asked by key while the application runs.
Any other stateful node is one query up to its sink. Each sink is a query: several in one would read their
source as often, because Spark scans a source once for each way that leads to it.

Kafka Streams' repartition topics are not needed before a grouping: Spark shuffles. Internal topics are named
`<application>-<node>-changelog` and compacted for tables, `<application>-<node>-repartition` for streams.
A cut is made by replacing nodes with `Boundary`: nodes are rebuilt, never changed.
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.streams.plan.node import Facts, Node, Operation, Reads
from ottla.streams.plan.nodes.sink import ToInternalTopic
from ottla.streams.plan.nodes.source import Boundary
from ottla.streams.plan.topology import Topology, consumers, in_order


@dataclass(frozen=True, slots=True)
class PlannedQuery:
    """One Spark query: its sinks, and by them all of it. Its name is unique in the application."""

    name: str
    sinks: tuple[Node, ...]

    @property
    def nodes(self) -> list[Node]:
        return in_order(list(self.sinks))

    @property
    def stateful(self) -> Node | None:
        """The one stateful node, or None."""
        return next((node for node in self.nodes if node.facts.state is not None), None)

    @property
    def sources(self) -> list[Node]:
        """The nodes that read topics as streams."""
        return [node for node in self.nodes if (reads := node.facts.reads) is not None and not reads.whole]

    @property
    def global_tables(self) -> list[Node]:
        """The nodes that read topics whole, for the records to be joined with."""
        return [node for node in self.nodes if (reads := node.facts.reads) is not None and reads.whole]

    @property
    def topics_read(self) -> list[str]:
        """Names of topics that are read as streams; patterns are not among them."""
        names = [name for node in self.sources for name in reads_of(node).topics.names]
        return list(dict.fromkeys(names))


@dataclass(frozen=True, slots=True)
class Plan:
    """All queries of an application, those that write before those that read it."""

    application: str
    queries: tuple[PlannedQuery, ...]
    materialized: dict[str, ToInternalTopic]
    """By the name of a materialized table: the internal topic it is read from."""

    @property
    def internal_topics(self) -> list[ToInternalTopic]:
        return [sink for query in self.queries for sink in query.sinks if isinstance(sink, ToInternalTopic)]


def plan(topology: Topology) -> Plan:
    """The queries of a topology."""
    nodes = topology.nodes()
    readers = consumers(nodes)
    asked = {id(each.node): each.name for each in topology.materialized}
    cut: dict[int, Boundary] = {}
    for node in nodes:
        reading = readers[id(node)]
        if (
            node.facts.state is not None
            and (len(reading) > 1 or _leads_to_state(node, readers) or id(node) in asked)
        ) or id(node) in asked:
            cut[id(node)] = _boundary(topology.name, node)
    rebuilt: dict[int, Node] = {}

    def behind(node: Node) -> Node:
        """The node as others read it."""
        return cut[id(node)] if id(node) in cut else inside(node)

    def inside(node: Node) -> Node:
        """The node with its inputs cut."""
        if id(node) not in rebuilt:
            rebuilt[id(node)] = _with_inputs(node, tuple(behind(each) for each in node.inputs))
        return rebuilt[id(node)]

    queries: list[PlannedQuery] = []
    internal: dict[int, ToInternalTopic] = {}
    for node in nodes:
        if (boundary := cut.get(id(node))) is not None:
            sink = ToInternalTopic(boundary.topic, inside(node), boundary.topic)
            internal[id(node)] = sink
            queries.append(PlannedQuery(node.name, (sink,)))
    queries += [PlannedQuery(sink.name, (inside(sink),)) for sink in topology.sinks]
    materialized = {each.name: internal[id(each.node)] for each in topology.materialized}
    return Plan(topology.name, tuple(queries), materialized)


def _leads_to_state(node: Node, readers: dict[int, list[Node]]) -> bool:
    return any(
        _stands_apart(reader.facts) or _leads_to_state(reader, readers) for reader in readers[id(node)]
    )


def _stands_apart(facts: Facts) -> bool:
    """Whether a query that holds the node holds no stateful node before it."""
    return facts.state is not None or (isinstance(facts.part, Operation) and facts.part.apart)


def reads_of(node: Node) -> Reads:
    """How a source reads its topics."""
    reads = node.facts.reads
    assert reads is not None, f"{node.name} reads no topic"
    return reads


def _boundary(application: str, node: Node) -> Boundary:
    kind = "changelog" if node.table else "repartition"
    return Boundary(f"{node.name}-{kind}", f"{application}-{node.name}-{kind}", node)


def _with_inputs(node: Node, inputs: tuple[Node, ...]) -> Node:
    if all(new is old for new, old in zip(inputs, node.inputs, strict=True)):
        return node
    return node.with_inputs(inputs)
