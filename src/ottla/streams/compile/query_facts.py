"""What a planned query tells before it runs: its mode, its event time, whether it can meet poison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ottla.pipeline.formats.primitives import Primitive, PrimitiveFormat
from ottla.pipeline.query.realtime import Mode, PlanFacts, Wanted, choose_mode
from ottla.streams.compile.native_aggregate import watermark_delay_ms
from ottla.streams.compile.native_join import join_delay_ms
from ottla.streams.operators.windows import HoppingWindows, SessionWindows, SlidingWindows, TumblingWindows
from ottla.streams.plan.planner import PlannedQuery
from ottla.streams.plan.topology import (
    GlobalJoin,
    Keyed,
    NativeAggregate,
    Node,
    Peek,
    Source,
    StreamJoin,
    ToSpark,
)


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
        python_functions=any(_runs_python(node) for node in query.nodes),
        exactly_once=exactly_once,
        kafka_to_kafka=not any(isinstance(sink, ToSpark) for sink in query.sinks),
        shuffles=any(isinstance(node, GlobalJoin) for node in query.nodes),
        repeated_source=len(topics) != len(set(topics)),
        source_partitions=source_partitions,
    )
    return choose_mode(facts, spark_version, wanted)


@dataclass(frozen=True, slots=True)
class EventTime:
    """How a node waits for event time, in ms.

    delay_ms: by how much its watermark is behind. horizon_ms: after which event time nothing that a record
    holds open is left; None: not known.
    """

    delay_ms: int
    horizon_ms: int | None


def event_time_of(node: Node | None) -> EventTime | None:
    """For stateful nodes that wait for event time; None for others."""
    match node:
        case NativeAggregate(windows=windows) if windows is not None:
            delay_ms = watermark_delay_ms(node)
            return EventTime(delay_ms, delay_ms + _length_ms(windows))
        case StreamJoin():
            return EventTime(join_delay_ms(node), 2 * join_delay_ms(node) + 1)
        case Keyed(windows=windows) if windows is not None:
            # Sliding and session windows are kept for as long again, for what may still join them.
            return EventTime(windows.grace_ms, windows.grace_ms + 2 * _length_ms(windows) + 1)
        case Keyed(watermark_grace_ms=grace_ms) if grace_ms is not None:
            return EventTime(grace_ms, None)
    return None


def may_meet_poison(nodes: list[Node], names: set[str]) -> bool:
    """Whether one of these nodes, if it is among `names`, can fail on a record."""
    return any(node.name in names and (_can_fail_to_read(node) or bool(node.functions)) for node in nodes)


def _can_fail_to_read(node: Node) -> bool:
    if not isinstance(node, Source):
        return False
    plain = PrimitiveFormat(Primitive.BYTES)
    return node.key != plain or node.value != plain


def _value(node: Node, name: str) -> Any:
    return getattr(node, name)


def _runs_python(node: Node) -> bool:
    formats = (_value(node, name) for name in ("key", "value") if hasattr(node, name))
    reads = any(getattr(each, "native", True) is False for each in formats)
    return reads or isinstance(node, Peek | Keyed) or bool(node.functions)


def _length_ms(windows: TumblingWindows | HoppingWindows | SlidingWindows | SessionWindows) -> int:
    match windows:
        case TumblingWindows(size_ms=length_ms) | HoppingWindows(size_ms=length_ms):
            return length_ms
        case SlidingWindows(difference_ms=length_ms) | SessionWindows(gap_ms=length_ms):
            return length_ms
