"""The metadata log on disk: whose quorum it is, how it grows, how it is cut into batches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.broker.listeners import Listener
from ottla.broker.metadata_log import MetadataLog, MetadataLogLimits, voters_record
from ottla.broker.metadata_snapshots import SnapshotId, read_snapshot, snapshots, write_snapshot
from ottla.protocol.record_batch import ControlRecordType, encode_control_batch, parse_batch_header
from ottla.protocol.records.config_record import ConfigRecord
from ottla.protocol.records.feature_level_record import FeatureLevelRecord
from ottla.protocol.schema import Message
from ottla.storage.log_directory import LogDirectory, LogDirectoryError
from support.metadata import directory_of

NOW_MS = 1_700_000_000_000
VOTER = Listener("CONTROLLER", "host-1", 9093)
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
def opened(
    path: Path, voter: Listener = VOTER, node_id: int = 1
) -> Iterator[tuple[MetadataLog, list[Message]]]:
    """The log of a new epoch, and the records that were in it."""
    directory = LogDirectory.open(path, node_id=node_id)
    try:
        metadata_log = MetadataLog.open(directory, node_id, voter, LIMITS, NOW_MS)
        records = [record for _, _, record in metadata_log.replay()]
        metadata_log.elect(directory.directory_id, voter, NOW_MS)
        yield metadata_log, records
        metadata_log.close()
    finally:
        directory.close(clean=False)


def config(number: int) -> ConfigRecord:
    return ConfigRecord(resource_type=2, resource_name="orders", name="a" * 100, value=str(number))


def test_records_come_back_in_order(tmp_path: Path) -> None:
    with opened(tmp_path) as (metadata_log, records):
        assert records == []
        metadata_log.append([config(number) for number in range(25)], NOW_MS)
    with opened(tmp_path) as (metadata_log, records):
        assert records == [config(number) for number in range(25)]
        assert metadata_log.epoch == 2


def test_large_changes_are_cut_into_batches(tmp_path: Path) -> None:
    with opened(tmp_path) as (metadata_log, _):
        first = metadata_log.append([config(number) for number in range(25)], NOW_MS)
        assert metadata_log.end_offset == first + 25
        batches = [header for header, _ in metadata_log._log.iterate_batches(first)]
        assert len(batches) > 2
        assert max(header.size_bytes for header in batches) <= LIMITS.max_batch_bytes + 61
        assert [header.partition_leader_epoch for header in batches] == [1] * len(batches)


def test_every_start_is_an_epoch_of_its_own(tmp_path: Path) -> None:
    for expected in (1, 2, 3):
        with opened(tmp_path) as (metadata_log, _):
            assert metadata_log.epoch == expected
        assert f'"leaderEpoch":{expected},' in (tmp_path / METADATA / "quorum-state").read_text()


def test_a_lost_quorum_state_does_not_lead_an_epoch_twice(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    (tmp_path / METADATA / "quorum-state").unlink()
    with opened(tmp_path) as (metadata_log, _):
        assert metadata_log.epoch == 2


def test_a_moved_controller_tells_the_log(tmp_path: Path) -> None:
    moved = Listener("CONTROLLER", "host-1", 9999)
    with opened(tmp_path):
        pass
    with opened(tmp_path, moved) as (metadata_log, _):
        end = metadata_log.end_offset
    with opened(tmp_path, moved) as (metadata_log, _):
        assert metadata_log.voters is not None
        assert metadata_log.voters.voters[0].endpoints[0].port == 9999
        assert metadata_log.end_offset == end + 1  # a leader, and no voters again


def test_a_quorum_of_several_nodes_is_refused(tmp_path: Path) -> None:
    voters = voters_record(1, directory_of(1), VOTER)
    voters.voters += voters_record(2, directory_of(2), VOTER).voters
    with opened(tmp_path) as (metadata_log, _):
        batch = encode_control_batch(
            [(ControlRecordType.KRAFT_VOTERS, voters.encode(0))],
            timestamp=NOW_MS,
            base_offset=metadata_log.end_offset,
            leader_epoch=1,
        )
        metadata_log._log.append(batch, (parse_batch_header(batch),), now_ms=NOW_MS)
    with pytest.raises(LogDirectoryError, match="a quorum of the nodes 1, 2"), opened(tmp_path):
        pass


def test_what_kafkas_formatting_put_into_the_bootstrap_file_counts(tmp_path: Path) -> None:
    with opened(tmp_path) as (metadata_log, _):
        assert len(metadata_log.bootstrap_records()) == 6
        one = [FeatureLevelRecord(name="metadata.version", feature_level=30)]
        (tmp_path / "bootstrap.checkpoint").unlink()
        write_snapshot(tmp_path / "bootstrap.checkpoint", one, timestamp_ms=NOW_MS, last_timestamp_ms=0)
        assert metadata_log.bootstrap_records() == one


def test_snapshots_are_due_by_size_and_by_time(tmp_path: Path) -> None:
    with opened(tmp_path) as (metadata_log, _):
        metadata_log.begin_snapshot(NOW_MS)
        assert not metadata_log.snapshot_due(NOW_MS + 5000)
        metadata_log.append([config(1)], NOW_MS)
        assert not metadata_log.snapshot_due(NOW_MS + 999)
        assert metadata_log.snapshot_due(NOW_MS + 1000)
        metadata_log.append([config(number) for number in range(5)], NOW_MS)
        assert metadata_log.snapshot_due(NOW_MS)


def test_what_a_snapshot_replaces_is_removed(tmp_path: Path) -> None:
    with opened(tmp_path) as (metadata_log, _):
        metadata_log.append([config(number) for number in range(5)], NOW_MS)
        metadata_log.flush()
        snapshot = SnapshotId(metadata_log.end_offset, 1)
        metadata_log.write_snapshot(snapshot, [config(4)], NOW_MS)
        metadata_log.clean(NOW_MS)
        assert snapshots(tmp_path / METADATA) == [snapshot]
        assert metadata_log.start_offset == snapshot.end_offset
        metadata_log.append([config(5)], NOW_MS)
    with opened(tmp_path) as (metadata_log, records):
        assert records == [config(4), config(5)]
        assert read_snapshot(tmp_path / METADATA / snapshot.file_name)[1:] == [config(4)]


def test_a_snapshot_beyond_the_log_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as (metadata_log, _):
        metadata_log.write_snapshot(SnapshotId(500, 1), [config(4)], NOW_MS)
    with pytest.raises(LogDirectoryError, match=r"before its snapshot 0+500-0+1"), opened(tmp_path):
        pass
