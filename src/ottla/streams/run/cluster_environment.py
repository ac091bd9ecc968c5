"""Where an application's records come from when it runs on a cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.pipeline.query.realtime import Mode, ModeKind
from ottla.pipeline.query.source import (
    EARLIEST,
    LATEST,
    FromTimestamp,
    KafkaSource,
    read_batch,
    read_stream,
)
from ottla.pipeline.query.source import Start as SourceStart
from ottla.streams.plan.topology import Boundary, GlobalTable, Source, TopologyError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

    from ottla.client.cluster import KafkaCluster
    from ottla.streams.run.application import StreamsSettings


def kafka_source(
    source: Source | Boundary, settings: StreamsSettings, mode: Mode | None = None
) -> KafkaSource:
    """What Spark reads for a source."""
    topics: tuple[str, ...] = ()
    pattern = None
    start: SourceStart = EARLIEST
    if isinstance(source, Boundary):
        topics = (source.topic,)
    else:
        topics, pattern = source.topics, source.pattern
        if source.start.latest:
            start = LATEST
        if source.start.timestamp_ms is not None:
            start = FromTimestamp(source.start.timestamp_ms)
        if settings.replay_from_ms is not None and not source.table:
            start = FromTimestamp(settings.replay_from_ms)  # tables are needed whole
    flowing = mode is not None and mode.kind is ModeKind.REAL_TIME
    return KafkaSource(
        settings.bootstrap,
        topics,
        pattern,
        start,
        max_offsets_per_trigger=None if flowing else settings.batch_records,
        client_options=settings.client_options,
    )


@dataclass(slots=True)
class ClusterEnvironment:
    """Topics of a cluster; `types` fills as the queries are compiled, those that write first."""

    spark: SparkSession
    settings: StreamsSettings
    cluster: KafkaCluster
    heartbeats: DataFrame | None = None
    types: dict[str, tuple[DataType, DataType]] = field(default_factory=dict)
    admitted: dict[int, KafkaSource] = field(default_factory=dict)
    """By id() of a source: what is read for it, as the query that is compiled was admitted."""

    @property
    def keyed_host(self) -> None:
        """Operators in Python run in Spark."""
        return None

    @property
    def dead_letter_topic(self) -> str | None:
        return self.settings.dead_letters

    def read(self, source: Source | Boundary) -> DataFrame:
        """The source's records, from where its query begins."""
        return read_stream(self.spark, self.admitted[id(source)], self.cluster)

    def read_whole(self, table: GlobalTable) -> DataFrame:
        """The whole topic, as it is when a batch reads it."""
        source = KafkaSource(
            self.settings.bootstrap, (table.topic,), client_options=self.settings.client_options
        )
        return read_batch(self.spark, source, cluster=self.cluster)

    def types_of(self, boundary: Boundary) -> tuple[DataType, DataType]:
        """As the query that writes it was compiled."""
        found = self.types.get(boundary.topic)
        if found is None:
            raise TopologyError(f"{boundary.topic} is read before it is written: a cycle?")
        return found
