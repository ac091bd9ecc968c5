"""A repeated batch is in the topic once, whatever the first attempt had written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest

from ottla.client.cluster import KafkaCluster
from ottla.client.errors import ClusterError
from ottla.pipeline.sink.topic_output import KeyedRecord, TopicOutput
from support.pipeline.fake_topic import FakeTopic


def output_to(
    topic: FakeTopic, monkeypatch: pytest.MonkeyPatch, dies_after: int | None = None
) -> TopicOutput:
    """An output of a process that has just started; it can die after some records of its next write."""

    def produce(self: TopicOutput, records: Sequence[KeyedRecord]) -> dict[int, int]:
        for number, record in enumerate(records):
            if number == dies_after:
                raise ClusterError("killed")
            topic.append(record.key, record.value)
        return {0: len(topic.messages)} if records else {}

    monkeypatch.setattr(TopicOutput, "_produce", produce)
    return TopicOutput(cast(KafkaCluster, topic), "out")


def batch(*keys: bytes) -> list[KeyedRecord]:
    return [KeyedRecord(key, b"value of " + key, 0) for key in keys]


def test_batches_follow_each_other_and_only_the_first_reads_the_topic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = FakeTopic()
    output = output_to(topic, monkeypatch)

    first = output.write(batch(b"1", b"2"), {})
    second = output.write(batch(b"3"), first)

    assert (first, second) == ({0: 2}, {0: 3})
    assert topic.keys() == [b"1", b"2", b"3"]
    assert topic.reads == [0]


@pytest.mark.parametrize("written_before_the_kill", [0, 1, 2, 3])
def test_a_batch_that_was_killed_in_the_middle_is_completed(
    monkeypatch: pytest.MonkeyPatch, written_before_the_kill: int
) -> None:
    # given: batch 0 is finished, and batch 1 was killed after some of its records
    topic = FakeTopic()
    output = output_to(topic, monkeypatch, dies_after=None)
    before = output.write(batch(b"0"), {})
    for record in batch(b"1", b"2", b"3")[:written_before_the_kill]:
        topic.append(record.key, record.value)

    # when: another process gets batch 1 again
    output_to(topic, monkeypatch).write(batch(b"1", b"2", b"3"), before)

    # then
    assert sorted(topic.keys()) == [b"0", b"1", b"2", b"3"]
    assert topic.reads == [0, 1]


def test_a_batch_that_failed_is_sorted_out_by_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    topic = FakeTopic()
    output = output_to(topic, monkeypatch, dies_after=1)
    with pytest.raises(ClusterError):
        output.write(batch(b"1", b"2"), {})
    output_to(topic, monkeypatch)  # the same object's next call does not die

    positions = output.write(batch(b"1", b"2"), {})

    assert topic.keys() == [b"1", b"2"]
    assert positions == {0: 2}


def test_a_batch_without_records_has_positions_too(monkeypatch: pytest.MonkeyPatch) -> None:
    topic = FakeTopic()
    output = output_to(topic, monkeypatch)
    assert output.write([], {}) == {0: 0}
    assert output.write([], {0: 0}) == {0: 0}
