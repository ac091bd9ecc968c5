"""One unit of the exactly-once sink at a time, without Spark: attempts that race, die or come late."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from ottla.client.access import ClusterAccess
from ottla.client.cluster import KafkaCluster
from ottla.pipeline.sink import exactly_once_clients, exactly_once_writer
from ottla.pipeline.sink.exactly_once import check_sink, reset_sink
from ottla.pipeline.sink.exactly_once_clients import UNIT_PRODUCERS, UnitProducer, client_access
from ottla.pipeline.sink.exactly_once_ledger import (
    LedgerEntry,
    ledger_topic,
    read_ledger,
    read_ledger_topic,
    unit_group,
)
from ottla.pipeline.sink.exactly_once_settings import Identity, SinkError, SinkSettings
from ottla.pipeline.sink.exactly_once_writer import TaskPlace, UnitResult, write_task
from support.clients.confluent import create_topic, produce
from support.servers.cluster import Cluster

PLACE = TaskPlace(batch_id=7, query_id="query-1", run_id="run-1", task=0, shuffle_partitions="2")


@pytest.fixture
def sink(cluster: Cluster, unique_name: str) -> SinkSettings:
    create_topic(cluster.bootstrap, unique_name, 2, {"max.message.bytes": "2000"})
    return SinkSettings(cluster.bootstrap, unique_name, Identity.SOURCE, unique_name)


def rows(*values: bytes | None, partition: int = 0) -> pa.RecordBatch:
    source = [{"topic": "in", "partition": partition}] * len(values)
    return pa.record_batch({"value": pa.array(values, pa.binary()), "source": source})


def write(sink: SinkSettings, place: TaskPlace, *batches: pa.RecordBatch) -> UnitResult | None:
    return write_task(sink, place, iter(batches), lambda: None)


def written(sink: SinkSettings) -> list[bytes | None]:
    return sorted(message.value() for message in KafkaCluster(sink.bootstrap).read(sink.topic))


def test_a_unit_is_written_and_then_skipped(sink: SinkSettings) -> None:
    assert write(sink, PLACE, rows(b"a", b"b"), rows(b"c")) == UnitResult("in-0", 3, skipped=False)
    assert write(sink, PLACE, rows(b"a", b"b"), rows(b"c")) == UnitResult("in-0", 0, skipped=True)
    assert write(sink, replace(PLACE, run_id="run-2", task=5), rows(b"a")) == UnitResult(
        "in-0", 0, skipped=True
    )
    assert write(sink, replace(PLACE, batch_id=8), rows(b"d")) == UnitResult("in-0", 1, skipped=False)
    assert write(sink, PLACE, rows(b"e", partition=1)) == UnitResult("in-1", 1, skipped=False)

    assert written(sink) == [b"a", b"b", b"c", b"d", b"e"]


def test_a_task_without_rows_leaves_no_trace(sink: SinkSettings) -> None:
    assert write(sink, PLACE, rows(), rows()) is None
    assert reset_sink(sink.bootstrap, sink.query_name) == []


def test_an_attempt_that_was_overtaken_cannot_commit(sink: SinkSettings) -> None:
    """The first attempt hangs in the middle of its rows; a second one starts, and ends before it goes on."""

    def hanging() -> Iterator[pa.RecordBatch]:
        yield rows(b"a")
        assert write(sink, PLACE, rows(b"a"), rows(b"b")) == UnitResult("in-0", 2, skipped=False)
        yield rows(b"b")

    with pytest.raises(SinkError, match=r"batch 7, unit in-0: another attempt of the task has taken over"):
        write_task(sink, PLACE, hanging(), lambda: None)

    assert written(sink) == [b"a", b"b"]


def test_an_attempt_that_commits_late_is_fenced_before_its_successor_reads_the_ledger(
    sink: SinkSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first attempt wants to commit as soon as the second one has read that the batch is not written."""
    read, may_end = threading.Event(), threading.Event()

    def slow() -> Iterator[pa.RecordBatch]:
        yield rows(b"a")
        read.set()
        assert may_end.wait(60)

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(write_task, sink, PLACE, slow(), lambda: None)
        assert read.wait(60)

        def read_and_let_the_first_one_end(
            access: ClusterAccess, group: str, topic: str
        ) -> LedgerEntry | None:
            entry = read_ledger(access, group, topic)
            may_end.set()
            first.exception(60)
            return entry

        monkeypatch.setattr(exactly_once_writer, "read_ledger", read_and_let_the_first_one_end)
        assert write(sink, PLACE, rows(b"a")) == UnitResult("in-0", 1, skipped=False)
        with pytest.raises(SinkError, match="another attempt of the task has taken over"):
            first.result(0)

    assert written(sink) == [b"a"]


