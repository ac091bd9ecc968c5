"""The DSL: an application's streams and tables, and the operations on them.

    app = Streams("word-count")
    words = app.stream("lines", value=str).flat_map_values(lambda r: F.split(F.lower(r.value), " "))
    words.group_by(lambda r: r.value).count(name="counts").to_stream().to("counts", key=str, value=int)
    app.run()

Each call adds a node to the topology; nothing runs before `run`. A `key` or `value` is a format of
`ottla.pipeline.formats`, or a Python type (str, int, float, bytes, bool, a dataclass: JSON).

A `Stream` is a sequence of facts; a `Table` is the last value of each key, and a null value deletes it. An
aggregate sends on, after each batch, the new value of each key that the batch has changed: as Kafka Streams
does with its cache on. `Table.suppress()` and `emit=Emit.WINDOW_CLOSE` send each window's value once.
"""

from __future__ import annotations

from ottla.streams.dsl.application import Streams, find_app
from ottla.streams.dsl.streams_and_tables import (
    GlobalTable,
    GroupedStream,
    GroupedTable,
    Previewed,
    Stream,
    Table,
)

__all__ = [
    "GlobalTable",
    "GroupedStream",
    "GroupedTable",
    "Previewed",
    "Stream",
    "Streams",
    "Table",
    "find_app",
]
