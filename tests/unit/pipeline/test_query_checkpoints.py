"""Reading a checkpoint's directory, in any state that a crash may leave."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.pipeline.query.checkpoints import Checkpoint, parse_source_offset
from ottla.pipeline.spark.paths import local_path
from support.pipeline.spark_checkpoints import write_checkpoint


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
        ('{"a":{"0":', {}),
        ("[" * 100_000, {}),
    ],
)
def test_source_offsets(text: str | None, positions: dict[str, dict[int, int]]) -> None:
    assert parse_source_offset(text) == positions


def test_a_checkpoint_tells_its_query_and_how_far_it_is(tmp_path: Path) -> None:
    checkpoint = Checkpoint(
        write_checkpoint(tmp_path, "an-id", {0: '{"a":{"0":1}}', 1: '{"a":{"0":2}}\n{"b":{"1":3}}'}, [0])
    )

    assert checkpoint.exists
    assert checkpoint.query_id == "an-id"
    assert checkpoint.planned_batches == [0, 1]
    assert checkpoint.last_finished_batch == 0
    assert checkpoint.positions == {"a": {0: 1}}
    assert checkpoint.batch_positions(1) == {"a": {0: 2}, "b": {1: 3}}
    assert checkpoint.properties == {"spark.sql.shuffle.partitions": "2"}


def test_a_missing_checkpoint_is_empty(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "nowhere")
    assert not checkpoint.exists
    assert checkpoint.planned_batches == []
    assert checkpoint.last_finished_batch is None
    assert checkpoint.positions == {}
    assert checkpoint.properties == {}


@pytest.mark.parametrize("torn", ["", "{", '{"id":', "\x00\x00\x00", "null", "[]"])
def test_a_torn_file_counts_as_missing(torn: str, tmp_path: Path) -> None:
    write_checkpoint(tmp_path, "an-id", {4: '{"a":{"0":1}}'}, [4])
    for name in ("metadata", "offsets/4"):
        (tmp_path / name).write_text(torn)
    checkpoint = Checkpoint(tmp_path)
    assert checkpoint.query_id is None
    assert checkpoint.positions == {}
    assert checkpoint.properties == {}


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("/a/b", Path("/a/b")),
        ("a", Path("a")),
        ("file:///a/b%20c", Path("/a/b c")),
        (Path("/a"), Path("/a")),
        ("hdfs://host/a", None),
        ("s3a://bucket/a", None),
        ("abfss://c@account/a", None),
    ],
)
def test_only_local_directories_are_looked_into(location: str | Path, path: Path | None) -> None:
    assert local_path(location) == path
