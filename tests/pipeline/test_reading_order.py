"""Joins of streams with tables take records by time, whatever the size of batches, against a plain model."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.client.cluster import KafkaCluster
from ottla.pipeline.spark.session import SparkPipelineSession
from ottla.streams import StreamsSettings
from ottla.streams.run.application import start
from support.pipeline.joined_streams import Joined, Sent, application, wait_until_done
from support.servers.cluster import Cluster

pytestmark = pytest.mark.spark

QUIET_SECONDS = 20.0


@contextmanager
def running(
    joined: Joined, session: SparkPipelineSession, state: Path, batch_records: int, *, grace_ms: int = 0
) -> Iterator[None]:
    """The application of `joined`, in the tests' Spark."""
    settings = StreamsSettings(joined.kafka.bootstrap, state, partitions=2, batch_records=batch_records)
    with start(application(joined.name, grace_ms).topology(), settings, session=session):
        yield


def test_a_backlog_is_joined_by_time_in_small_batches(
    cluster: Cluster, spark_session: SparkPipelineSession, unique_name: str, tmp_path: Path
) -> None:
    joined = Joined(KafkaCluster(cluster.bootstrap), unique_name, random.Random(7))
    joined.make_topics()
    joined.produce(joined.draw(keys=20, rows=60, records=200, span_ms=8_000))

    with running(joined, spark_session, tmp_path, batch_records=90):
        wait_until_done(joined, QUIET_SECONDS)

    joined.check(in_order=True)


@pytest.mark.long
def test_windows_do_not_hang_on_which_task_of_a_join_ends_first(
    cluster: Cluster, spark_session: SparkPipelineSession, unique_name: str, tmp_path: Path
) -> None:
    """One task of the join has a key with many records and commits long after the others."""
    joined = Joined(KafkaCluster(cluster.bootstrap), unique_name, random.Random(7), late_rows=False)
    joined.make_topics()
    few = joined.draw(keys=12, rows=0, records=200, span_ms=8_000)
    number = len(few)
    times_ms = sorted(joined.random.randint(2_001, 8_000) for _ in range(40_000))
    many = [Sent("records", "key 0", time_ms, number + at) for at, time_ms in enumerate(times_ms)]
    joined.produce(sorted([*few, *many], key=lambda each: each.time_ms))

    with running(joined, spark_session, tmp_path, batch_records=1_000_000):
        wait_until_done(joined, QUIET_SECONDS)

    joined.check(in_order=True)
