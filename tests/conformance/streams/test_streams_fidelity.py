"""The examples of examples/streams/ beside Java Kafka Streams: the same input, the same results.

Both may send more or fewer updates on the way, so tables are compared by the last value of each key; windows
that are sent once, when they close, are compared record by record.
"""

from __future__ import annotations

import collections
import importlib.util
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.client.cluster import KafkaCluster, Topic
from ottla.pipeline.spark.java_runtime import find_java
from ottla.pipeline.spark.session import SparkPipelineSession
from ottla.streams.dsl import find_app
from ottla.streams.run.application import start
from ottla.streams.run.settings import StreamsSettings
from support.java.streams_fidelity import (
    EXAMPLES,
    MINUTE_MS,
    PARTITIONS,
    Counter,
    busy_minutes,
    clicks,
    closing_clicks,
    counted_words,
    java_examples,
    lines,
    send,
    viewed_regions,
    views_and_users,
)
from support.servers.cluster import Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.streams.dsl import Streams

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

CALCULATED_WITHIN_S = 60
INPUTS = ("lines", "page-views", "users", "clicks")
OUTPUTS = ("word-counts", "region-views", "anomalies")
Window = tuple[str, int]
StartOwn = Callable[..., AbstractContextManager[Cluster]]


def test_examples_give_the_results_of_kafka_streams(
    start_own: StartOwn, spark: SparkSession, tmp_path: Path
) -> None:
    said, clicked = lines(seed=1), clicks(seed=3)
    clicked += closing_clicks(max(each.timestamp_ms for each in clicked))
    with start_own() as own:
        cluster = with_topics(own)
        send(own.bootstrap, [*said, *clicked])
        with java_examples(own.bootstrap, tmp_path / "java") as java:
            # when
            for example in ("word_count", "anomalies"):
                run_example(spark, example, own.bootstrap, tmp_path / "ottla")
            # then
            same_tables(cluster, "word-counts", counted_words(said))
            same_windows(cluster, busy_minutes(clicked))
            java.process.kill()


@pytest.mark.long
def test_examples_go_on_as_kafka_streams_does(
    start_own: StartOwn, spark: SparkSession, tmp_path: Path
) -> None:
    """All three, then more input: they go on from their checkpoints, and some of it is late."""
    said, seen, clicked = lines(seed=1), views_and_users(seed=2), clicks(seed=3)
    clicked += closing_clicks(max(each.timestamp_ms for each in clicked))
    with start_own() as own:
        cluster = with_topics(own)
        send(own.bootstrap, [*said, *seen, *clicked])
        with java_examples(own.bootstrap, tmp_path / "java") as java:
            # given
            for example in ("word_count", "page_views", "anomalies"):
                run_example(spark, example, own.bootstrap, tmp_path / "ottla")
            same_tables(cluster, "word-counts", counted_words(said))
            same_tables(cluster, "region-views", viewed_regions(seen))
            same_windows(cluster, busy_minutes(clicked))
            # when
            more = lines(seed=4)
            late = [replace(each, timestamp_ms=each.timestamp_ms + 1) for each in clicks(seed=3)]
            fresh = clicks(seed=5, begin_ms=max(each.timestamp_ms for each in clicked) + MINUTE_MS)
            fresh += closing_clicks(max(each.timestamp_ms for each in fresh))
            send(own.bootstrap, [*more, *late, *fresh])
            for example in ("word_count", "anomalies"):
                run_example(spark, example, own.bootstrap, tmp_path / "ottla")
            # then
            same_tables(cluster, "word-counts", counted_words([*said, *more]))
            same_windows(cluster, busy_minutes([*clicked, *fresh]))
            java.process.kill()


def with_topics(own: Cluster) -> KafkaCluster:
    """A client of the cluster, with the examples' topics made."""
    cluster = KafkaCluster(own.bootstrap)
    java_outputs = [f"java-{topic}" for topic in OUTPUTS]
    cluster.ensure_topics([Topic(name, PARTITIONS) for name in (*INPUTS, *OUTPUTS, *java_outputs)])
    return cluster


def same_tables(cluster: KafkaCluster, topic: str, expected: Counter) -> None:
    """Java's output is the model's, and so is that of the example, which has ended."""
    eventually_is(lambda: table(cluster, f"java-{topic}"), expected)
    assert table(cluster, topic) == expected


def same_windows(cluster: KafkaCluster, expected: Mapping[Window, int]) -> None:
    """As `same_tables`, for results that are sent once for each window."""
    closed = collections.Counter(expected.items())
    eventually_is(lambda: windows(cluster, "java-anomalies"), closed)
    assert windows(cluster, "anomalies") == closed


def run_example(spark: SparkSession, name: str, bootstrap: str, directory: Path) -> None:
    """Run an example on the present records of its topics."""
    session = SparkPipelineSession(spark, find_java(), directory, None, None)
    settings = StreamsSettings(bootstrap, directory, partitions=PARTITIONS, until_caught_up=True)
    with start(example(name).topology(), settings, session=session) as running:
        assert running.await_end(CALCULATED_WITHIN_S)


def example(name: str) -> Streams:
    spec = importlib.util.spec_from_file_location(f"examples_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up.
    sys.modules[module.__name__] = module
    spec.loader.exec_module(module)
    return find_app(vars(module).values())


def eventually_is(look: Callable[[], object], expected: object) -> None:
    """Wait until Java's output is the model's."""
    deadline = time.monotonic() + CALCULATED_WITHIN_S
    while (found := look()) != expected:
        if time.monotonic() > deadline:
            assert found == expected, "Java Kafka Streams gives something else"
        time.sleep(0.2)


def table(cluster: KafkaCluster, topic: str) -> dict[str, int]:
    """The last value of each key."""
    return {key.decode(): count(value) for key, value in records(cluster, topic)}


def windows(cluster: KafkaCluster, topic: str) -> collections.Counter[tuple[Window, int]]:
    """Every record: its user, the begin of its window, its count."""
    found = ((key[:-8].decode(), int.from_bytes(key[-8:], "big")) for key, _ in records(cluster, topic))
    counts = (count(value) for _, value in records(cluster, topic))
    return collections.Counter(zip(found, counts, strict=True))


def records(cluster: KafkaCluster, topic: str) -> Iterator[tuple[bytes, bytes]]:
    for message in cluster.read(topic):
        yield message.key(), message.value()


def count(value: bytes) -> int:
    """As Kafka's LongSerializer writes it."""
    assert len(value) == 8
    return int.from_bytes(value, "big", signed=True)
