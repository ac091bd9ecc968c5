"""Before an application's queries: its topics are checked and made, and Spark's settings put together."""

from __future__ import annotations

from ottla.client.cluster import KafkaCluster
from ottla.pipeline.query.source import SourceError, check_source
from ottla.pipeline.spark.session import SparkSettings
from ottla.streams.plan.planner import Plan
from ottla.streams.plan.topology import GlobalTable, Source, Topology, ToSpark
from ottla.streams.run.admitted import kafka_source
from ottla.streams.run.internal_topics import topic_of
from ottla.streams.run.settings import RunSettings
from ottla.streams.run.spark_settings import STATE_SETTINGS


def check_topics(cluster: KafkaCluster, topology: Topology, settings: RunSettings) -> None:
    """Raises SourceError when a topic is missing that is read or written and not our own."""
    for node in topology.nodes():
        if isinstance(node, Source):
            check_source(kafka_source(node, settings), cluster)
    wanted = [node.topic for node in topology.nodes() if isinstance(node, GlobalTable)]
    if settings.place.dead_letters is not None:
        wanted.append(settings.place.dead_letters)
    wanted += [
        sink.topic for sink in topology.sinks if not isinstance(sink, ToSpark) and isinstance(sink.topic, str)
    ]
    missing = cluster.missing_topics(list(dict.fromkeys(wanted)))
    if missing:
        raise SourceError(f"topic {missing[0]} does not exist on {settings.place.bootstrap}; create it first")


def make_internal_topics(cluster: KafkaCluster, plan: Plan, settings: RunSettings) -> None:
    """Those that are not there yet. Raises ClusterError."""
    topics = [topic_of(sink, settings.spark.partitions) for sink in plan.internal_topics]
    if topics:
        cluster.ensure_topics(topics)


def spark_settings(application: str, settings: RunSettings) -> SparkSettings:
    """What the application's Spark is made from."""
    chosen = settings.spark
    return SparkSettings(
        application,
        settings.place.state / application,
        master=chosen.master,
        shuffle_partitions=chosen.partitions,
        driver_memory=chosen.driver_memory,
        properties={**STATE_SETTINGS, **chosen.properties},
    )
