"""Streams on Spark: what an application needs, in one place (`from ottla.streams import Streams, tumbling`).

The DSL is `ottla.streams.dsl`, the formats `ottla.pipeline.formats`, the test kit and previews
`ottla.streams.testing`. A guide is in docs/streams.md.

A name is loaded when it is first asked for: Spark's workers and the command import modules of this package
and need neither the DSL nor Spark's session for that.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.pipeline import formats
    from ottla.pipeline.query.realtime import Wanted
    from ottla.streams.dsl import GlobalTable, GroupedStream, GroupedTable, Stream, Streams, Table
    from ottla.streams.operators.processor import Processor, ProcessorContext, ProcessorRecord
    from ottla.streams.operators.windows import cumulating, hopping, session, sliding, tumbling, within
    from ottla.streams.plan.node import TopologyError
    from ottla.streams.plan.nodes.aggregate import Emit
    from ottla.streams.plan.records import PythonRecord, Record, python, record, vectorized
    from ottla.streams.run.application import RunningStreams, StreamsError
    from ottla.streams.run.settings import StreamsSettings

__all__ = [
    "Emit",
    "GlobalTable",
    "GroupedStream",
    "GroupedTable",
    "Processor",
    "ProcessorContext",
    "ProcessorRecord",
    "PythonRecord",
    "Record",
    "RunningStreams",
    "Stream",
    "Streams",
    "StreamsError",
    "StreamsSettings",
    "Table",
    "TopologyError",
    "Wanted",
    "cumulating",
    "formats",
    "hopping",
    "python",
    "record",
    "session",
    "sliding",
    "tumbling",
    "vectorized",
    "within",
]

_HOMES = {
    "Emit": "ottla.streams.plan.nodes.aggregate",
    "GlobalTable": "ottla.streams.dsl",
    "GroupedStream": "ottla.streams.dsl",
    "GroupedTable": "ottla.streams.dsl",
    "Processor": "ottla.streams.operators.processor",
    "ProcessorContext": "ottla.streams.operators.processor",
    "ProcessorRecord": "ottla.streams.operators.processor",
    "PythonRecord": "ottla.streams.plan.records",
    "Record": "ottla.streams.plan.records",
    "RunningStreams": "ottla.streams.run.application",
    "Stream": "ottla.streams.dsl",
    "Streams": "ottla.streams.dsl",
    "StreamsError": "ottla.streams.run.application",
    "StreamsSettings": "ottla.streams.run.settings",
    "Table": "ottla.streams.dsl",
    "TopologyError": "ottla.streams.plan.node",
    "Wanted": "ottla.pipeline.query.realtime",
    "cumulating": "ottla.streams.operators.windows",
    "formats": "ottla.pipeline.formats",
    "hopping": "ottla.streams.operators.windows",
    "python": "ottla.streams.plan.records",
    "record": "ottla.streams.plan.records",
    "session": "ottla.streams.operators.windows",
    "sliding": "ottla.streams.operators.windows",
    "tumbling": "ottla.streams.operators.windows",
    "vectorized": "ottla.streams.plan.records",
    "within": "ottla.streams.operators.windows",
}


def __getattr__(name: str) -> object:
    if (home := _HOMES.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(home)
    found = module if name == home.rpartition(".")[2] else getattr(module, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
