"""The metadata log on disk: how it grows, is cut, begins at snapshots; what a leader may send."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import pytest

from ottla.broker.controller.metadata_formatting import (
    bootstrap_records,
    format_directory,
    format_metadata,
    must_format,
    own_voter,
)
from ottla.broker.controller.metadata_log import METADATA_TOPIC, MetadataLog, MetadataLogLimits
from ottla.broker.controller.metadata_snapshots import read_snapshot, snapshots, write_snapshot
from ottla.core.image.image import MetadataDelta, MetadataImage
from ottla.core.quorum.api import ElectionState, ListenerEndpoint, ReplicaKey, SnapshotId, Voter, VoterSet
from ottla.core.quorum.control_records import Control, LogControl, leader_change, voters_control
from ottla.protocol.errors import CorruptBatch, ProtocolError
from ottla.protocol.records.begin_transaction_record import BeginTransactionRecord
from ottla.protocol.records.config_record import ConfigRecord
from ottla.protocol.records.end_transaction_record import EndTransactionRecord
from ottla.protocol.records.feature_level_record import FeatureLevelRecord
from ottla.protocol.schema import Message
from ottla.storage.log_directory import LogDirectory, LogDirectoryError
from support.core.metadata import directory_of
from support.storage.kill_points import Report, run_until_killed

NOW_MS = 1_700_000_000_000
ENDPOINT = ListenerEndpoint("CONTROLLER", "host-1", 9093)
METADATA = "__cluster_metadata-0"
LIMITS = MetadataLogLimits(
    segment_bytes=1 << 30,
    segment_ms=1 << 40,
    max_batch_bytes=1000,
    max_retention_bytes=1,
    max_retention_ms=-1,
    snapshot_after_bytes=500,
    snapshot_after_ms=1000,
    file_delete_delay_ms=0,
)


@contextmanager
def opened(path: Path, *, alone: bool = True, node_id: int = 1) -> Iterator[MetadataLog]:
    """The log in `path`, closed at the end."""
    directory = LogDirectory.open(path, node_id=node_id)
    try:
        if must_format(directory):
            voters = own_voter(node_id, directory.directory_id, [ENDPOINT]) if alone else None
            format_metadata(directory, voters, controller=True, now_ms=NOW_MS)
        metadata_log = MetadataLog.open(directory, LIMITS, NOW_MS, alone=alone)
        yield metadata_log
        metadata_log.close()
    finally:
        directory.close(clean=False)


def config(number: int) -> ConfigRecord:
    return ConfigRecord(resource_type=2, resource_name="orders", name="a" * 100, value=str(number))


def elected(leader: int = 1) -> tuple[Control, ...]:
    return (leader_change(leader, [leader], [leader]),)


def messages(metadata_log: MetadataLog) -> list[Message]:
    """All metadata records that the log itself has."""
    found = metadata_log.batches(metadata_log.start_offset, metadata_log.end_offset)
    return [record for _, records in found for record in records]


def voters_of(*node_ids: int) -> VoterSet:
    return VoterSet(tuple(Voter(ReplicaKey(each, directory_of(each)), (ENDPOINT,)) for each in node_ids))


# -- growing ----------------------------------------------------------------------------------------------


def test_records_come_back_in_order(tmp_path: Path) -> None:
    with opened(tmp_path) as metadata_log:
        metadata_log.append_controls(1, elected(), NOW_MS)
        first, appended = metadata_log.append(1, [config(number) for number in range(3)], NOW_MS)
        assert (first, len(appended)) == (1, 3)
    with opened(tmp_path) as metadata_log:
        assert messages(metadata_log) == [config(number) for number in range(3)]
        assert (metadata_log.end_offset, metadata_log.last_epoch) == (4, 1)


def test_a_change_larger_than_a_batch_counts_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    with opened(tmp_path) as metadata_log:
        first, appended = metadata_log.append(1, [config(number) for number in range(25)], NOW_MS)
        assert metadata_log.end_offset == first + len(appended) == first + 27
        assert isinstance(appended[0], BeginTransactionRecord)
        assert isinstance(appended[-1], EndTransactionRecord)
        headers = [header for header, _ in metadata_log.batches(first, metadata_log.end_offset)]
        assert len(headers) > 2
        assert max(header.size_bytes for header in headers) <= LIMITS.max_batch_bytes + 61
        image, delta = MetadataImage(), MetadataDelta()
        for record in messages(metadata_log)[:-1]:
            image.apply(record, delta)
        assert delta.empty


def test_a_transaction_is_not_put_into_another_one(tmp_path: Path) -> None:
    with opened(tmp_path) as metadata_log:
        records: list[Message] = [BeginTransactionRecord(name="Bootstrap records")]
        records += [config(number) for number in range(25)]
        records.append(EndTransactionRecord())
        assert metadata_log.append(1, records, NOW_MS).records == records


def test_epochs_end_where_the_next_one_begins(tmp_path: Path) -> None:
    with opened(tmp_path) as metadata_log:
        assert metadata_log.end_offset_for_epoch(3) == (-1, -1)
        assert metadata_log.last_epoch == 0
        for epoch in (1, 3):
            metadata_log.append_controls(epoch, elected(), NOW_MS)
            metadata_log.append(epoch, [config(epoch)], NOW_MS)
        assert metadata_log.end_offset_for_epoch(0) == (-1, -1)
        assert metadata_log.end_offset_for_epoch(1) == (1, 2)
        assert metadata_log.end_offset_for_epoch(2) == (1, 2)
        assert metadata_log.end_offset_for_epoch(3) == (3, 4)
        assert metadata_log.end_offset_for_epoch(9) == (3, 4)


def test_what_the_log_says_of_the_quorum_is_found_with_its_offsets(tmp_path: Path) -> None:
    with opened(tmp_path) as metadata_log:
        (version, own) = metadata_log.controls
        assert version == LogControl(-1, 1)
        assert isinstance(own.value, VoterSet)
        assert own.value.node_ids == (1,)
        metadata_log.append_controls(1, [*elected(), voters_control(voters_of(1, 2))], NOW_MS)
        metadata_log.append(1, [config(1)], NOW_MS)
        metadata_log.append_controls(1, [voters_control(voters_of(1, 2, 3))], NOW_MS)
    with opened(tmp_path) as metadata_log:
        assert metadata_log.controls[2:] == [
            LogControl(1, voters_of(1, 2)),
            LogControl(3, voters_of(1, 2, 3)),
        ]


# -- fetched from a leader --------------------------------------------------------------------------------


def leaders_bytes(path: Path) -> bytes:
    """Epoch 1: a leader change and three records, each a batch; epoch 2: the same."""
    with opened(path) as metadata_log:
        for epoch in (1, 2):
            metadata_log.append_controls(epoch, [*elected(), voters_control(voters_of(1, 2))], NOW_MS)
            for number in range(3):
                metadata_log.append(epoch, [config(number)], NOW_MS)
        return metadata_log.read(0, 1 << 20)


def test_a_leaders_batches_are_taken_verbatim(tmp_path: Path) -> None:
    data = leaders_bytes(tmp_path / "leader")
    with opened(tmp_path / "follower", alone=False) as metadata_log:
        controls = metadata_log.append_fetched(data, 2, NOW_MS)
        assert controls == (LogControl(1, voters_of(1, 2)), LogControl(6, voters_of(1, 2)))
        assert metadata_log.read(0, 1 << 20) == data
        assert (metadata_log.end_offset, metadata_log.last_epoch) == (10, 2)


def test_a_partial_batch_at_the_end_is_left_for_the_next_fetch(tmp_path: Path) -> None:
    data = leaders_bytes(tmp_path / "leader")
    with opened(tmp_path / "follower", alone=False) as metadata_log:
        metadata_log.append_fetched(memoryview(data)[:-1], 2, NOW_MS)
        assert metadata_log.end_offset == 9
        metadata_log.append_fetched(data[len(metadata_log.read(0, 1 << 20)) :], 2, NOW_MS)
        assert metadata_log.read(0, 1 << 20) == data


@pytest.mark.parametrize(
    ("spoil", "leader_epoch", "reason"),
    [
        (lambda data: data[:40], 2, "without a whole batch"),
        (lambda data: b"", 2, "without a whole batch"),
        (lambda data: data[:-1] + bytes([data[-1] ^ 1]), 2, "CRC"),
        (lambda data: data + data, 2, "begins at offset 0, not at 10"),
        (lambda data: data, 1, "of epoch 2 after epoch 1, from the leader of epoch 1"),
        (lambda data: bytes(200), 2, "magic"),
    ],
    ids=["short", "empty", "crc", "gap", "epoch", "nonsense"],
)
def test_what_is_no_continuation_is_not_appended(
    tmp_path: Path, spoil: object, leader_epoch: int, reason: str
) -> None:
    data = leaders_bytes(tmp_path / "leader")
    with opened(tmp_path / "follower", alone=False) as metadata_log:
        with pytest.raises(ProtocolError, match=reason):
            metadata_log.append_fetched(spoil(data), leader_epoch, NOW_MS)  # type: ignore[operator]
        assert metadata_log.end_offset == 0


def test_epochs_do_not_go_back(tmp_path: Path) -> None:
    data = leaders_bytes(tmp_path / "leader")
    with opened(tmp_path / "follower", alone=False) as metadata_log:
        metadata_log.append_fetched(data, 2, NOW_MS)
        metadata_log.truncate(5, NOW_MS)
        metadata_log.append_controls(4, [*elected(), voters_control(voters_of(1, 2))], NOW_MS)
        with opened(tmp_path / "other", alone=False) as other:
            other.append_fetched(data, 2, NOW_MS)
            old = other.read(7, 1 << 20)
        with pytest.raises(CorruptBatch, match="epoch 2 after epoch 4"):
            metadata_log.append_fetched(old, 4, NOW_MS)


def test_a_tail_that_diverged_is_cut(tmp_path: Path) -> None:
    data = leaders_bytes(tmp_path / "leader")
    with opened(tmp_path / "follower", alone=False) as metadata_log:
        metadata_log.append_fetched(data, 2, NOW_MS)
        metadata_log.flush()
        metadata_log.truncate(5, NOW_MS)
        assert (metadata_log.end_offset, metadata_log.last_epoch) == (5, 1)
        assert metadata_log.recovery_point == 5
        metadata_log.append_controls(7, elected(), NOW_MS)
        assert metadata_log.end_offset_for_epoch(5) == (1, 5)


def test_the_recovery_points_file_is_lowered_before_the_log_is_cut(tmp_path: Path) -> None:
    data = leaders_bytes(tmp_path / "leader")
    with opened(tmp_path / "follower", alone=False) as metadata_log:
        metadata_log.append_fetched(data, 2, NOW_MS)
        metadata_log.flush()
        directory = metadata_log._directory
        directory.write_recovery_points({(METADATA_TOPIC, 0): 10, ("orders", 1): 7})
        metadata_log.truncate(6, NOW_MS)
        assert directory.read_recovery_points() == {(METADATA_TOPIC, 0): 6, ("orders", 1): 7}


# -- votes ------------------------------------------------------------------------------------------------


def test_an_epoch_in_the_log_counts_where_the_file_is_lost(tmp_path: Path) -> None:
    with opened(tmp_path) as metadata_log:
        assert metadata_log.election() == ElectionState()
        metadata_log.append_controls(4, elected(), NOW_MS)
        assert metadata_log.election() == ElectionState(epoch=4)
        newer = ElectionState(epoch=5, voted=ReplicaKey(2, directory_of(2)))
        metadata_log.save_election(newer, kraft_version=1, voter_ids=(1, 2))
        assert metadata_log.election() == newer


# -- formatting -------------------------------------------------------------------------------------------


def test_what_kafkas_formatting_put_into_the_bootstrap_file_counts(tmp_path: Path) -> None:
    with opened(tmp_path):
        assert len(bootstrap_records(tmp_path)) == 6
    one = [FeatureLevelRecord(name="metadata.version", feature_level=30)]
    (tmp_path / "bootstrap.checkpoint").unlink()
    write_snapshot(tmp_path / "bootstrap.checkpoint", one, timestamp_ms=NOW_MS, last_timestamp_ms=0)
    assert bootstrap_records(tmp_path) == one


def test_a_directory_with_initial_voters(tmp_path: Path) -> None:
    voters = voters_of(1, 2, 3)
    cluster_id = "J8aAPcfLQt2bqs1JT_rMgQ"

    def formatted(path: Path, node_id: int, directory_id: UUID) -> bool:
        return format_directory(
            path,
            node_id=node_id,
            directory_id=directory_id,
            cluster_id=cluster_id,
            voters=voters,
            now_ms=NOW_MS,
        )

    for node_id in (1, 4):
        path = tmp_path / str(node_id)
        assert formatted(path, node_id, directory_of(node_id))
        assert not formatted(path, node_id, directory_of(9))
        directory = LogDirectory.open(path, node_id=node_id)
        assert (directory.cluster_id, directory.directory_id) == (cluster_id, directory_of(node_id))
        directory.close(clean=False)
    with opened(tmp_path / "1", alone=False) as metadata_log:
        assert metadata_log.controls == [LogControl(-1, 1), LogControl(-1, voters)]
    with opened(tmp_path / "4", alone=False, node_id=4) as metadata_log:
        assert metadata_log.controls == []  # an observer


def test_a_format_killed_at_any_step_is_done_again(tmp_path: Path) -> None:
    def life(root: Path, report: Report) -> None:
        format_directory(
            root,
            cluster_id="J8aAPcfLQt2bqs1JT_rMgQ",
            node_id=1,
            directory_id=directory_of(1),
            voters=voters_of(1, 2, 3),
            now_ms=NOW_MS,
        )

    for kill_at in range(1, 100):
        root = tmp_path / str(kill_at)
        killed, _ = run_until_killed(life, root, kill_at)
        life(root, lambda what, detail: None)
        with opened(root, alone=False) as metadata_log:
            assert metadata_log.controls[-1] == LogControl(-1, voters_of(1, 2, 3))
            assert len(bootstrap_records(root)) == 6
        if not killed:
            break
    assert kill_at > 10


# -- snapshots of this node -------------------------------------------------------------------------------


def snapshot_of(metadata_log: MetadataLog, snapshot: SnapshotId, *records: Message) -> None:
    metadata_log.write_snapshot(snapshot, records, NOW_MS, voters=voters_of(1, 2), kraft_version=1)


def test_snapshots_are_due_by_size_and_by_time(tmp_path: Path) -> None:
    with opened(tmp_path) as metadata_log:
        metadata_log.begin_snapshot(NOW_MS)
        assert not metadata_log.snapshot_due(NOW_MS + 5000)
        metadata_log.append(1, [config(1)], NOW_MS)
        assert not metadata_log.snapshot_due(NOW_MS + 999)
        assert metadata_log.snapshot_due(NOW_MS + 1000)
        metadata_log.append(1, [config(number) for number in range(5)], NOW_MS)
        assert metadata_log.snapshot_due(NOW_MS)


def test_what_a_snapshot_replaces_is_removed(tmp_path: Path) -> None:
    with opened(tmp_path) as metadata_log:
        metadata_log.append(1, [config(number) for number in range(5)], NOW_MS)
        metadata_log.flush()
        snapshot = SnapshotId(metadata_log.end_offset, 1)
        snapshot_of(metadata_log, snapshot, config(4))
        metadata_log.snapshot_written(NOW_MS)
        assert snapshots(tmp_path / METADATA) == [snapshot]
        assert metadata_log.latest_snapshot == metadata_log.earliest_snapshot == snapshot
        assert metadata_log.start_offset == snapshot.end_offset
        metadata_log.append(1, [config(5)], NOW_MS)
    with opened(tmp_path) as metadata_log:
        found = metadata_log.take_snapshot_content()
        assert found is not None
        assert found[0] == snapshot
        assert found[1].records == [config(4)]
        assert messages(metadata_log) == [config(5)]
        assert metadata_log.controls[-1] == LogControl(snapshot.end_offset - 1, voters_of(1, 2))
        assert read_snapshot(tmp_path / METADATA / snapshot.file_name).records == [config(4)]


def test_a_snapshot_beyond_the_log_of_a_node_alone_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as metadata_log:
        metadata_log.write_snapshot(
            SnapshotId(500, 1), [config(4)], NOW_MS, voters=voters_of(1), kraft_version=1
        )
    with pytest.raises(LogDirectoryError, match=r"before its snapshot 0+500-0+1"), opened(tmp_path):
        pass


def test_what_was_not_finished_is_removed(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    metadata = tmp_path / METADATA
    unfinished = [
        metadata / f"{name}.checkpoint.{suffix}"
        for name, suffix in [
            (f"{7:020d}-{1:010d}", "part"),
            (f"{7:020d}-{1:010d}", "tmp"),
            (f"{7:020d}-{1:010d}", "deleted"),
            (f"{7:020d}-{1:010d}-12345", "part"),  # as Kafka calls it
        ]
    ]
    for file in unfinished:
        file.write_bytes(b"half")
    with opened(tmp_path):
        assert not any(file.exists() for file in unfinished)


# -- snapshots of a leader --------------------------------------------------------------------------------


def leaders_snapshot(path: Path, snapshot: SnapshotId) -> bytes:
    with opened(path) as metadata_log:
        snapshot_of(metadata_log, snapshot, config(8), config(9))
        piece = metadata_log.read_snapshot_piece(snapshot, 0, 1 << 20)
        assert piece is not None
        assert metadata_log.read_snapshot_piece(SnapshotId(1, 1), 0, 10) is None
        size, data = piece
        assert size == len(data)
        assert metadata_log.read_snapshot_piece(snapshot, 10, 7) == (size, data[10:17])
        (path / METADATA / snapshot.file_name).unlink()
        return data


def receive(metadata_log: MetadataLog, snapshot: SnapshotId, data: bytes) -> None:
    metadata_log.begin_incoming(snapshot)
    assert metadata_log.incoming is not None
    middle = len(data) // 2
    metadata_log.incoming.append(data[:middle])
    metadata_log.incoming.append(data[middle:])


def test_a_leaders_snapshot_takes_the_place_of_the_log(tmp_path: Path) -> None:
    snapshot = SnapshotId(50, 3)
    data = leaders_snapshot(tmp_path / "other", snapshot)
    with opened(tmp_path / "follower", alone=False) as metadata_log:
        metadata_log.append_fetched(leaders_bytes(tmp_path / "leader"), 2, NOW_MS)
        receive(metadata_log, snapshot, data)
        assert metadata_log.incoming is not None
        assert metadata_log.incoming.read().records == [config(8), config(9)]
        assert metadata_log.install_incoming(NOW_MS)
        assert (metadata_log.start_offset, metadata_log.end_offset, metadata_log.last_epoch) == (50, 50, 3)
        assert metadata_log.end_offset_for_epoch(3) == (-1, -1)
        assert metadata_log.latest_snapshot == metadata_log.earliest_snapshot == snapshot
        metadata_log.append_controls(4, elected(), NOW_MS)
    with opened(tmp_path / "follower", alone=False) as metadata_log:
        assert (metadata_log.start_offset, metadata_log.end_offset, metadata_log.last_epoch) == (50, 51, 4)


def test_a_snapshot_of_what_the_log_has_is_dropped(tmp_path: Path) -> None:
    snapshot = SnapshotId(4, 1)
    data = leaders_snapshot(tmp_path / "other", snapshot)
    with opened(tmp_path / "follower", alone=False) as metadata_log:
        metadata_log.append_fetched(leaders_bytes(tmp_path / "leader"), 2, NOW_MS)
        receive(metadata_log, snapshot, data)
        assert not metadata_log.install_incoming(NOW_MS)
        assert metadata_log.end_offset == 10
        assert snapshots(metadata_log.directory) == []


def test_a_damaged_snapshot_of_a_leader_is_found_out(tmp_path: Path) -> None:
    snapshot = SnapshotId(50, 3)
    data = leaders_snapshot(tmp_path / "other", snapshot)
    with opened(tmp_path / "follower", alone=False) as metadata_log:
        for spoiled in (data[:-80], data[:-10], data[:100] + bytes([data[100] ^ 1]) + data[101:], b""):
            receive(metadata_log, snapshot, spoiled)
            assert metadata_log.incoming is not None
            with pytest.raises(LogDirectoryError):
                metadata_log.incoming.read()


@pytest.mark.parametrize(
    "diverged",
    [pytest.param(False, id="behind", marks=pytest.mark.long), pytest.param(True, id="diverged")],
)
def test_an_installation_killed_at_any_step_leaves_the_old_log_or_the_snapshot(
    tmp_path: Path, diverged: bool
) -> None:
    """The old log is shorter than the snapshot, or longer but of an older epoch: never a mixture."""
    snapshot = SnapshotId(6, 3) if diverged else SnapshotId(50, 3)
    data = leaders_snapshot(tmp_path / "other", snapshot)
    fetched = leaders_bytes(tmp_path / "leader")

    def life(root: Path, report: Report) -> None:
        with opened(root, alone=False) as metadata_log:
            report("end", metadata_log.end_offset)
            receive(metadata_log, snapshot, data)
            assert metadata_log.install_incoming(NOW_MS)
            report("installed", True)
            metadata_log.append_controls(4, elected(), NOW_MS)
            metadata_log.flush()
            report("appended", True)

    with opened(tmp_path / "before", alone=False) as metadata_log:
        metadata_log.append_fetched(fetched, 2, NOW_MS)
    kill_at = 0
    killed = True
    while killed:
        kill_at += 1
        root = shutil.copytree(tmp_path / "before", tmp_path / str(kill_at))
        killed, reports = run_until_killed(life, root, kill_at)
        done = [what for what, _ in reports]
        with opened(root, alone=False) as metadata_log:
            ends = (metadata_log.start_offset, metadata_log.end_offset, metadata_log.last_epoch)
            end = snapshot.end_offset
            if "appended" in done:
                assert ends == (end, end + 1, 4)
            elif "installed" in done:
                assert ends in [(end, end, 3), (end, end + 1, 4)]
            else:
                assert ends in [(0, 10, 2), (end, end, 3)], kill_at
            if ends[0] == end:
                assert metadata_log.earliest_snapshot == metadata_log.latest_snapshot == snapshot
                found = metadata_log.take_snapshot_content()
                assert found is not None
                assert found[1].records == [config(8), config(9)]
            metadata_log.append_controls(9, elected(), NOW_MS)
        with opened(root, alone=False) as metadata_log:
            assert metadata_log.last_epoch == 9
    assert kill_at > 20
