"""Starts and ends of leader epochs (KIP-101, KIP-279)."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.storage.directory_files import DirectoryFiles
from ottla.storage.errors import StorageError
from ottla.storage.leader_epochs import LeaderEpochs


def loaded(directory: Path) -> LeaderEpochs:
    return LeaderEpochs.load(DirectoryFiles(directory))


def epochs_of(directory: Path, *entries: tuple[int, int]) -> LeaderEpochs:
    epochs = LeaderEpochs(DirectoryFiles(directory))
    for epoch, start_offset in entries:
        epochs.assign(epoch, start_offset)
    return epochs


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),  # undefined
        (0, (0, 0)),  # below the first epoch: ends where that one begins
        (1, (1, 0)),
        (2, (2, 10)),
        (3, (2, 10)),  # unused: the epoch before it
        (4, (4, 25)),
        (5, (4, 25)),
        (6, (6, 40)),  # the latest epoch ends with the log
        (7, (-1, -1)),  # not known yet
    ],
)
def test_the_end_of_an_epoch(tmp_path: Path, asked: int, answer: tuple[int, int]) -> None:
    epochs = epochs_of(tmp_path, (2, 0), (4, 10), (6, 25))

    assert epochs.end_offset_for(asked, log_end_offset=40) == answer


def test_without_entries_no_epoch_is_known(tmp_path: Path) -> None:
    assert LeaderEpochs(DirectoryFiles(tmp_path)).end_offset_for(0, 10) == (-1, -1)
    assert LeaderEpochs(DirectoryFiles(tmp_path)).latest_epoch is None


def test_an_epoch_keeps_its_first_offset(tmp_path: Path) -> None:
    epochs = epochs_of(tmp_path, (1, 0))

    assert not epochs.assign(1, 5)
    assert epochs.entries == [(1, 0)]


def test_a_new_entry_replaces_contradicting_ones(tmp_path: Path) -> None:
    epochs = epochs_of(tmp_path, (1, 0), (2, 10), (3, 20))

    epochs.assign(4, 10)
    assert epochs.entries == [(1, 0), (4, 10)]
    epochs.assign(2, 15)
    assert epochs.entries == [(1, 0), (2, 15)]


@pytest.mark.parametrize(("offset", "epoch"), [(0, None), (4, None), (5, 1), (9, 1), (10, 2), (99, 2)])
def test_the_epoch_of_an_offset(tmp_path: Path, offset: int, epoch: int | None) -> None:
    assert epochs_of(tmp_path, (1, 5), (2, 10)).epoch_at(offset) == epoch


@pytest.mark.parametrize(
    ("end", "left"),
    [(0, []), (1, [(1, 0)]), (10, [(1, 0)]), (11, [(1, 0), (2, 10)]), (99, [(1, 0), (2, 10)])],
)
def test_truncation_from_the_end(tmp_path: Path, end: int, left: list[tuple[int, int]]) -> None:
    epochs = epochs_of(tmp_path, (1, 0), (2, 10))

    epochs.truncate_from_end(end)

    assert epochs.entries == left == loaded(tmp_path).entries


@pytest.mark.parametrize(
    ("start", "left"),
    [
        (0, [(1, 5), (2, 10), (3, 20)]),
        (5, [(1, 5), (2, 10), (3, 20)]),
        (7, [(1, 7), (2, 10), (3, 20)]),
        (10, [(2, 10), (3, 20)]),
        (15, [(2, 15), (3, 20)]),
        (30, [(3, 30)]),
    ],
)
def test_truncation_from_the_start(tmp_path: Path, start: int, left: list[tuple[int, int]]) -> None:
    epochs = epochs_of(tmp_path, (1, 5), (2, 10), (3, 20))

    before = epochs.entries

    epochs.truncate_from_start(start)

    assert loaded(tmp_path).entries == before, "on file only once the start is durable"
    epochs.save_changes()
    assert epochs.entries == left == loaded(tmp_path).entries


def test_the_file_is_kafkas(tmp_path: Path) -> None:
    epochs_of(tmp_path, (0, 0), (3, 17))

    assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n2\n0 0\n3 17\n"


@pytest.mark.parametrize(
    "content", ["0\n1\n5 -2\n", "0\n2\n3 0\n2 5\n", "0\n1\nx y\n", "1\n0\n", "0\n2\n0 0\n"]
)
def test_a_damaged_file_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "leader-epoch-checkpoint").write_text(content)

    with pytest.raises(StorageError):
        loaded(tmp_path)


def test_entries_below_zero_are_the_callers_mistake(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="epoch -1"):
        LeaderEpochs(DirectoryFiles(tmp_path)).assign(-1, 0)
