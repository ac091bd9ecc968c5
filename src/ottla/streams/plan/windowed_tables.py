"""Tables of windows: which aggregate a table's windows are of, and how each window is sent once.

Only the aggregate itself can say a window's last word: it knows which records are still to be counted. An
operator behind it would have to guess, as it reads the changes of other partitions sooner or later. So where
a filter or a map stands between, the aggregate is asked for its last word there too, and a window that
the filter takes out is not sent at all: there is no earlier value to take back.
"""

from __future__ import annotations

from ottla.streams.plan.node import Node
from ottla.streams.plan.nodes.stateless import Filter


def suppressed(name: str, table: Node) -> Node | None:
    """The last value of each window of a windowed table, once it is closed; None for other tables."""
    last = _last_values(name, table)
    if last is None or table.facts.state is not None:
        return last
    return Filter(f"{name}-present", last, lambda row: row.value.isNotNull(), drops=True)


def _last_values(name: str, node: Node) -> Node | None:
    """The aggregate behind `node` with its last words alone, and the nodes between it and `node` anew."""
    facts = node.facts
    if facts.state is not None:
        windowed = facts.state.windowed
        return None if windowed is None or windowed.closed is None else windowed.closed(name)
    if not node.table or facts.rows_of is None:
        return None
    behind = _last_values(name, facts.rows_of)
    return None if behind is None else node.with_inputs((behind,), f"{name}-{node.name}")


def windowed_aggregate(node: Node) -> Node | None:
    """The aggregate by window whose windows a table has for its keys; None for other tables, and streams."""
    if not node.table:
        return None
    facts = node.facts
    if facts.state is not None and facts.state.windowed is not None:
        return node
    return None if facts.rows_of is None else windowed_aggregate(facts.rows_of)
