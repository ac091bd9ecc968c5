"""A Python process that Spark does not hear of in time: the query is started again and goes on."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

from ottla.client.cluster import KafkaCluster, Topic
from ottla.pipeline.spark.session import SparkPipelineSession
from ottla.streams import Streams, StreamsError, StreamsSettings
from ottla.streams.run.application import start
from support.servers.cluster import Cluster

pytestmark = [pytest.mark.spark, pytest.mark.long]

# Spark waits 10 s for this process; one that ends says nothing.
HELPER = "transform_with_state_driver_worker"


def failing_python(directory: Path, times: int) -> Path:
    """A Python whose process for stateful operators ends at once, so many times."""
    script = directory / "python"
    script.write_text(
        f"""#!/bin/sh
case "$*" in *{HELPER}*)
    echo >> {directory}/starts
    [ $(wc -l < {directory}/starts) -gt {times} ] || exit 1
esac
exec {sys.executable} "$@"
""",
        encoding="utf-8",
    )
    script.chmod(0o755)
    return script


def joined(name: str) -> Streams:
    app = Streams(name)
    left, right = (app.table(f"{name}-{side}", key=str, value=str) for side in ("left", "right"))
    left.join_foreign(right, lambda r: r.value).map_values(lambda r: r.value.right).to(
        f"{name}-out", key=str, value=str
    )
    return app


@pytest.mark.timeout(300)
def test_a_foreign_key_join_survives_python_processes_that_do_not_start(
    cluster: Cluster,
    spark_session: SparkPipelineSession,
    unique_name: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kafka = KafkaCluster(cluster.bootstrap)
    kafka.ensure_topics([Topic(f"{unique_name}-{role}", 2) for role in ("left", "right", "out")])
    producer = Producer(kafka.producer_options())
    producer.produce(f"{unique_name}-left", "x", "a")
    producer.produce(f"{unique_name}-right", "found", "x")
    assert producer.flush(30) == 0
    context = spark_session.spark.sparkContext
    monkeypatch.setattr(context, "pythonExec", str(failing_python(tmp_path, 2)))
    settings = StreamsSettings(kafka.bootstrap, tmp_path / "state", partitions=2, until_caught_up=True)

    with (
        caplog.at_level(logging.WARNING, "ottla.pipeline"),
        start(joined(unique_name).topology(), settings, session=spark_session),
    ):
        pass

    assert [message.value() for message in kafka.read(f"{unique_name}-out")] == [b"found"]
    told = [each.getMessage() for each in caplog.records if "is started again" in each.getMessage()]
    assert len(told) == 2
    assert all("Timed out while waiting for the Python worker" in line for line in told)


@pytest.mark.timeout(300)
def test_an_exception_of_a_function_ends_the_application_at_once(
    cluster: Cluster,
    spark_session: SparkPipelineSession,
    unique_name: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    kafka = KafkaCluster(cluster.bootstrap)
    kafka.ensure_topics([Topic(f"{unique_name}-{role}", 1) for role in ("in", "out")])
    producer = Producer(kafka.producer_options())
    producer.produce(f"{unique_name}-in", "1", "a")
    producer.produce(f"{unique_name}-in", "2", "a")
    assert producer.flush(30) == 0

    def reduced(one: str, two: str) -> str:
        raise ValueError("Python worker exited unexpectedly, says the function")

    app = Streams(unique_name)
    read = app.stream(f"{unique_name}-in", key=str, value=str)
    read.group_by_key().reduce(reduced).to(f"{unique_name}-out", key=str, value=str)
    settings = StreamsSettings(kafka.bootstrap, tmp_path / "state", partitions=2, until_caught_up=True)

    with pytest.raises(StreamsError, match="ValueError: Python worker exited unexpectedly"):
        start(app.topology(), settings, session=spark_session)

    assert not [each for each in caplog.records if "is started again" in each.getMessage()]
