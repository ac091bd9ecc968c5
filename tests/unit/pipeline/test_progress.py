"""What a checkpoint and Spark's progress events say of the positions read."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.pipeline.progress import ProgressPublisher, checkpointed_positions, parse_source_offset


@pytest.mark.parametrize(
    ("text", "positions"),
    [
        ('{"tweets":{"0":12,"1":0}}', {"tweets": {0: 12, 1: 0}}),
        ("{}", {}),
        ("", {}),
        (None, {}),
        ("17", {}),
        ('{"a":1}', {}),
        ('{"a":{"x":1}}', {}),
    ],
)
def test_source_offsets(text: str | None, positions: dict[str, dict[int, int]]) -> None:
    assert parse_source_offset(text) == positions


def checkpoint(directory: Path, offsets: dict[int, str], commits: list[int]) -> Path:
    for name in ("offsets", "commits"):
        (directory / name).mkdir()
    for batch_id, line in offsets.items():
        (directory / "offsets" / str(batch_id)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{line}')
        (directory / "offsets" / f".{batch_id}.crc").touch()
    for batch_id in commits:
        (directory / "commits" / str(batch_id)).write_text("v1\n{}")
    return directory


def test_the_last_finished_batch_counts_not_the_last_planned_one(tmp_path: Path) -> None:
    offsets = {9: '{"t":{"0":9}}', 10: '{"t":{"0":10}}', 11: '{"t":{"0":11}}'}
    assert checkpointed_positions(checkpoint(tmp_path, offsets, commits=[8, 9, 10])) == {"t": {0: 10}}


def test_no_checkpoint_no_positions(tmp_path: Path) -> None:
    assert checkpointed_positions(tmp_path / "nowhere") == {}
    assert checkpointed_positions(checkpoint(tmp_path, {}, commits=[3])) == {}


class RecordingCluster:
    def __init__(self) -> None:
        self.commits: list[tuple[str, str, dict[int, int]]] = []

    def start_positions(self, topic: str) -> dict[int, int]:
        return {0: 0, 1: 0}

    def commit(self, group: str, topic: str, positions: dict[int, int]) -> None:
        self.commits.append((group, topic, positions))


def test_a_query_without_a_checkpoint_puts_its_group_to_the_start(tmp_path: Path) -> None:
    cluster = RecordingCluster()
    publisher = ProgressPublisher(cluster)  # type: ignore[arg-type]

    publisher.follow("query", "group", ["t"], tmp_path)

    assert cluster.commits == [("group", "t", {0: 0, 1: 0})]


def test_a_query_with_a_checkpoint_puts_its_group_there_and_then_follows(tmp_path: Path) -> None:
    cluster = RecordingCluster()
    publisher = ProgressPublisher(cluster)  # type: ignore[arg-type]

    publisher.follow("query", "group", ["t"], checkpoint(tmp_path, {0: '{"t":{"0":4}}'}, commits=[0]))
    publisher.publish("query", '{"t":{"0":6,"1":2}}')
    publisher.publish("query", '{"another topic":{"0":6}}')
    publisher.publish("another query", '{"t":{"0":6}}')
    publisher.publish(None, None)

    assert cluster.commits == [("group", "t", {0: 4, 1: 0}), ("group", "t", {0: 6, 1: 2})]
