"""Streams on Spark: what an application needs, in one place (`from ottla.streams import Streams, tumbling`).

The DSL is `ottla.pipeline.streams.dsl`, the formats `ottla.pipeline.formats`, the test kit and previews
`ottla.streams.testing`. A guide is in docs/streams.md.
"""

from __future__ import annotations

from ottla.pipeline import formats
from ottla.pipeline.realtime import Wanted
from ottla.pipeline.streams.application import RunningStreams, StreamsError, StreamsSettings
from ottla.pipeline.streams.dsl import GlobalTable, GroupedStream, GroupedTable, Stream, Streams, Table
from ottla.pipeline.streams.operators.processor import Processor, ProcessorContext, ProcessorRecord
from ottla.pipeline.streams.records import PythonRecord, Record, python, record, vectorized
from ottla.pipeline.streams.topology import Emit, TopologyError
from ottla.pipeline.streams.windows import hopping, session, sliding, tumbling, within

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
