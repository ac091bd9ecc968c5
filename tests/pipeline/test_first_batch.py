"""The first batch of a run is small, and the next ones have the size that was asked for."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ottla.client.cluster import KafkaCluster, Topic
from ottla.pipeline.query.query import QueryRunner
from ottla.pipeline.query.query_spec import QuerySpec
from ottla.pipeline.query.source import KafkaSource, read_stream
from support.clients.confluent import eventually, produce
from support.servers.cluster import Cluster

FIRST, RECORDS = 7, 60


@pytest.mark.parametrize("largest", [None, 25, 5])
def test_batches_behind_the_first_are_of_full_size(
    spark: SparkSession, cluster: Cluster, unique_name: str, tmp_path: Path, largest: int | None
) -> None:
    kafka = KafkaCluster(cluster.bootstrap)
    kafka.ensure_topics([Topic(unique_name)])
    produce(cluster.bootstrap, unique_name, [{"value": f"{number}"} for number in range(RECORDS)])
    source = KafkaSource(
        cluster.bootstrap,
        [unique_name],
        max_offsets_per_trigger=largest,
        first_batch_records=FIRST,
        read_committed=False,
    )
    rows: list[int] = []
    runner = QueryRunner(spark, on_progress=lambda _, progress: rows.append(progress.input_rows))
    spec = QuerySpec(f"{unique_name}-query", tmp_path / "checkpoint", [source])

    for total in (RECORDS, 3):
        admission = runner.admit(spec)
        frame = read_stream(spark, admission.sources[0])
        query = runner.start(admission, frame.writeStream.format("noop"))
        eventually(lambda: sum(rows) >= total, f"{total} rows are read", 60)  # noqa: B023
        query.stop()
        batches = [count for count in rows if count]
        first = min(total, largest or FIRST, FIRST)
        assert batches[0] == first
        # On a busy machine Spark may have begun the second batch as well before the limit was raised.
        small = 2 if batches[:2] == [first, first] else 1
        assert batches[small:] == _cut(total - small * first, largest)
        rows.clear()
        produce(cluster.bootstrap, unique_name, [{"value": "more"}] * 3)
    runner.close()


def _cut(records: int, largest: int | None) -> list[int]:
    return [min(largest or records, records - begin) for begin in range(0, records, largest or records or 1)]
