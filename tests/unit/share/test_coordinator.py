"""The share coordinator, case by case: epochs, snapshots, turns, failed appends, cold partitions, pruning."""

from __future__ import annotations

from ottla.core.share.coordinator import ShareCoordinatorSettings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records.share_snapshot_value import ShareSnapshotValue
from ottla.protocol.records.share_update_value import ShareUpdateValue
from support.core.share_coordinator import (
    TOPIC,
    ShareCoordinatorDriver,
    delete,
    initialize,
    read,
    summary,
    write,
)

AVAILABLE, ACKNOWLEDGED = 0, 2


def test_a_writer_of_an_older_leader_epoch_is_fenced() -> None:
    driver = ShareCoordinatorDriver()
    driver.ask(initialize())
    assert driver.error(read(leader_epoch=5)) == ErrorCode.NONE
    assert driver.error(write(leader_epoch=4)) == ErrorCode.FENCED_LEADER_EPOCH
    assert driver.error(read(leader_epoch=4)) == ErrorCode.FENCED_LEADER_EPOCH
    assert driver.error(write(leader_epoch=5)) == ErrorCode.NONE


def test_a_writer_of_an_older_state_epoch_is_fenced() -> None:
    driver = ShareCoordinatorDriver()
    driver.ask(initialize(state_epoch=1))
    driver.ask(initialize(state_epoch=2, start_offset=7))
    assert driver.error(write(state_epoch=1)) == ErrorCode.FENCED_STATE_EPOCH
    assert driver.error(initialize(state_epoch=1)) == ErrorCode.FENCED_STATE_EPOCH
    assert driver.ask(read()).start_offset == 7


def test_a_write_that_comes_late_takes_nothing_back() -> None:
    driver = ShareCoordinatorDriver()
    driver.ask(initialize(start_offset=10))
    for start_offset, complete_count, expected in (
        (12, 4, (12, 4)),
        (11, 9, (12, 4)),  # an earlier start, whose count is of the past too
        (12, 3, (12, 4)),
        (12, 5, (12, 5)),
        (-1, 7, (12, 5)),
        (20, 0, (20, 0)),
    ):
        driver.ask(write(start_offset=start_offset, delivery_complete_count=complete_count))
        found = driver.ask(summary())
        assert (found.start_offset, found.delivery_complete_count) == expected
    driver.reload()
    assert driver.ask(read()).start_offset == 20


def test_negative_epochs_are_refused() -> None:
    driver = ShareCoordinatorDriver()
    driver.ask(initialize())
    for request in (read(leader_epoch=-1), write(leader_epoch=-1), write(state_epoch=-1)):
        assert driver.error(request) == ErrorCode.INVALID_REQUEST


def test_epochs_outlive_a_reload() -> None:
    driver = ShareCoordinatorDriver()
    driver.ask(initialize(state_epoch=2))
    driver.ask(read(leader_epoch=5))
    driver.reload()
    assert driver.error(write(leader_epoch=4, state_epoch=2)) == ErrorCode.FENCED_LEADER_EPOCH
    assert driver.error(write(leader_epoch=5, state_epoch=1)) == ErrorCode.FENCED_STATE_EPOCH


def test_a_snapshot_follows_so_many_updates() -> None:
    driver = ShareCoordinatorDriver(ShareCoordinatorSettings(updates_per_snapshot=2))
    driver.ask(initialize())
    for offset in range(4):
        driver.ask(write([(offset, offset, ACKNOWLEDGED, 1)]))
    kinds = [type(record.value) for record in driver.log]
    assert kinds == [
        ShareSnapshotValue,
        ShareUpdateValue,
        ShareUpdateValue,
        ShareSnapshotValue,
        ShareUpdateValue,
    ]
    snapshot = driver.log[3].value
    assert isinstance(snapshot, ShareSnapshotValue)
    assert (snapshot.snapshot_epoch, snapshot.state_batches[0].last_offset) == (1, 2)


