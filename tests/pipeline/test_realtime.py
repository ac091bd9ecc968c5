"""Real-time mode: records come out while the batch that read them goes on."""

from __future__ import annotations

import pytest

from ottla.client.cluster import KafkaCluster, Topic
from ottla.pipeline.query.realtime import REAL_TIME_SINCE
from ottla.pipeline.spark.low_latency import version_tuple
from ottla.pipeline.spark.session import SparkPipelineSession
from support.pipeline.real_time import RECORDS, observe
from support.servers.cluster import Cluster


def test_records_flow_through_a_running_batch(
    cluster: Cluster, unique_name: str, spark_session: SparkPipelineSession
) -> None:
    if version_tuple(spark_session.spark.version) < REAL_TIME_SINCE:
        pytest.skip("this Spark has no real-time mode")
    kafka = KafkaCluster(cluster.bootstrap)
    kafka.ensure_topics([Topic(unique_name), Topic(f"{unique_name}-out")])

    seen = observe(spark_session, cluster.bootstrap, unique_name)

    assert seen.mode.startswith("real-time: ")
    assert seen.failure is None
    assert seen.received == [f"A{number}" for number in range(RECORDS)]
    assert seen.finished_batch is None
    assert seen.cut_short
