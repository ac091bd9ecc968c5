"""One unit of the exactly-once sink at a time, as the JVM writes it: attempts that race, die or come late."""

from __future__ import annotations

import os
import random
import re
import time
from dataclasses import replace
from threading import Timer
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from ottla.client.cluster import KafkaCluster
from ottla.pipeline.sink.exactly_once import check_sink, reset_sink
from ottla.pipeline.sink.exactly_once_clients import client_access
from ottla.pipeline.sink.exactly_once_jvm import jvm_options
from ottla.pipeline.sink.exactly_once_ledger import ledger_topic, read_ledger, read_ledger_topic, unit_group
from ottla.pipeline.sink.exactly_once_settings import Identity, SinkSettings
from ottla.pipeline.sink.exactly_once_writer import TaskPlace
from support.clients.confluent import create_topic, eventually
from support.servers.cluster import Cluster

pytestmark = pytest.mark.spark
PLACE = TaskPlace(batch_id=7, query_id="query-1", run_id="run-1", task=0, shuffle_partitions="2")


@pytest.fixture
def sink(cluster: Cluster, unique_name: str) -> SinkSettings:
    create_topic(cluster.bootstrap, unique_name, 2, {"max.message.bytes": "2000"})
    return SinkSettings(cluster.bootstrap, unique_name, Identity.SOURCE, unique_name)


def opened(spark: SparkSession, sink: SinkSettings, place: TaskPlace, unit: str = "in-0") -> Any:
    """A unit whose producer has fenced those before it. Raises what the JVM raises."""
    options = jvm_options(spark, sink)
    assert options is not None, "the session's JVM lacks the classes"
    classes: Any = spark._jvm.ottla.pipeline  # type: ignore[union-attr]
    where = classes.Place(place.batch_id, place.query_id, place.run_id, place.task, place.shuffle_partitions)
    return classes.ExactlyOnceUnit.open(classes.SinkOptions(options), where, unit)


def send(unit: Any, topic: str, *values: bytes) -> None:
    for value in values:
        unit.send(topic, None, None, None, bytearray(value), None)


def write(spark: SparkSession, sink: SinkSettings, place: TaskPlace, *values: bytes) -> bool:
    """Whether the rows were written; False: the batch was there already."""
    unit = opened(spark, sink, place)
    if unit.isWritten():
        return False
    try:
        send(unit, sink.topic, *values)
        unit.commit()
    finally:
        unit.abort()
    return True


def refusal(spark: SparkSession, sink: SinkSettings, place: TaskPlace, *values: bytes) -> str:
    with pytest.raises(Py4JJavaError) as raised:
        write(spark, sink, place, *values)
    return message_of(raised.value)


def message_of(error: Py4JJavaError) -> str:
    return str(error.java_exception.getMessage())


def written(sink: SinkSettings) -> list[bytes | None]:
    return sorted(message.value() for message in KafkaCluster(sink.bootstrap).read(sink.topic))


def test_a_unit_is_written_and_then_skipped(spark: SparkSession, sink: SinkSettings) -> None:
    assert write(spark, sink, PLACE, b"a", b"b")
    assert not write(spark, sink, PLACE, b"a", b"b")
    assert not write(spark, sink, replace(PLACE, run_id="run-2", task=5), b"a")
    assert write(spark, sink, replace(PLACE, batch_id=8), b"c")
    assert written(sink) == [b"a", b"b", b"c"]


def test_rows_and_ledger_are_committed_together(spark: SparkSession, sink: SinkSettings) -> None:
    unit = opened(spark, sink, PLACE)
    send(unit, sink.topic, b"a")
    group, access = unit_group(sink.query_name, "in-0"), client_access(sink)
    unit.abort()
    assert written(sink) == []
    assert read_ledger(access, group, sink.topic) is None

    assert write(spark, sink, PLACE, b"a")
    entry = read_ledger(access, group, sink.topic)
    assert entry is not None
    assert (entry.next_batch, entry.query_id, entry.run_id, entry.task) == (8, "query-1", "run-1", 0)
    assert read_ledger_topic(access, group, ledger_topic(sink.query_name)) == {group: entry}
    check_sink(sink.bootstrap, sink.query_name, "query-1", identity=Identity.SOURCE)


