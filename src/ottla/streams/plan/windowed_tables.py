"""Tables of windows: which aggregate a table's windows are of, and how each window is sent once.

Only the aggregate itself can say a window's last word: it knows which records are still to be counted. An
operator behind it would have to guess, as it reads the changes of other partitions sooner or later. So where
a filter or a map stands between, the aggregate is asked for its last word there too, and what the filter
takes out is not sent at all: there is no earlier value to take back.
"""

from __future__ import annotations

import dataclasses

from ottla.streams.operators.session_aggregate import SessionAggregate
from ottla.streams.operators.sliding_aggregate import SlidingAggregate
from ottla.streams.operators.suppress import UntilTimeLimit
from ottla.streams.operators.windowed_aggregate import WindowedAggregate
from ottla.streams.plan.topology import (
    Boundary,
    Emit,
    Filter,
    Keyed,
    Map,
    NativeAggregate,
    Node,
    Peek,
)


def suppressed(name: str, table: Node) -> Node | None:
    """The last value of each window of a windowed table, once it is closed; None for other tables."""
    last = _last_values(name, table)
    if last is None or not isinstance(table, Filter | Map | Peek):
        return last
    return Filter(f"{name}-present", last, lambda row: row.value.isNotNull(), drops=True)


def _last_values(name: str, node: Node) -> Node | None:
    """The aggregate behind `node` with its last words alone, and what stands between for them anew."""
    match node:
        case NativeAggregate(windows=windows) if windows is not None:
            return dataclasses.replace(node, name=name, emit=Emit.WINDOW_CLOSE)
        case Keyed(operator=WindowedAggregate() | SessionAggregate() | SlidingAggregate() as operator):
            final = dataclasses.replace(operator, emit_on_close=True)
            return dataclasses.replace(node, name=name, operator=final)
        case Filter() | Peek() | Map(key=None, both=None) if node.table:
            if (behind := _last_values(name, node.input)) is not None:
                return dataclasses.replace(node, name=f"{name}-{node.name}", input=behind)
    return None


def windowed_aggregate(node: Node) -> NativeAggregate | Keyed | None:
    """The aggregate by window whose windows a table has for its keys; None for other tables, and streams."""
    if not node.table:
        return None
    match node:
        case NativeAggregate() | Keyed() if node.windows is not None:
            return node
        case Keyed(inputs=(table,), operator=UntilTimeLimit()):
            return windowed_aggregate(table)
        case Filter() | Peek() | Map(key=None, both=None):
            return windowed_aggregate(node.input)
        case Boundary():
            return windowed_aggregate(node.origin)
        case _:
            return None
