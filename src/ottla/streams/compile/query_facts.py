"""Facts of a planned query before it runs: its mode, and whether it can meet poison records."""

from __future__ import annotations

from ottla.pipeline.formats.primitives import Primitive, PrimitiveFormat
from ottla.pipeline.query.realtime import Mode, PlanFacts, Wanted, choose_mode
from ottla.streams.plan.node import Node
from ottla.streams.plan.planner import PlannedQuery


def mode_of(
    query: PlannedQuery,
    spark_version: str,
    wanted: Wanted,
    *,
    exactly_once: bool,
    source_partitions: int | None,
) -> Mode:
    """How the query runs and why. Raises ModeError when real-time mode is asked for and can't be."""
    topics = query.topics_read
    facts = PlanFacts(
        stateful=query.stateful is not None,
        python_functions=any(node.facts.python is not None for node in query.nodes),
        exactly_once=exactly_once,
        kafka_to_kafka=all(sink.facts.writes is not None and sink.facts.writes.kafka for sink in query.sinks),
        shuffles=bool(query.global_tables),
        repeated_source=len(topics) != len(set(topics)),
        source_partitions=source_partitions,
    )
    return choose_mode(facts, spark_version, wanted)


def may_meet_poison(nodes: list[Node], names: set[str]) -> bool:
    """Whether one of these nodes, if it is among `names`, can fail on a record."""
    return any(node.name in names and (_can_fail_to_read(node) or node.facts.functions) for node in nodes)


def _can_fail_to_read(node: Node) -> bool:
    """Whether a source has a format that may refuse bytes. A global table's rows fail the query instead."""
    reads = node.facts.reads
    if reads is None or reads.whole or reads.formats is None:
        return False
    plain = PrimitiveFormat(Primitive.BYTES)
    return any(each != plain for each in reads.formats)
