"""The offsets of a query's progress that are committed to its consumer group, and when."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from ottla.client.errors import ClusterError
from ottla.pipeline.query.progress import (
    ANY_QUERY,
    ProgressPublisher,
    checkpointed_positions,
    mark,
    marked_query,
)
from support.clients.confluent import eventually
from support.pipeline.spark_checkpoints import write_checkpoint

QUERY_ID = "6b4c8bd8-2c3c-4d8b-9d6e-000000000001"


class RecordingCluster:
    """Keeps what was committed; can be made to hang or to fail."""

    def __init__(self) -> None:
        self.commits: list[tuple[str, str, dict[int, int], str]] = []
        self.answers = threading.Event()
        self.answers.set()
        self.fails = False

    def start_positions(self, topic: str) -> dict[int, int]:
        return {0: 0, 1: 0}

    def commit(self, group: str, topic: str, positions: dict[int, int], metadata: str = "") -> None:
        self.answers.wait(30)
        if self.fails:
            raise ClusterError("away")
        self.commits.append((group, topic, positions, metadata))


@pytest.fixture
def kafka() -> RecordingCluster:
    return RecordingCluster()


@pytest.fixture
def publisher(kafka: RecordingCluster) -> ProgressPublisher:
    return ProgressPublisher(kafka)  # type: ignore[arg-type]


def test_the_last_finished_batch_counts_not_the_last_planned_one(tmp_path: Path) -> None:
    offsets = {9: '{"t":{"0":9}}', 10: '{"t":{"0":10}}', 11: '{"t":{"0":11}}'}
    write_checkpoint(tmp_path, QUERY_ID, offsets, commits=[8, 9, 10])
    assert checkpointed_positions(tmp_path) == {"t": {0: 10}}


def test_no_checkpoint_no_positions(tmp_path: Path) -> None:
    assert checkpointed_positions(tmp_path / "nowhere") == {}
    assert checkpointed_positions(write_checkpoint(tmp_path, QUERY_ID, {}, commits=[3])) == {}


def test_a_new_query_puts_its_group_to_the_start_and_leaves_no_mark(
    kafka: RecordingCluster, publisher: ProgressPublisher, tmp_path: Path
) -> None:
    publisher.follow("query", "group", ["t"], tmp_path)
    assert kafka.commits == [("group", "t", {0: 0, 1: 0}, "")]


def test_a_new_query_that_begins_elsewhere_puts_its_group_there(
    kafka: RecordingCluster, publisher: ProgressPublisher, tmp_path: Path
) -> None:
    publisher.follow("query", "group", ["t"], tmp_path, begin={"t": {1: 7}})
    assert kafka.commits == [("group", "t", {0: 0, 1: 7}, "")]


def test_a_query_with_a_checkpoint_puts_its_group_there_and_then_follows(
    kafka: RecordingCluster, publisher: ProgressPublisher, tmp_path: Path
) -> None:
    checkpoint = write_checkpoint(tmp_path, QUERY_ID, {0: '{"t":{"0":4}}'}, commits=[0])

    publisher.follow("query", "group", ["t"], checkpoint)
    publisher.publish("query", {"t": {0: 6, 1: 2}}, QUERY_ID)
    publisher.publish("query", {"another topic": {0: 6}}, QUERY_ID)
    publisher.publish("another query", {"t": {0: 6}}, QUERY_ID)
    publisher.publish(None, {"t": {0: 6}}, QUERY_ID)

    assert kafka.commits == [
        ("group", "t", {0: 4, 1: 0}, mark(QUERY_ID)),
        ("group", "t", {0: 6, 1: 2}, mark(QUERY_ID)),
    ]


def test_a_pattern_follows_topics_that_come_later(
    kafka: RecordingCluster, publisher: ProgressPublisher, tmp_path: Path
) -> None:
    publisher.follow("query", "group", ["t"], tmp_path, new_topics=True)
    publisher.publish("query", {"new": {0: 6}}, QUERY_ID)
    assert kafka.commits[-1] == ("group", "new", {0: 6}, mark(QUERY_ID))


def test_nothing_is_known_of_a_checkpoint_elsewhere(
    kafka: RecordingCluster, publisher: ProgressPublisher
) -> None:
    publisher.follow("query", "group", ["t"], "hdfs://namenode/checkpoints/query")
    assert kafka.commits == []


def test_a_slow_broker_gets_the_newest_position_and_holds_up_no_query(
    kafka: RecordingCluster, publisher: ProgressPublisher, tmp_path: Path
) -> None:
    publisher.follow("query", "group", ["t"], tmp_path)
    kafka.answers.clear()

    for offset in range(1, 1000):
        publisher.enqueue("query", {"t": {0: offset}}, QUERY_ID)
    assert not publisher.flush(0.01)
    kafka.answers.set()
    publisher.close()

    committed = [positions[0] for _, _, positions, _ in kafka.commits[1:]]
    assert committed[-1] == 999
    assert len(committed) <= 2


def test_a_broker_that_is_away_is_made_up_for_by_the_next_batch(
    kafka: RecordingCluster, publisher: ProgressPublisher, tmp_path: Path
) -> None:
    publisher.follow("query", "group", ["t"], tmp_path)
    kafka.fails = True
    publisher.enqueue("query", {"t": {0: 1}}, QUERY_ID)
    assert publisher.flush()
    kafka.fails = False

    publisher.enqueue("query", {"t": {0: 2}}, QUERY_ID)

    eventually(lambda: kafka.commits[-1][2] == {0: 2}, "the second position is committed")
    publisher.close()


def test_marks_tell_queries_from_everybody_else() -> None:
    assert marked_query(mark(QUERY_ID)) == QUERY_ID
    assert marked_query("") is None
    assert marked_query("another tool's words") is None
    assert marked_query("ottla query ?") is None


@pytest.mark.parametrize("query_id", [QUERY_ID, ANY_QUERY])
@pytest.mark.parametrize("stray", ["@", "1", "-1", "\x17\x7f", "\N{REPLACEMENT CHARACTER}"])
def test_stray_characters_behind_a_mark_are_passed_over(query_id: str, stray: str) -> None:
    assert marked_query(mark(query_id) + stray) == query_id
