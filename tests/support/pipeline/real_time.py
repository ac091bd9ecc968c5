"""A query in real-time mode, in a process of its own on a Spark that has it (4.1 and newer).

Run as a program by that Spark's Python: `python -m support.pipeline.real_time DIRECTORY BOOTSTRAP TOPIC`.
Prints a line of JSON: which mode, and what came out of the query while its first batch was still running.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from ottla.client.cluster import KafkaCluster
from ottla.pipeline.query.checkpoints import Checkpoint
from ottla.pipeline.query.query import QueryRunner
from ottla.pipeline.query.query_spec import QuerySpec
from ottla.pipeline.query.realtime import REAL_TIME_OUTPUT_MODE, PlanFacts, choose_mode
from ottla.pipeline.query.source import KafkaSource, read_stream
from ottla.pipeline.query.topics import stream_to
from ottla.pipeline.spark.paths import local_path
from ottla.pipeline.spark.session import SparkSettings, start_session

RECORDS = 5
BATCH_MS = 120_000
FIRST_RECORD_TIMEOUT_S = 90.0


def main(directory: Path, bootstrap: str, topic: str) -> dict[str, Any]:
    session = start_session(SparkSettings("real time", directory, master="local[2]", quick_start=True))
    kafka = KafkaCluster(bootstrap)
    facts = PlanFacts(exactly_once=False, source_partitions=1, cores=2)
    mode = choose_mode(facts, session.spark.version)
    spec = QuerySpec(
        f"{topic}-query",
        session.checkpoint_of("query"),
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
    session.close()
    return {
        "mode": str(mode),
        "received": received,
        "finished_batch": finished,
        "failure": None if failure is None else str(failure),
        "cut_short": cut_short,
    }


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])))
