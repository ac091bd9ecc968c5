"""Tables of windows: which aggregate a table's windows are of, and how each window is sent once.

The aggregate itself, asked for its last word, says it best: it knows which records are still to be counted.
Behind a filter or a map an operator holds the windows back (`UntilWindowCloses`), so that what the filter
takes out at the end is not sent at all, as with Kafka Streams' `suppress(untilWindowCloses())`.
"""

from __future__ import annotations

import dataclasses

from ottla.pipeline.streams.operators.session_aggregate import SessionAggregate
from ottla.pipeline.streams.operators.sliding_aggregate import SlidingAggregate
from ottla.pipeline.streams.operators.suppress import UntilTimeLimit, UntilWindowCloses
from ottla.pipeline.streams.operators.windowed_aggregate import WindowedAggregate
from ottla.pipeline.streams.topology import (
    Boundary,
    Emit,
    Filter,
    Keyed,
    Map,
    NativeAggregate,
    Node,
    Peek,
    TypeOf,
)
from ottla.pipeline.streams.windows import (
    HoppingWindows,
    SessionWindows,
    SlidingWindows,
    TumblingWindows,
    Windows,
)


def suppressed(name: str, table: Node) -> Node | None:
    """The last value of each window of a windowed table, once it is closed; None for other tables."""
    aggregate = windowed_aggregate(table)
    match aggregate:
        case None:
            return None
        case NativeAggregate() if aggregate is table:
            return dataclasses.replace(aggregate, name=name, emit=Emit.WINDOW_CLOSE)
        case Keyed(operator=WindowedAggregate() | SessionAggregate() | SlidingAggregate() as operator):
            if aggregate is table:
                final = dataclasses.replace(operator, emit_on_close=True)
                return dataclasses.replace(aggregate, name=name, operator=final)
    assert aggregate.windows is not None
    return Keyed(
        name,
        (table,),
        UntilWindowCloses(_closed_after_ms(aggregate.windows)),
        TypeOf.KEY,
        TypeOf.VALUE,
        table=True,
        watermark_grace_ms=0,
    )


def windowed_aggregate(node: Node) -> NativeAggregate | Keyed | None:
    """The aggregate by window whose windows a table has for its keys; None for other tables, and streams."""
    if not node.table:
        return None
    match node:
        case NativeAggregate() | Keyed() if node.windows is not None:
            return node
        case Keyed(inputs=(table,), operator=UntilTimeLimit() | UntilWindowCloses()):
            return windowed_aggregate(table)
        case Filter() | Peek() | Map(key=None, both=None):
            return windowed_aggregate(node.input)
        case Boundary():
            return windowed_aggregate(node.origin)
        case _:
            return None


def _closed_after_ms(windows: Windows) -> int:
    """How far behind the end in a window's key event time must be for the window to be closed."""
    match windows:
        case TumblingWindows() | HoppingWindows():
            return windows.grace_ms
        case SlidingWindows():
            return windows.grace_ms + 1
        case SessionWindows():
            return windows.gap_ms + windows.grace_ms + 1
