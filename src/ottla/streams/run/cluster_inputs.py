"""The inputs of a query that runs on a cluster: its topics as Spark reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.pipeline.query.source import KafkaSource, read_batch, read_stream
from ottla.streams.compile.expressions import naming
from ottla.streams.compile.inputs import QueryInputs
from ottla.streams.plan.node import Node
from ottla.streams.plan.planner import reads_of
from ottla.streams.run.admitted import Admitted
from ottla.streams.run.context import RunContext

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ottla.streams.compile.inputs import Types


def inputs_of(
    context: RunContext, admitted: Admitted, types: Mapping[str, Types], heartbeats: DataFrame | None
) -> QueryInputs:
    """The inputs of a query. Raises TopologyError with the name of a node that can't be read."""
    place = context.settings.place
    frames: dict[Node, DataFrame] = {}
    for source, read in admitted.sources.items():
        with naming(source):
            frames[source] = read_stream(context.spark, read, context.cluster)
    for table in admitted.query.global_tables:
        # The whole topic, as it is when a batch reads it.
        topics = reads_of(table).topics
        whole = KafkaSource(place.cluster.bootstrap, topics.names, client_options=place.cluster.properties)
        with naming(table):
            frames[table] = read_batch(context.spark, whole, cluster=context.cluster)
    return QueryInputs(frames, types, heartbeats, place.dead_letters)
