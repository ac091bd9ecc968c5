"""A log directory: its owner, its lock, and the state it was left in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.storage.checkpoints import uuid_to_text
from ottla.storage.log_directory import LogDirectory, LogDirectoryError
from ottla.storage.partition_directory import (
    is_deleted_directory,
    parse_partition_directory,
    suffixed_directory_name,
)
from support.storage.logs import append, offsets, open_log


def tree(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def refusal(path: Path, *, node_id: int = 1, cluster_id: str | None = None) -> str:
    """The one line about a refused directory, in which only the lock file is new."""
    before = tree(path) if path.is_dir() else {}
    with pytest.raises(LogDirectoryError) as caught:
        LogDirectory.open(path, node_id=node_id, cluster_id=cluster_id)
    if path.is_dir():
        assert {name: data for name, data in tree(path).items() if name != ".lock"} == {
            name: data for name, data in before.items() if name != ".lock"
        }
    assert "\n" not in str(caught.value) and str(path) in str(caught.value)
    return str(caught.value)


# --- its owner ------------------------------------------------------------------------------------------


def test_an_empty_directory_is_formatted(tmp_path: Path) -> None:
    directory = LogDirectory.open(tmp_path / "deep" / "data", node_id=3)

    lines = (directory.path / "meta.properties").read_text().splitlines()
    assert lines[0] == "#" and lines[1].startswith("#")
    assert lines[2:] == [
        f"cluster.id={directory.cluster_id}",
        f"directory.id={uuid_to_text(directory.directory_id)}",
        "node.id=3",
        "version=1",
    ]
    assert len(directory.cluster_id) == 22
    assert not directory.clean_shutdown


def test_it_is_the_same_the_next_time(tmp_path: Path) -> None:
    first = LogDirectory.open(tmp_path, node_id=3, cluster_id="a-cluster")
    first.close(clean=True)

    second = LogDirectory.open(tmp_path, node_id=3)

    assert second.meta == first.meta
    assert second.cluster_id == "a-cluster"


def test_kafkas_own_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text(
        "#\n#Thu Jan 01 00:00:00 UTC 1970\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\n"
        "directory.id=vV0zS7tUQVGwBa8NEvbGOA\nnode.id=1\nversion=1\n"
    )

    directory = LogDirectory.open(tmp_path, node_id=1, cluster_id="MkU3OEVBNTcwNTJENDM2Qg")

    assert uuid_to_text(directory.directory_id) == "vV0zS7tUQVGwBa8NEvbGOA"


def test_a_file_without_directory_id_gets_one(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=c\\=d\nnode.id=1\n")

    directory = LogDirectory.open(tmp_path, node_id=1)

    assert directory.cluster_id == "c=d"
    assert (
        f"directory.id={uuid_to_text(directory.directory_id)}" in (tmp_path / "meta.properties").read_text()
    )


def test_another_clusters_directory_is_refused(tmp_path: Path) -> None:
    LogDirectory.open(tmp_path, node_id=1, cluster_id="mine").close(clean=True)

    assert "belongs to cluster mine, not to yours" in refusal(tmp_path, cluster_id="yours")


def test_another_nodes_directory_is_refused(tmp_path: Path) -> None:
    LogDirectory.open(tmp_path, node_id=1).close(clean=True)

    assert "set node.id=1 or name another directory" in refusal(tmp_path, node_id=2)


@pytest.mark.parametrize(
    "content", ["", "version=1\nnode.id=1\n", "version=1\nnode.id=x\ncluster.id=c\n", "\0\0\0"]
)
def test_a_damaged_meta_file_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "meta.properties").write_text(content)

    assert "meta.properties is damaged" in refusal(tmp_path)


def test_a_newer_meta_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=2\ncluster.id=c\nnode.id=1\n")

    assert "has version 2" in refusal(tmp_path)


def test_logs_without_meta_file_are_refused(tmp_path: Path) -> None:
    append(open_log(tmp_path), b"precious")

    assert "holds t-0 but no meta.properties" in refusal(tmp_path)


def test_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("I am a file")

    assert "is a file" in refusal(tmp_path / "data")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_that_may_not_be_written_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        assert "not writable" in refusal(tmp_path)
    finally:
        tmp_path.chmod(0o700)


def test_a_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(LogDirectoryError, match="cannot make log directory"):
        LogDirectory.open(tmp_path / "file" / "data", node_id=1)


# --- its lock ------------------------------------------------------------------------------------------


def test_one_process_opens_it_once(tmp_path: Path) -> None:
    first = LogDirectory.open(tmp_path, node_id=1)

    assert "in use by another broker" in refusal(tmp_path)
    first.close(clean=False)
    LogDirectory.open(tmp_path, node_id=1).close(clean=False)


def test_two_processes_do_not_share_it(tmp_path: Path) -> None:
    LogDirectory.open(tmp_path, node_id=1)
    script = (
        "import sys, pathlib\n"
        "from ottla.storage.log_directory import *\n"
        "try:\n"
        "    LogDirectory.open(pathlib.Path(sys.argv[1]), node_id=1)\n"
        "except LogDirectoryError as error:\n"
        "    print(error)\n"
    )

    run = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=True)

    # only its lock keeps the first one: the descriptor is open until close()
    assert "in use by another broker" in run.stdout


# --- the state it was left in
# --------------------------------------------------------------------------------------


def test_a_clean_close_is_seen_once(tmp_path: Path) -> None:
    LogDirectory.open(tmp_path, node_id=1).close(clean=True, broker_epoch=42)
    assert (tmp_path / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":42}'

    opened = LogDirectory.open(tmp_path, node_id=1)

    assert (opened.clean_shutdown, opened.broker_epoch) == (True, 42)
    assert not (tmp_path / ".kafka_cleanshutdown").exists(), "gone before anything is appended"
    opened.close(clean=False)
    opened = LogDirectory.open(tmp_path, node_id=1)
    assert (opened.clean_shutdown, opened.broker_epoch) == (False, -1)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"brokerEpoch":null}', b"\xff"])
def test_a_marker_that_tells_no_epoch_is_still_a_marker(tmp_path: Path, content: bytes) -> None:
    LogDirectory.open(tmp_path, node_id=1).close(clean=True)
    (tmp_path / ".kafka_cleanshutdown").write_bytes(content)

    opened = LogDirectory.open(tmp_path, node_id=1)

    assert (opened.clean_shutdown, opened.broker_epoch) == (True, -1)


def test_partitions_are_listed_and_deleted_ones_removed(tmp_path: Path) -> None:
    directory = LogDirectory.open(tmp_path, node_id=1)
    for name in ("a-0", "a-10", "b.c_d-e-1", "no-number", "lost+found", "x"):
        (tmp_path / name).mkdir()
    deleted = open_log(tmp_path).delete()
    (tmp_path / "file-0").write_text("a file")
    directory.close(clean=False)

    directory = LogDirectory.open(tmp_path, node_id=1)

    found = [(entry.topic, entry.partition) for entry in directory.partitions()]
    assert found == [("a", 0), ("a", 10), ("b.c_d-e", 1)]
    assert not deleted.exists()


def test_a_stray_partition_is_set_aside_whole(tmp_path: Path) -> None:
    directory = LogDirectory.open(tmp_path, node_id=1)
    log = open_log(tmp_path)
    append(log, b"a")
    log.close()

    target = directory.set_stray_aside(tmp_path / "t-0")

    assert target.name.startswith("t-0.") and target.name.endswith("-stray")
    assert directory.partitions() == []
    os.rename(target, tmp_path / "t-0")
    assert offsets(open_log(tmp_path)) == [0]


def test_checkpoints_are_kept_by_name(tmp_path: Path) -> None:
    directory = LogDirectory.open(tmp_path, node_id=1)
    directory.write_recovery_points({("t", 0): 1})
    directory.write_log_start_offsets({("t", 0): 2})
    directory.write_high_watermarks({("t", 0): 3})
    directory.write_cleaner_offsets({("t", 0): 4})

    assert [
        directory.read_recovery_points(),
        directory.read_log_start_offsets(),
        directory.read_high_watermarks(),
        directory.read_cleaner_offsets(),
    ] == [{("t", 0): number} for number in (1, 2, 3, 4)]
    (tmp_path / "recovery-point-offset-checkpoint").write_text("nonsense")
    with pytest.raises(LogDirectoryError, match="recovery-point-offset-checkpoint is damaged"):
        directory.read_recovery_points()


# --- names ------------------------------------------------------------------------------------------------


UUID_HEX = "52e3dcb9de9c425c8b429a7bb573f373"


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("tweets-0", ("tweets", 0)),
        ("a-b-12", ("a-b", 12)),
        ("__cluster_metadata-0", ("__cluster_metadata", 0)),
        ("x-delete-1", ("x-delete", 1)),
        ("t-", None),
        ("-1", None),
        ("t", None),
        ("t 1-0", None),
        (f"t-0.{UUID_HEX}-delete", None),
        (f"t-0.{UUID_HEX}-future", None),
        (f"t-0.{UUID_HEX}-stray", None),
    ],
)
def test_partition_directory_names(name: str, parsed: tuple[str, int] | None) -> None:
    assert parse_partition_directory(name) == parsed


def test_a_long_topic_is_cut_in_the_name_for_deletion() -> None:
    name = suffixed_directory_name("t" * 249, 1234, "-delete")

    assert len(name) == 255 and is_deleted_directory(name)


def test_the_fewer_partitions_the_more_of_each_is_checked(tmp_path: Path) -> None:
    directory = LogDirectory.open(tmp_path, node_id=1)
    assert directory.clean_check_bytes() == 16 << 20

    for number in range(1024):
        (tmp_path / f"t-{number}").mkdir()

    assert directory.clean_check_bytes() == 32 << 10
