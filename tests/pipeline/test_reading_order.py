"""Joins of streams with tables take records by time, whatever the size of batches, against a plain model."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import functions as F

from ottla.client.cluster import KafkaCluster, Topic
from ottla.pipeline.spark.session import SparkPipelineSession
from ottla.streams import Processor, ProcessorContext, ProcessorRecord, Streams, StreamsSettings, tumbling
from ottla.streams.run.application import start
from support.pipeline.joined_streams import BEGIN_MS, WINDOW_MS, Joined, application, wait_until_done
from support.servers.cluster import Cluster

pytestmark = pytest.mark.spark

QUIET_SECONDS = 120.0


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
        assert wait_until_done(joined, QUIET_SECONDS), "not everything came out"

    joined.check(in_order=True)


@pytest.mark.long
def test_windows_do_not_hang_on_which_task_of_another_query_ends_first(
    cluster: Cluster, spark_session: SparkPipelineSession, unique_name: str, tmp_path: Path
) -> None:
    """One task of a batch commits seconds before the other; the batch has eight windows."""

    class Slow(Processor):
        def process(self, record: ProcessorRecord, context: ProcessorContext) -> None:
            if record.key == "slow":
                time.sleep(0.1)
            context.forward(record.key, record.value)

    kafka = KafkaCluster(cluster.bootstrap)
    kafka.ensure_topics(
        [Topic(f"{unique_name}-{role}", 2, config={"retention.ms": "-1"}) for role in ("in", "out")]
    )
    producer = Producer(kafka.producer_options())
    expected: Counter[str] = Counter()
    for time_ms in range(BEGIN_MS, BEGIN_MS + 8 * WINDOW_MS, 100):
        for key in ("slow", *"abcdefgh"):
            producer.produce(f"{unique_name}-in", "", key, timestamp=time_ms)
            expected[f"{key}@{time_ms - time_ms % WINDOW_MS}"] += 1
    assert producer.flush(30) == 0
    app = Streams(unique_name)
    slowly = app.stream(f"{unique_name}-in", key=str, value=str).process(Slow(), key=str, value=str)
    counts = slowly.group_by_key().windowed_by(tumbling(timedelta(milliseconds=WINDOW_MS))).count()
    counts.to_stream(
        key=lambda r: F.concat_ws("@", r.key.key, F.unix_millis(r.key.start).cast("string"))
    ).map_values(lambda r: r.value.cast("string")).to(f"{unique_name}-out", key=str, value=str)

    def found() -> dict[str, int]:
        counted = {}
        for message in kafka.read(f"{unique_name}-out"):
            key, value = message.key(), message.value()
            assert key is not None
            assert value is not None
            counted[key.decode()] = int(value)
        return counted

    settings = StreamsSettings(kafka.bootstrap, tmp_path, partitions=2)
    with start(app.topology(), settings, session=spark_session):
        deadline = time.monotonic() + 60
        while found() != expected and time.monotonic() < deadline:
            time.sleep(0.5)

    assert found() == expected
