"""The inputs of a query that runs on a cluster: its topics as Spark reads them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from ottla.pipeline.query.planned_source import PlannedSources
from ottla.pipeline.query.realtime import ModeKind
from ottla.pipeline.query.source import KafkaSource, read_batch, read_stream
from ottla.streams.compile.expressions import naming
from ottla.streams.compile.inputs import QueryInputs
from ottla.streams.plan.node import Node
from ottla.streams.plan.planner import reads_of
from ottla.streams.run.admitted import Admitted
from ottla.streams.run.context import RunContext
from ottla.streams.run.reading_order import QueryReading

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ottla.streams.compile.inputs import Types


def inputs_of(
    context: RunContext,
    admitted: Admitted,
    types: Mapping[str, Types],
    heartbeats: DataFrame | None,
    reading: QueryReading | None = None,
) -> QueryInputs:
    """The inputs of a query. Raises TopologyError with the name of a node that can't be read.

    reading: says where batches end; None: each source for itself, by its limit.
    """
    place = context.settings.place
    frames: dict[Node, DataFrame] = {}
    planned = None if reading is None else PlannedSources(context.spark, reading, reading.order)
    for number, (source, read) in enumerate(admitted.sources.items()):
        with naming(source):
            as_planned = None if planned is None else partial(planned.planned, number=number)
            frame = read_stream(context.spark, read, context.cluster, as_planned)
            frames[source] = _observed(context, frame, number, read)
    for table in admitted.query.global_tables:
        # The whole topic, as it is when a batch reads it.
        topics = reads_of(table).topics
        whole = KafkaSource(place.cluster.bootstrap, topics.names, client_options=place.cluster.properties)
        with naming(table):
            frames[table] = read_batch(context.spark, whole, cluster=context.cluster)
    is_batched = admitted.mode is None or admitted.mode.kind is not ModeKind.REAL_TIME
    observes = is_batched and context.settings.watching.metrics is not None
    return QueryInputs(frames, types, heartbeats, place.dead_letters, observes_written=observes)


def _observed(context: RunContext, frame: DataFrame, number: int, source: KafkaSource) -> DataFrame:
    """The frame of a source; where batches are traced, with the traces of its records sampled.

    In real-time mode there is nothing to observe them with.
    """
    if context.settings.watching.traces is None or source.flowing:
        return frame
    from ottla.pipeline.query.traces import with_observed_contexts

    return with_observed_contexts(frame, number)
