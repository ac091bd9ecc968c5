"""The life of a query on a broker: it starts, shows its progress, stops, goes on, fails, is forgotten."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from ottla.client.cluster import KafkaCluster, Topic
from ottla.pipeline.query.metrics import QueryMetrics
from ottla.pipeline.query.progress import marked_query
from ottla.pipeline.query.query import PipelineQuery, QueryRunner, QueryState
from ottla.pipeline.query.query_progress import QueryProgress
from ottla.pipeline.query.query_spec import (
    AvailableNow,
    Beginning,
    LostCheckpoint,
    LostCheckpointError,
    QueryError,
    QuerySpec,
    reset_query,
)
from ottla.pipeline.query.source import KafkaSource, SourceError, read_stream
from ottla.pipeline.query.topics import stream_to
from support.clients.confluent import eventually, produce
from support.metrics.samples import sample
from support.servers.cluster import Cluster

pytestmark = pytest.mark.spark
BATCH_TIMEOUT_S = 90
Transform = Callable[[DataFrame], DataFrame]


def upper(frame: DataFrame) -> DataFrame:
    return frame.selectExpr("key", "upper(CAST(value AS STRING)) AS value")


class Pipeline:
    """One query from a topic of two partitions to another, over several lives."""

    def __init__(self, spark: SparkSession, kafka: KafkaCluster, name: str, directory: Path) -> None:
        self.spark, self.kafka = spark, kafka
        self.source, self.sink = f"{name}-in", f"{name}-out"
        kafka.ensure_topics([Topic(self.source, partitions=2), Topic(self.sink, partitions=2)])
        self.spec = QuerySpec(
            name, directory / "checkpoints" / name, [KafkaSource(kafka.bootstrap, [self.source])]
        )
        self.metrics = QueryMetrics()
        self.seen: list[QueryProgress] = []
        self.runner = QueryRunner(
            spark, metrics=self.metrics, on_progress=lambda _, progress: self.seen.append(progress)
        )

    def produce(self, *values: str) -> None:
        records = [{"key": value.encode(), "value": value.encode()} for value in values]
        produce(self.kafka.bootstrap, self.source, records)

    def writer(self, sources: tuple[KafkaSource, ...], transform: Transform = upper) -> DataStreamWriter:
        frame = transform(read_stream(self.spark, sources[0], self.kafka))
        return stream_to(frame, self.kafka.bootstrap, self.sink).outputMode("update")

    def start(
        self, transform: Transform = upper, on_lost: LostCheckpoint = LostCheckpoint.REFUSE
    ) -> PipelineQuery:
        admission = self.runner.admit(replace(self.spec, on_lost_checkpoint=on_lost))
        return self.runner.start(admission, self.writer(admission.sources, transform))

    def run(
        self, transform: Transform = upper, on_lost: LostCheckpoint = LostCheckpoint.REFUSE
    ) -> PipelineQuery:
        """Start it to read what is there and wait for its end."""
        admission = self.runner.admit(replace(self.spec, trigger=AvailableNow(), on_lost_checkpoint=on_lost))
        query = self.runner.start(admission, self.writer(admission.sources, transform))
        assert query.await_termination(BATCH_TIMEOUT_S)
        return query

    def lag(self) -> int:
        return self.kafka.lag(self.spec.group_id, self.source)

    def written(self) -> Counter[str]:
        return Counter((message.value() or b"").decode() for message in self.kafka.read(self.sink))

    def metric(self, name: str) -> float | None:
        return sample(self.metrics.exposition.text(), name, query=self.spec.name)


@pytest.fixture
def pipeline(spark: SparkSession, cluster: Cluster, unique_name: str, tmp_path: Path) -> Iterator[Pipeline]:
    made = Pipeline(spark, KafkaCluster(cluster.bootstrap), unique_name, tmp_path)
    yield made
    made.runner.close(timeout_seconds=5)


def test_a_query_shows_its_progress_and_goes_on_after_a_stop(pipeline: Pipeline) -> None:
    pipeline.produce(*(f"a{number}" for number in range(60)))
    query = pipeline.start()
    eventually(lambda: pipeline.lag() == 0, "the group has read everything", BATCH_TIMEOUT_S)
    assert query.state is QueryState.RUNNING
    assert pipeline.metric("ottla_query_running") == 1

    assert query.stop()
    assert query.state is QueryState.STOPPED
    pipeline.produce(*(f"b{number}" for number in range(40)))
    assert pipeline.lag() == 40
    again = pipeline.start()
    eventually(lambda: pipeline.lag() == 0, "the rest is read", BATCH_TIMEOUT_S)
    assert again.stop()

    assert pipeline.written() == Counter(
        [f"A{number}" for number in range(60)] + [f"B{number}" for number in range(40)]
    )
    commits = pipeline.kafka.commits(pipeline.spec.group_id, pipeline.source).values()
    assert {marked_query(commit.metadata) for commit in commits} == {query.id}
    assert again.id == query.id
    # Every batch was seen once, by watchers and counters alike.
    assert sum(progress.input_rows for progress in pipeline.seen) == 100
    assert pipeline.metric("ottla_query_input_rows_total") == 100
    assert pipeline.metric("ottla_query_running") == 0
    batches = [progress.batch_id for progress in pipeline.seen if progress.is_batch]
    assert len(batches) == len(set(batches))


def test_many_short_batches_are_all_seen(pipeline: Pipeline) -> None:
    pipeline.spec = replace(
        pipeline.spec,
        sources=[KafkaSource(pipeline.kafka.bootstrap, [pipeline.source], max_offsets_per_trigger=10)],
    )
    pipeline.produce(*(str(number) for number in range(100)))

    pipeline.run()

    assert sum(progress.input_rows for progress in pipeline.seen) == 100
    assert pipeline.metric("ottla_query_batches_total") == len([p for p in pipeline.seen if p.is_batch]) >= 10
    assert pipeline.lag() == 0


def test_stopping_finishes_the_batch_that_runs(pipeline: Pipeline) -> None:
    pipeline.produce("slow")

    def slowly(frame: DataFrame) -> DataFrame:
        def sleep(value: str) -> str:
            time.sleep(1.5)
            return value

        return frame.select("key", F.udf(sleep, "STRING")(F.col("value").cast("string")).alias("value"))

    query = pipeline.start(slowly)
    planned = Path(pipeline.spec.checkpoint) / "offsets" / "0"
    eventually(planned.exists, "a batch runs")

    assert query.stop()

    assert pipeline.written() == Counter(["slow"])
    assert pipeline.lag() == 0


def test_the_users_traceback_stays_whole_and_the_failure_is_one_line(pipeline: Pipeline) -> None:
    pipeline.produce("7")

    def explode(value: str) -> str:
        raise ValueError(f"no record like {value}")

    def transform(frame: DataFrame) -> DataFrame:
        return frame.select("key", F.udf(explode, "STRING")(F.col("value").cast("string")).alias("value"))

    with pytest.raises(QueryError, match=r"ValueError: no record like 7$") as raised:
        pipeline.start(transform).await_termination(BATCH_TIMEOUT_S)

    assert "\n" not in str(raised.value)
    assert raised.value.failure is not None
    assert raised.value.failure.traceback is not None
    assert "in explode" in raised.value.failure.traceback
    assert "at org.apache.spark" not in raised.value.failure.traceback
    assert pipeline.metric("ottla_query_failures_total") == 1
    assert pipeline.runner.queries[0].state is QueryState.FAILED


def test_changed_code_without_state_goes_on_from_the_checkpoint(pipeline: Pipeline) -> None:
    pipeline.produce("a")
    pipeline.run()
    pipeline.produce("b")
    pipeline.run(lambda frame: frame.selectExpr("key", "concat(value, value) AS value").where("true"))
    assert pipeline.written() == Counter(["A", "bb"])


def test_changed_state_stops_the_start_with_one_line(pipeline: Pipeline) -> None:
    def counted(*keys: str) -> Transform:
        return lambda frame: (
            frame.groupBy(*keys).count().selectExpr("CAST(count AS STRING) AS key", "'' AS value")
        )

    pipeline.produce("a", "b")
    pipeline.run(counted("key"))
    pipeline.produce("c")
    for changed in (counted("key", "partition"), upper):
        with pytest.raises(QueryError, match="made by other code: keep the checkpoint and give") as raised:
            pipeline.run(changed)
        assert "\n" not in str(raised.value)
    # The code it had goes on.
    pipeline.run(counted("key"))
    assert pipeline.lag() == 0


def test_a_lost_checkpoint_is_refused_until_the_user_says_from_where(pipeline: Pipeline) -> None:
    pipeline.produce("a", "b", "c")
    pipeline.run()
    shutil.rmtree(pipeline.spec.checkpoint)
    pipeline.produce("d")

    with pytest.raises(LostCheckpointError, match=r"has read .*-in up to 3 .* is gone: put it back"):
        pipeline.start()
    assert pipeline.written() == Counter(["A", "B", "C"])

    pipeline.run(on_lost=LostCheckpoint.FROM_GROUP)
    assert pipeline.written() == Counter(["A", "B", "C", "D"])

    shutil.rmtree(pipeline.spec.checkpoint)
    pipeline.run(on_lost=LostCheckpoint.FROM_BEGINNING)
    assert pipeline.written() == Counter(["A", "B", "C", "D"] * 2)
    # and from then on it is a query like any other
    pipeline.run()


def test_a_checkpoint_of_another_query_stops_the_start(pipeline: Pipeline, tmp_path: Path) -> None:
    pipeline.produce("a")
    pipeline.run()
    elsewhere = replace(pipeline.spec, name=f"{pipeline.spec.name}-2", checkpoint=tmp_path / "another")
    admission = pipeline.runner.admit(replace(elsewhere, trigger=AvailableNow()))
    pipeline.runner.start(admission, pipeline.writer(admission.sources)).await_termination(BATCH_TIMEOUT_S)

    with pytest.raises(LostCheckpointError, match="does not belong to query"):
        pipeline.runner.admit(replace(elsewhere, name=pipeline.spec.name))


def test_a_new_query_starts_from_a_timestamp_and_an_old_one_goes_on(pipeline: Pipeline) -> None:
    for at_ms, value in ((1_000, "early"), (5_000, "late")):
        produce(pipeline.kafka.bootstrap, pipeline.source, [{"value": value, "timestamp": at_ms}])
    pipeline.spec = replace(pipeline.spec, start_from_timestamp_ms=2_000)

    assert pipeline.run().admission.beginning is Beginning.NEW
    produce(pipeline.kafka.bootstrap, pipeline.source, [{"value": "old", "timestamp": 1_500}])
    assert pipeline.run().admission.beginning is Beginning.CHECKPOINT

    assert pipeline.written() == Counter(["LATE", "OLD"])
    assert pipeline.lag() == 0


def test_a_query_that_was_reset_is_a_new_one(pipeline: Pipeline) -> None:
    pipeline.produce("a")
    pipeline.run()

    removed = reset_query(pipeline.spec)

    assert [text.split()[0] for text in removed] == ["checkpoint", "group"]
    assert not list(Path(pipeline.spec.checkpoint).parent.iterdir())
    assert reset_query(pipeline.spec) == []
    assert pipeline.run().admission.beginning is Beginning.NEW
    assert pipeline.written() == Counter(["A", "A"])


def test_a_reset_that_was_killed_half_way_is_finished_by_the_next(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.produce("a")
    pipeline.run()
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(
            KafkaCluster, "delete_group", lambda self, group: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        reset_query(pipeline.spec)
    with pytest.raises(LostCheckpointError):
        pipeline.runner.admit(pipeline.spec)

    reset_query(pipeline.spec)

    assert pipeline.runner.admit(pipeline.spec).beginning is Beginning.NEW
    assert not list(Path(pipeline.spec.checkpoint).parent.iterdir())


def test_a_query_over_a_topic_that_is_not_there_is_one_line(pipeline: Pipeline) -> None:
    spec = replace(pipeline.spec, sources=[KafkaSource(pipeline.kafka.bootstrap, ["nowhere"])])
    with pytest.raises(SourceError, match=r"^topic nowhere does not exist on [\d.:]+: create it first$"):
        pipeline.runner.admit(spec)


def test_two_queries_of_one_name_are_one_too_many(pipeline: Pipeline) -> None:
    pipeline.start()
    with pytest.raises(QueryError, match="is already running"):
        pipeline.start()
