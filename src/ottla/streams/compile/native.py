"""What Spark does itself, all of it in the JVM: aggregates, joins of streams, joins with global tables.

Frames between nodes have RECORD_COLUMNS. When records are late and windows close: `watermarks.py`.
"""

from __future__ import annotations

from typing import Literal

from ottla.streams.compile.native_aggregate import aggregate
from ottla.streams.compile.native_join import global_join, global_table_rows, stream_join
from ottla.streams.plan.topology import Emit, NativeAggregate, StreamJoin

__all__ = [
    "aggregate",
    "global_join",
    "global_table_rows",
    "output_mode",
    "stream_join",
]


def output_mode(node: NativeAggregate | StreamJoin) -> Literal["append", "update"]:
    """Spark's output mode for the query that holds the node."""
    if isinstance(node, NativeAggregate) and node.emit is Emit.CHANGES:
        return "update"
    return "append"
