"""A query in real-time mode, and what came out of it while its first batch was still running."""

from __future__ import annotations

from dataclasses import dataclass

from confluent_kafka import Producer

from ottla.client.cluster import KafkaCluster
from ottla.pipeline.query.checkpoints import Checkpoint
from ottla.pipeline.query.query import QueryRunner
from ottla.pipeline.query.query_spec import QuerySpec
from ottla.pipeline.query.realtime import REAL_TIME_OUTPUT_MODE, PlanFacts, choose_mode
from ottla.pipeline.query.source import KafkaSource, read_stream
from ottla.pipeline.query.topics import stream_to
from ottla.pipeline.spark.paths import local_path
from ottla.pipeline.spark.session import SparkPipelineSession

RECORDS = 5
BATCH_MS = 120_000
FIRST_RECORD_TIMEOUT_S = 90.0


@dataclass(frozen=True, slots=True)
class Observed:
    """finished_batch: the last batch that had ended when all records were through, or None."""

    mode: str
    received: list[str]
    finished_batch: int | None
    failure: str | None
    cut_short: bool


def observe(session: SparkPipelineSession, bootstrap: str, topic: str) -> Observed:
    """Send records through a query from `topic` to `<topic>-out`, one after the other; then stop it."""
    kafka = KafkaCluster(bootstrap)
    mode = choose_mode(PlanFacts(exactly_once=False, source_partitions=1, cores=2), session.spark.version)
    spec = QuerySpec(
        f"{topic}-query",
        session.checkpoint_of(f"{topic}-query"),
        [KafkaSource(bootstrap, [topic])],
        mode.trigger(real_time_batch_ms=BATCH_MS),
    )
    runner = QueryRunner(session.spark)
    admission = runner.admit(spec)
    frame = read_stream(session.spark, admission.sources[0])
    upper = frame.selectExpr("key", "upper(CAST(value AS STRING)) AS value")
    writer = stream_to(upper, bootstrap, f"{topic}-out").outputMode(REAL_TIME_OUTPUT_MODE)
    query = runner.start(admission, writer)
    producer = Producer(kafka.producer_options())
    consumer = kafka.follow([f"{topic}-out"])
    received: list[str] = []
    for number in range(RECORDS):  # one at a time: each must come out before the next goes in
        producer.produce(topic, f"a{number}")
        producer.flush(10)
        message = consumer.poll(FIRST_RECORD_TIMEOUT_S)
        while message is not None and message.error() is not None:
            message = consumer.poll(FIRST_RECORD_TIMEOUT_S)
        received.append("" if message is None else (message.value() or b"").decode())
    consumer.close()
    path = local_path(spec.checkpoint)
    assert path is not None
    finished = Checkpoint(path).last_finished_batch
    failure = query.failure
    cut_short = not query.stop(timeout_seconds=0.5)
    runner.close()
    return Observed(str(mode), received, finished, None if failure is None else str(failure), cut_short)