def test_an_attempt_that_was_overtaken_cannot_commit(spark: SparkSession, sink: SinkSettings) -> None:
    early = opened(spark, sink, PLACE)
    send(early, sink.topic, b"a")
    assert write(spark, sink, PLACE, b"a")

    with pytest.raises(Py4JJavaError) as raised:
        early.commit()
    early.abort()

    assert "another attempt of the task has taken over" in message_of(raised.value)
    assert written(sink) == [b"a"]


def test_a_kept_producer_that_was_fenced_commits_nothing(spark: SparkSession, sink: SinkSettings) -> None:
    """Two processes, as two runs: the second writes a batch, and the first one's producer is of no use."""
    assert write(spark, sink, PLACE, b"a")
    kept = opened(spark, sink, replace(PLACE, batch_id=8))  # takes the kept producer out
    assert write(spark, sink, replace(PLACE, batch_id=8), b"b")
    with pytest.raises(Py4JJavaError) as raised:
        send(kept, sink.topic, b"b")
        kept.commit()
    kept.abort()

    assert "another attempt of the task has taken over" in message_of(raised.value)
    assert not write(spark, sink, replace(PLACE, batch_id=8), b"b")
    assert written(sink) == [b"a", b"b"]


def test_a_later_run_reads_the_ledger_again(spark: SparkSession, sink: SinkSettings) -> None:
    """A reset between two runs in one process: the kept producer's entry is not believed."""
    assert write(spark, sink, PLACE, b"a")
    assert reset_sink(sink.bootstrap, sink.query_name)
    assert write(spark, sink, replace(PLACE, run_id="run-2"), b"a again")
    assert written(sink) == [b"a", b"a again"]


def test_a_batch_is_known_when_kafka_has_forgotten_its_groups(
    spark: SparkSession, sink: SinkSettings
) -> None:
    assert write(spark, sink, PLACE, b"a")
    assert KafkaCluster(sink.bootstrap).delete_group(unit_group(sink.query_name, "in-0"))
    later = replace(PLACE, run_id="run-2")
    assert not write(spark, sink, later, b"a")
    assert (
        KafkaCluster(sink.bootstrap).topic_settings(ledger_topic(sink.query_name))["cleanup.policy"]
        == "compact"
    )


def test_what_does_not_fit_the_ledger_is_refused(spark: SparkSession, sink: SinkSettings) -> None:
    by_task = replace(sink, identity=Identity.TASK)
    assert write(spark, by_task, PLACE, b"a")

    other_numbers = replace(PLACE, run_id="run-2", shuffle_partitions="4")
    assert "comes again with 4: set spark.sql.shuffle.partitions back" in refusal(
        spark, by_task, other_numbers
    )
    assert "tasks 0 and 1 of one batch have rows of the same" in refusal(
        spark, by_task, replace(PLACE, task=1)
    )
    older = replace(PLACE, batch_id=6, run_id="run-2")
    assert "batch 7 is written already, so this checkpoint is older" in refusal(spark, by_task, older)
    other = replace(PLACE, query_id="query-2", run_id="run-2")
    assert f"reset_sink('{sink.query_name}')" in refusal(spark, by_task, other)
    assert written(sink) == [b"a"]


def test_a_topic_that_is_not_there_is_named(spark: SparkSession, sink: SinkSettings) -> None:
    missing = replace(sink, topic=f"{sink.topic}-missing")
    assert f"topic {missing.topic} does not exist on {sink.bootstrap}: create it" in refusal(
        spark, missing, PLACE, b"a"
    )