def test_a_second_request_waits_for_the_first_ones_append() -> None:
    driver = ShareCoordinatorDriver()
    driver.ask(initialize())
    driver.hold_appends = True
    written = driver.send(write([(0, 4, ACKNOWLEDGED, 1)], start_offset=0))
    read_later = driver.send(read())
    assert not {written, read_later} & set(driver.replies)
    driver.append_done()
    assert driver.replies[written].error_code == ErrorCode.NONE
    assert driver.replies[read_later].state_batches[0].last_offset == 4


def test_an_append_that_fails_changes_nothing() -> None:
    driver = ShareCoordinatorDriver()
    driver.ask(initialize())
    driver.hold_appends = True
    written = driver.send(write([(0, 4, ACKNOWLEDGED, 1)]))
    driver.append_failed()
    assert driver.replies[written].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.ask(read()).state_batches == []


def test_an_append_that_takes_too_long_is_answered_and_counts_when_it_comes() -> None:
    driver = ShareCoordinatorDriver(ShareCoordinatorSettings(write_timeout_ms=1_000))
    driver.ask(initialize())
    driver.hold_appends = True
    written = driver.send(write([(0, 4, ACKNOWLEDGED, 1)]))
    driver.advance(1_000)
    assert driver.replies[written].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.append_done()
    assert driver.ask(read()).state_batches[0].last_offset == 4


def test_requests_for_unknown_share_partitions_are_refused() -> None:
    driver = ShareCoordinatorDriver()
    assert driver.error(read()) == ErrorCode.INVALID_REQUEST
    assert driver.error(write()) == ErrorCode.INVALID_REQUEST
    assert driver.ask(summary()).start_offset == -1
    assert driver.error(delete()) == ErrorCode.NONE
    assert driver.error(initialize(partition=9)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert driver.error(initialize(partition=-1)) == ErrorCode.INVALID_REQUEST
    assert not driver.log


def test_a_deleted_topic_takes_its_states_along() -> None:
    driver = ShareCoordinatorDriver()
    driver.ask(initialize(partition=0))
    driver.ask(initialize(partition=1))
    driver.topic_deleted(TOPIC)
    assert not driver.shard.states
    assert [record.value for record in driver.log[2:]] == [None, None]


def test_pruning_ends_at_the_oldest_of_the_newest_snapshots() -> None:
    settings = ShareCoordinatorSettings(prune_interval_ms=1_000, cold_snapshot_interval_ms=10**9)
    driver = ShareCoordinatorDriver(settings)
    driver.ask(initialize(partition=0))
    driver.ask(initialize(partition=1))
    driver.ask(initialize(partition=1))
    driver.advance(1_000)
    assert driver.pruned_to == 0, "the state of partition 0 is still there"
    driver.ask(initialize(partition=0))
    driver.advance(1_000)
    assert driver.pruned_to == 2
    driver.reload()
    assert driver.ask(summary(partition=1)).start_offset == 0


def test_cold_states_get_a_snapshot_once_so_that_the_log_can_be_pruned() -> None:
    settings = ShareCoordinatorSettings(prune_interval_ms=60_000, cold_snapshot_interval_ms=50_000)
    driver = ShareCoordinatorDriver(settings)
    driver.ask(initialize())
    driver.ask(write([(0, 0, AVAILABLE, 1)]))
    driver.advance(130_000)
    snapshots = [record.value for record in driver.log if isinstance(record.value, ShareSnapshotValue)]
    assert len(snapshots) == 2
    assert snapshots[1].snapshot_epoch == 1
    assert snapshots[1].state_batches[0].last_offset == 0
    assert driver.pruned_to == len(driver.log) - 1


def test_when_the_last_state_is_deleted_only_its_tombstone_is_kept() -> None:
    driver = ShareCoordinatorDriver(ShareCoordinatorSettings(prune_interval_ms=1_000))
    driver.ask(initialize())
    driver.ask(delete())
    driver.advance(1_000)
    assert driver.pruned_to == 1
    driver.advance(5_000)
    assert driver.pruned_to == 1
