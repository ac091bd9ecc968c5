"""Kafka's small text files."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID, uuid4

import pytest

from ottla.storage.checkpoints import (
    read_offsets,
    read_partition_metadata,
    uuid_from_text,
    uuid_to_text,
    write_offsets,
    write_partition_metadata,
)
from ottla.storage.errors import StorageError


def test_offsets_by_partition(tmp_path: Path) -> None:
    path = tmp_path / "recovery-point-offset-checkpoint"
    offsets = {("tweets", 0): 17, ("a.b_c-d", 12): 2**40}

    write_offsets(path, offsets)

    assert path.read_text() == "0\n2\ntweets 0 17\na.b_c-d 12 1099511627776\n"
    assert read_offsets(path) == offsets
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name], "no temporary file is left"


@pytest.mark.parametrize("content", ["", "0", "0\n0\n"])
def test_an_empty_checkpoint_has_no_entries(tmp_path: Path, content: str) -> None:
    path = tmp_path / "checkpoint"
    assert read_offsets(path) == {}, "it does not exist"

    path.write_text(content)

    assert read_offsets(path) == {}


@pytest.mark.parametrize(
    "content",
    [
        b"1\n0\n",
        b"0\n1\n",
        b"0\n1\nt 0\n",
        b"0\n1\nt x 5\n",
        b"0\n2\nt 0 5\n",
        b"0\nx\nt 0 5\n",
        b"\xff\xfe",
        b"x",
    ],
)
def test_a_damaged_checkpoint_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(content)

    with pytest.raises(StorageError, match=r"checkpoint .*") as caught:
        read_offsets(path)
    assert "\n" not in str(caught.value)


def test_a_uuid_is_written_as_kafka_does() -> None:
    assert uuid_to_text(UUID(int=0)) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert uuid_to_text(UUID(int=2**128 - 1)) == "_____________________w"
    for _ in range(50):
        value = uuid4()
        assert uuid_from_text(uuid_to_text(value)) == value


@pytest.mark.parametrize("text", ["", "AAAA", "A" * 23, "A" * 21 + "!", "é" * 22])
def test_invalid_uuids_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a uuid"):
        uuid_from_text(text)


def test_partition_metadata(tmp_path: Path) -> None:
    topic_id = UUID("12345678-1234-5678-1234-567812345678")

    write_partition_metadata(tmp_path, topic_id)

    text = (tmp_path / "partition.metadata").read_text()
    assert text == "version: 0\ntopic_id: EjRWeBI0VngSNFZ4EjRWeA"
    assert read_partition_metadata(tmp_path) == topic_id


@pytest.mark.parametrize(
    "content",
    [
        "version: 0",
        "version: x\ntopic_id: EjRWeBI0VngSNFZ4EjRWeA",
        "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
    ],
)
def test_damaged_partition_metadata_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "partition.metadata").write_text(content)

    with pytest.raises(StorageError, match=r"partition\.metadata is damaged"):
        read_partition_metadata(tmp_path)


def test_a_partition_without_metadata_has_no_topic_id(tmp_path: Path) -> None:
    assert read_partition_metadata(tmp_path) is None
    (tmp_path / "partition.metadata").write_text("")
    assert read_partition_metadata(tmp_path) is None