def test_a_record_that_is_too_large_is_named_and_nothing_is_written(
    spark: SparkSession, sink: SinkSettings
) -> None:
    message = refusal(spark, sink, PLACE, b"a", os.urandom(4_000))
    assert f"query {sink.query_name}, batch 7, unit in-0: topic {sink.topic}: " in message
    assert re.search("larger than the max message size|max.message.bytes is 2000", message)
    assert written(sink) == []
    assert write(spark, sink, PLACE, b"a")


def test_records_as_large_as_the_topic_takes_are_written_by_producers_that_make_room(
    spark: SparkSession, cluster: Cluster, unique_name: str
) -> None:
    """Kept producers keep the memory in which they held their records: an eighth of the heap, all in all."""
    create_topic(cluster.bootstrap, unique_name, 1, {"max.message.bytes": "40000000"})
    sink = SinkSettings(cluster.bootstrap, unique_name, Identity.SOURCE, unique_name)
    large = 34 << 20
    jvm: Any = spark._jvm
    value = spark.sparkContext._gateway.new_array(jvm.byte, large)  # type: ignore[union-attr]

    def producers() -> int:
        threads = jvm.java.lang.Thread.getAllStackTraces().keySet()
        return sum(f"producer-{unique_name}-sink-" in thread.getName() for thread in threads)

    most = jvm.java.lang.Runtime.getRuntime().maxMemory() // 8 // large
    for number in range(most + 2):
        unit = opened(spark, sink, PLACE, f"in-{number}")
        unit.send(sink.topic, None, None, None, value, None)
        unit.commit()
        assert producers() == min(number + 1, most)
    assert KafkaCluster(cluster.bootstrap).end_positions(unique_name) == {0: 2 * (most + 2)}


def test_a_commit_that_is_interrupted_leaves_no_transaction_open(
    spark: SparkSession, sink: SinkSettings
) -> None:
    """Interrupted at random, as by the end of a query: rows are there if the commit says so."""
    kafka = KafkaCluster(sink.bootstrap)
    places = [(topic, p) for topic in (sink.topic, ledger_topic(sink.query_name)) for p in (0, 1)][:3]
    chance = random.Random(1)
    jvm: Any = spark._jvm
    done, seconds = [], 0.05

    for batch in range(40):
        unit = opened(spark, sink, replace(PLACE, batch_id=batch))
        send(unit, sink.topic, b"%d" % batch)
        # The first commits are not interrupted, and say how long one takes.
        after = chance.uniform(0, seconds) if batch > 4 else 0.0
        interrupt = Timer(after, jvm.java.lang.Thread.currentThread().interrupt)
        begin = time.monotonic()
        if after:
            interrupt.start()
        try:
            unit.commit()
            done.append(b"%d" % batch)
            seconds = time.monotonic() - begin
        except Py4JJavaError as error:
            assert "Interrupt" in str(error.java_exception)
        finally:
            if after:
                interrupt.join()
            jvm.java.lang.Thread.interrupted()
            unit.abort()
        eventually(
            lambda: kafka.ends_of(places) == kafka.ends_of(places, committed=False), "no transaction is open"
        )

    assert written(sink) == sorted(done)


def test_options_that_java_lacks_leave_the_writing_to_python(spark: SparkSession, sink: SinkSettings) -> None:
    with_options = replace(sink, client_options={"queue.buffering.max.messages": "10"})
    assert jvm_options(spark, with_options) is None
    options = jvm_options(spark, replace(sink, client_options={"linger.ms": "3", "client.id": "me"}))
    assert options is not None
    assert options["producer.linger.ms"] == "3"
    assert options["secret.kafka.client.id"] == "me"


def test_a_ledger_of_another_writer_is_refused(spark: SparkSession, sink: SinkSettings) -> None:
    group = unit_group(sink.query_name, "in-0")
    KafkaCluster(sink.bootstrap).commit(group, sink.topic, {0: 3}, "somebody's")
    message = refusal(spark, sink, PLACE, b"a")
    assert f"group {group} holds offsets that are not this sink's" in message
