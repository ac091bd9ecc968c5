"""Before an application's queries: its topics are checked and made, and Spark's settings put together."""

from __future__ import annotations

from ottla.client.cluster import KafkaCluster
from ottla.pipeline.query.source import SourceError, check_source
from ottla.pipeline.spark.session import SparkSettings
from ottla.streams.plan.planner import Plan
from ottla.streams.plan.topology import Topology
from ottla.streams.run.admitted import kafka_source
from ottla.streams.run.internal_topics import topic_of
from ottla.streams.run.settings import StreamsSettings
from ottla.streams.run.spark_settings import STATE_SETTINGS


def check_topics(cluster: KafkaCluster, topology: Topology, settings: StreamsSettings) -> None:
    """Raise SourceError when a topic of the user's is missing that the application reads or writes."""
    wanted: list[str] = []
    for node in topology.nodes():
        facts = node.facts
        if facts.reads is not None and facts.reads.whole:
            wanted += facts.reads.topics.names
        elif facts.reads is not None:
            check_source(kafka_source(node, settings), cluster)
    if settings.place.dead_letters is not None:
        wanted.append(settings.place.dead_letters)
    written = [sink.facts.writes for sink in topology.sinks]
    wanted += [each.topic for each in written if each is not None and each.topic is not None]
    missing = cluster.missing_topics(list(dict.fromkeys(wanted)))
    if missing:
        bootstrap = settings.place.cluster.bootstrap
        raise SourceError(f"topic {missing[0]} does not exist on {bootstrap}; create it first")


def make_internal_topics(cluster: KafkaCluster, plan: Plan, settings: StreamsSettings) -> None:
    """Create the internal topics that are missing. Raises ClusterError."""
    topics = [topic_of(sink, settings.spark.partitions) for sink in plan.internal_topics]
    if topics:
        cluster.ensure_topics(topics)


def spark_settings(application: str, settings: StreamsSettings, plan: Plan) -> SparkSettings:
    """The settings of the application's Spark session, which runs the queries of `plan`."""
    chosen = settings.spark
    return SparkSettings(
        application,
        settings.place.state / application,
        master=chosen.master,
        shuffle_partitions=chosen.partitions,
        driver_memory=chosen.driver_memory,
        properties={**STATE_SETTINGS, **chosen.properties},
        python_tasks=any(node.facts.python is not None for query in plan.queries for node in query.nodes),
    )