def test_an_attempt_that_died_is_repeated_at_once(sink: SinkSettings) -> None:
    """It leaves an open transaction, which the next attempt ends rather than waits for."""

    class KilledError(BaseException):
        pass

    def dying() -> Iterator[pa.RecordBatch]:
        yield rows(b"a")
        raise KilledError

    with pytest.raises(KilledError):
        write_task(sink, PLACE, dying(), lambda: None)
    assert write(sink, PLACE, rows(b"a")) == UnitResult("in-0", 1, skipped=False)

    assert written(sink) == [b"a"]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_rows_and_ledger_are_committed_together(
    sink: SinkSettings, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """An attempt dies right before its transaction's end, or right after it."""

    class KilledError(BaseException):
        pass

    class DyingProducer(Producer):
        def commit_transaction(self, *arguments: float) -> None:
            if moment == "after":
                super().commit_transaction(*arguments)
            raise KilledError

    with monkeypatch.context() as dying, pytest.raises(KilledError):
        dying.setattr(exactly_once_clients, "Producer", DyingProducer)
        write(sink, PLACE, rows(b"a"))
    assert write(sink, PLACE, rows(b"a")) == UnitResult(
        "in-0", 0 if moment == "after" else 1, skipped=moment == "after"
    )

    assert written(sink) == [b"a"]


def kept_producer(sink: SinkSettings) -> UnitProducer:
    """The producer that this process keeps for the unit's next batch; it is taken out."""
    producer = UNIT_PRODUCERS.take(sink, unit_group(sink.query_name, "in-0"))
    assert producer is not None
    return producer


def keep(sink: SinkSettings, producer: UnitProducer) -> None:
    UNIT_PRODUCERS.put(sink, unit_group(sink.query_name, "in-0"), producer)


def test_a_unit_s_next_batch_is_written_by_the_same_producer(sink: SinkSettings) -> None:
    write(sink, PLACE, rows(b"a"))
    first = kept_producer(sink)
    keep(sink, first)
    write(sink, replace(PLACE, batch_id=8), rows(b"b"))

    assert kept_producer(sink) is first
    assert written(sink) == [b"a", b"b"]


def test_a_producer_is_given_up_when_another_process_has_written_since(sink: SinkSettings) -> None:
    write(sink, PLACE, rows(b"a"))
    first = kept_producer(sink)
    write(sink, replace(PLACE, batch_id=8), rows(b"b"))
    kept_producer(sink)
    keep(sink, first)

    assert write(sink, replace(PLACE, batch_id=8), rows(b"b")) == UnitResult("in-0", 0, skipped=True)
    keep(sink, first)
    assert write(sink, replace(PLACE, batch_id=9), rows(b"c")) == UnitResult("in-0", 1, skipped=False)
    assert kept_producer(sink) is not first
    assert written(sink) == [b"a", b"b", b"c"]


def test_a_kept_producer_that_was_fenced_commits_nothing(sink: SinkSettings) -> None:
    write(sink, PLACE, rows(b"a"))
    other = UnitProducer(sink, unit_group(sink.query_name, "in-0"), frozenset())
    other.client.init_transactions(15)

    with pytest.raises(SinkError, match="another attempt of the task has taken over"):
        write(sink, replace(PLACE, batch_id=8), rows(b"b"))
    assert written(sink) == [b"a"]
    assert write(sink, replace(PLACE, batch_id=8), rows(b"b")) == UnitResult("in-0", 1, skipped=False)
    assert written(sink) == [b"a", b"b"]


def test_rows_that_broke_off_are_not_committed(sink: SinkSettings) -> None:
    def broken_off() -> None:
        raise SinkError("the rows broke off")

    with pytest.raises(SinkError, match="broke off"):
        write_task(sink, PLACE, iter([rows(b"a")]), broken_off)
    assert write(sink, PLACE, rows(b"a"), rows(b"b")) == UnitResult("in-0", 2, skipped=False)

    assert written(sink) == [b"a", b"b"]


def test_a_checkpoint_that_is_older_than_the_output_is_refused(sink: SinkSettings) -> None:
    write(sink, PLACE, rows(b"a"))

    with pytest.raises(SinkError, match=r"batch 7 is written already, .*reset_sink"):
        write(sink, replace(PLACE, batch_id=6), rows(b"a"))


def test_another_querys_output_is_refused_until_it_is_forgotten(sink: SinkSettings) -> None:
    write(sink, PLACE, rows(b"a"))
    stranger = replace(PLACE, query_id="query-2", batch_id=0)

    with pytest.raises(SinkError, match=r"written by query query-1 and now query query-2"):
        write(sink, stranger, rows(b"b"))
    with pytest.raises(SinkError, match="now a new checkpoint"):
        check_sink(sink.bootstrap, sink.query_name, None)
    check_sink(sink.bootstrap, sink.query_name, "query-1", identity=Identity.SOURCE)
    with pytest.raises(SinkError, match=r"was written by source and is now to be written by task"):
        check_sink(sink.bootstrap, sink.query_name, "query-1", identity=Identity.TASK)

    assert reset_sink(sink.bootstrap, sink.query_name) == [f"{sink.query_name}-sink-in-0"]
    check_sink(sink.bootstrap, sink.query_name, None)
    write(sink, stranger, rows(b"b"))
    assert written(sink) == [b"a", b"b"]


def test_a_reset_leaves_queries_whose_names_begin_alike(sink: SinkSettings) -> None:
    longer = replace(sink, query_name=f"{sink.query_name}-sink-daily")
    write(sink, PLACE, rows(b"a"))
    write(longer, PLACE, rows(b"b"))

    assert reset_sink(sink.bootstrap, sink.query_name) == [unit_group(sink.query_name, "in-0")]
    assert write(longer, PLACE, rows(b"b")) == UnitResult("in-0", 0, skipped=True)


def forget_groups(sink: SinkSettings) -> None:
    """Delete the groups, as `offsets.retention.minutes` would; and keep no producer, as in a new process."""
    cluster = KafkaCluster(sink.bootstrap)
    groups = cluster.groups(unit_group(sink.query_name, ""))
    assert groups
    for group in groups:
        UNIT_PRODUCERS.take(sink, group)
        assert cluster.delete_group(group)


def test_a_batch_is_known_when_kafka_has_forgotten_its_groups(sink: SinkSettings) -> None:
    """One unit had committed and another not when the application died; it comes back after a long time."""
    write(sink, PLACE, rows(b"a"))
    write(sink, replace(PLACE, batch_id=6), rows(b"b", partition=1))
    forget_groups(sink)

    check_sink(sink.bootstrap, sink.query_name, "query-1", begun_ms=0)
    again = replace(PLACE, run_id="run-2", task=1)
    assert write(sink, again, rows(b"a")) == UnitResult("in-0", 0, skipped=True)
    assert write(sink, again, rows(b"c", partition=1)) == UnitResult("in-1", 1, skipped=False)
    assert write(sink, replace(again, batch_id=8), rows(b"d")) == UnitResult("in-0", 1, skipped=False)
    assert written(sink) == [b"a", b"b", b"c", b"d"]


def test_what_is_refused_is_refused_when_kafka_has_forgotten_its_groups(sink: SinkSettings) -> None:
    write(sink, PLACE, rows(b"a"))
    forget_groups(sink)

    with pytest.raises(SinkError, match="now a new checkpoint"):
        check_sink(sink.bootstrap, sink.query_name, None)
    with pytest.raises(SinkError, match="now query query-2"):
        write(sink, replace(PLACE, query_id="query-2", batch_id=0), rows(b"a"))
    with pytest.raises(SinkError, match=r"batch 7 is written already, .*reset_sink"):
        write(sink, replace(PLACE, batch_id=6), rows(b"a"))

    assert reset_sink(sink.bootstrap, sink.query_name) == [unit_group(sink.query_name, "in-0")]
    check_sink(sink.bootstrap, sink.query_name, None, begun_ms=0)
    assert write(sink, replace(PLACE, query_id="query-2", batch_id=0), rows(b"b")) is not None
    assert written(sink) == [b"a", b"b"]


@pytest.mark.parametrize("ending", ["commit", "abort"])
def test_a_ledger_is_read_behind_transactions_of_others_that_are_open(
    sink: SinkSettings, ending: str
) -> None:
    """Another unit hangs right before its commit, with its record in front of ours."""
    write(sink, PLACE, rows(b"a"))
    other = UnitProducer(sink, unit_group(sink.query_name, "in-1"), frozenset())
    other.client.init_transactions(15)
    other.client.begin_transaction()
    entry = LedgerEntry(9, sink.query_name, "query-1", "run-1", Identity.SOURCE, 0, "2")
    other.client.produce(ledger_topic(sink.query_name), entry.record(), unit_group(sink.query_name, "in-1"))
    assert other.client.flush(15) == 0
    assert write(sink, replace(PLACE, batch_id=8), rows(b"b")) == UnitResult("in-0", 1, skipped=False)
    forget_groups(sink)

    check_sink(sink.bootstrap, sink.query_name, "query-1")  # does not wait
    with ThreadPoolExecutor(1) as pool:
        replay = pool.submit(write, sink, replace(PLACE, batch_id=8), rows(b"b"))
        with pytest.raises(TimeoutError):
            replay.result(0.3)
        other.client.commit_transaction(15) if ending == "commit" else other.client.abort_transaction(15)
        assert replay.result(60) == UnitResult("in-0", 0, skipped=True)
    found = read_ledger_topic(
        client_access(sink), unit_group(sink.query_name, ""), ledger_topic(sink.query_name)
    )
    expected = {"in-0": 9} | ({"in-1": 9} if ending == "commit" else {})
    assert {group: entry.next_batch for group, entry in found.items()} == {
        unit_group(sink.query_name, unit): next_batch for unit, next_batch in expected.items()
    }


def test_a_ledger_that_would_forget_is_refused(sink: SinkSettings) -> None:
    topic = ledger_topic(sink.query_name)
    create_topic(sink.bootstrap, topic, 1, {"cleanup.policy": "compact,delete"})

    with pytest.raises(SinkError, match=f"topic {topic}, has cleanup.policy=.* set it to compact"):
        write(sink, PLACE, rows(b"a"))
    assert written(sink) == []


def test_a_ledger_of_another_writer_is_refused(sink: SinkSettings) -> None:
    topic = ledger_topic(sink.query_name)
    create_topic(sink.bootstrap, topic, 1, {"cleanup.policy": "compact"})
    produce(sink.bootstrap, topic, [{"key": b"k", "value": b"theirs"}])

    with pytest.raises(SinkError, match=f"topic {topic} holds records that are not this sink's"):
        write(sink, PLACE, rows(b"a"))


def test_a_query_that_no_topic_could_be_named_after_has_a_ledger(sink: SinkSettings) -> None:
    named = replace(sink, query_name=f"{sink.query_name} / sizes: S, M & L")
    write(named, PLACE, rows(b"a"))
    forget_groups(named)

    assert write(named, PLACE, rows(b"a")) == UnitResult("in-0", 0, skipped=True)


def test_a_forgotten_batch_is_refused_until_the_sink_is_reset(sink: SinkSettings) -> None:
    """As a former version of the sink left it: without a ledger topic, and its groups are forgotten."""
    long_ago = int((time.time() - 8 * 86_400) * 1000)
    write(sink, PLACE, rows(b"a"))
    KafkaCluster(sink.bootstrap).remove_topic(ledger_topic(sink.query_name))
    check_sink(sink.bootstrap, sink.query_name, "query-1", begun_ms=long_ago)  # its group remembers
    forget_groups(sink)

    check_sink(sink.bootstrap, sink.query_name, "query-1")  # all batches are done
    check_sink(sink.bootstrap, sink.query_name, "query-1", begun_ms=int(time.time() * 1000))
    with pytest.raises(SinkError, match=r"is not finished, and it is unknown .* reset_sink\("):
        check_sink(sink.bootstrap, sink.query_name, "query-1", begun_ms=long_ago)
    assert reset_sink(sink.bootstrap, sink.query_name) == []
    check_sink(sink.bootstrap, sink.query_name, "query-1", begun_ms=long_ago)


def test_rows_of_two_source_partitions_in_a_task_are_refused(sink: SinkSettings) -> None:
    both = pa.concat_batches([rows(b"a", partition=0), rows(b"b", partition=1)])

    for batches in ([both], [rows(b"a", partition=0), rows(b"b", partition=1)]):
        with pytest.raises(SinkError, match="one task has rows of several source partitions"):
            write(sink, PLACE, *batches)
    assert written(sink) == []


def test_two_tasks_with_rows_of_one_source_partition_are_refused(sink: SinkSettings) -> None:
    write(sink, PLACE, rows(b"a"))

    with pytest.raises(SinkError, match="tasks 0 and 1 of one batch have rows of the same source partition"):
        write(sink, replace(PLACE, task=1), rows(b"b"))


def test_another_number_of_shuffle_partitions_is_refused(sink: SinkSettings) -> None:
    by_task = replace(sink, identity=Identity.TASK)
    write(by_task, PLACE, rows(b"a"))
    assert write(by_task, PLACE, rows(b"a")) == UnitResult("0", 0, skipped=True)

    with pytest.raises(SinkError, match="2 shuffle partitions and comes again with 3"):
        write(by_task, replace(PLACE, shuffle_partitions="3"), rows(b"a"))


def test_a_topic_that_is_not_there_is_named(sink: SinkSettings) -> None:
    with pytest.raises(SinkError, match=r"batch 7, unit in-0: topic nowhere does not exist .*create it"):
        write(replace(sink, topic="nowhere"), PLACE, rows(b"a"))


def test_a_record_that_is_too_large_is_named_and_nothing_is_written(sink: SinkSettings) -> None:
    with pytest.raises(SinkError, match=rf"batch 7, unit in-0: topic {sink.topic}: .*too large"):
        write(sink, PLACE, rows(b"a"), rows(os.urandom(5000)))

    assert written(sink) == []


def test_a_group_of_another_writer_is_refused(sink: SinkSettings) -> None:
    group = unit_group(sink.query_name, "in-0")
    KafkaCluster(sink.bootstrap).commit(group, sink.topic, {0: 3})

    with pytest.raises(SinkError, match=f"group {group} holds offsets that are not this sink's"):
        write(sink, PLACE, rows(b"a"))


def test_a_ledger_names_its_writer(sink: SinkSettings) -> None:
    write(sink, PLACE, rows(b"a"))

    entry = read_ledger(client_access(sink), unit_group(sink.query_name, "in-0"), sink.topic)

    assert entry == LedgerEntry(8, sink.query_name, "query-1", "run-1", Identity.SOURCE, 0, "2")
    assert json.loads(entry.metadata())["query"] == "query-1"
