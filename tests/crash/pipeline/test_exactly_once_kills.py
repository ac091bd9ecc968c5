"""A pipeline with the exactly-once sink is killed at random moments: every row is in the output once."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from ottla.client.cluster import KafkaCluster, Topic
from support.clients.confluent import eventually
from support.pipeline.pipeline_kills import EXECUTORS, STATEFUL, STATELESS, KilledPipeline
from support.servers.apache_kafka import ApacheKafka
from support.servers.cluster import Cluster
from support.servers.ottla_broker import OttlaBroker

pytestmark = pytest.mark.spark
PARTITIONS = 3
BY_JVM_AND_PYTHON = pytest.mark.parametrize(
    "python_sink", [False, pytest.param(True, marks=pytest.mark.long)], ids=["jvm", "python"]
)


@pytest.fixture
def kafka(cluster: Cluster) -> KafkaCluster:
    return KafkaCluster(cluster.bootstrap)


def pipeline(
    kafka: KafkaCluster,
    kind: str,
    name: str,
    directory: Path,
    *,
    rows: int,
    rows_a_batch: int,
    seed: int,
    python_sink: bool = False,
) -> KilledPipeline:
    made = KilledPipeline(
        kafka.bootstrap, kind, name, directory / "pipeline", rows_a_batch, random.Random(seed)
    )
    made.python_sink = python_sink
    made.source, made.sink = f"{name}-in", f"{name}-out"
    kafka.ensure_topics([Topic(made.source, PARTITIONS), Topic(made.sink, 2)])
    made.produce(rows, PARTITIONS)
    return made


def written(kafka: KafkaCluster, topic: str) -> Counter[tuple[bytes, bytes]]:
    return Counter((message.key(), message.value()) for message in kafka.read(topic))


def assert_exactly_once(kafka: KafkaCluster, killed: KilledPipeline) -> None:
    found, expected = written(kafka, killed.sink), killed.expected()
    assert found - expected == Counter(), "rows that should not be there, or twice"
    assert expected - found == Counter(), "rows that are missing"


@BY_JVM_AND_PYTHON
@pytest.mark.parametrize("kind", [STATELESS, pytest.param(STATEFUL, marks=pytest.mark.long)])
def test_rows_are_there_once_after_a_few_kills(
    kafka: KafkaCluster, unique_name: str, tmp_path: Path, kind: str, python_sink: bool
) -> None:
    killed = pipeline(
        kafka,
        kind,
        unique_name,
        tmp_path,
        rows=2_400,
        rows_a_batch=400,
        seed=1,
        python_sink=python_sink,
    )

    assert killed.run_until_killed("everything", more_batches=2)
    killed.run_to_the_end()

    assert_exactly_once(kafka, killed)


@pytest.mark.long
@pytest.mark.timeout(3000)
@BY_JVM_AND_PYTHON
@pytest.mark.parametrize("kind", [STATELESS, STATEFUL])
def test_rows_are_there_once_after_many_kills(
    kafka: KafkaCluster, unique_name: str, tmp_path: Path, kind: str, python_sink: bool
) -> None:
    killed = pipeline(
        kafka,
        kind,
        unique_name,
        tmp_path,
        rows=60_000,
        rows_a_batch=1_000,
        seed=2,
        python_sink=python_sink,
    )

    for number in range(10):
        victims = ("everything", "jvm", "driver")[number % 3]
        more_batches = killed.random.randint(0, 4)
        if not killed.run_until_killed(victims, more_batches, in_window=number % 2 == 1):
            break
    workers = killed.run_to_the_end(worker_kills=10)

    print(
        f"{kind}: {workers} Python workers killed, {killed.unfinished_batches} batches written and not"
        f" finished, {killed.half_written_batches} of them half written"
    )
    assert killed.unfinished_batches > 0, "no kill has hit the window that the sink is for"
    assert_exactly_once(kafka, killed)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", [STATELESS, STATEFUL])
def test_rows_are_there_once_when_kafka_forgets_groups_before_the_next_start(
    cluster_kind: str, unique_name: str, tmp_path: Path, kind: str
) -> None:
    """Killed until that falls between a unit's commit and its batch's end; back when the groups are gone."""
    start = {"ottla": OttlaBroker.start, "apache-kafka": ApacheKafka.start}[cluster_kind]
    settings = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "500"}
    with start(tmp_path / "broker" / "data", settings=settings) as broker:
        kafka = KafkaCluster(broker.bootstrap)
        killed = pipeline(kafka, kind, unique_name, tmp_path, rows=60_000, rows_a_batch=1_000, seed=4)
        while killed.unfinished_batches == 0:
            hit = killed.run_until_killed("everything", more_batches=1, in_window=True)
            assert hit, "no kill has hit the window"

        eventually(lambda: not kafka.groups(f"{unique_name}-sink-"), "the groups are gone", 180)
        killed.run_to_the_end()

        assert_exactly_once(kafka, killed)


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kind", [STATELESS, STATEFUL])
def test_rows_are_there_once_when_executors_are_killed(
    kafka: KafkaCluster, unique_name: str, tmp_path: Path, kind: str
) -> None:
    killed = pipeline(kafka, kind, unique_name, tmp_path, rows=24_000, rows_a_batch=600, seed=3)
    killed.master = "local-cluster[2,1,1024]"

    assert killed.run_until_killed("everything", more_batches=2)
    assert killed.run_to_the_end(worker_kills=4, victims=EXECUTORS) >= 2

    assert_exactly_once(kafka, killed)
