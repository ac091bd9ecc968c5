"""The leader's high watermark, in-sync set and last stable offset."""

from ottla.core.replica.leader import InSyncMember, PartitionLeader, last_stable_offset
from ottla.protocol.errors import ErrorCode


def leader(isr: tuple[int, ...], log_end_offset: int = 10) -> PartitionLeader:
    return PartitionLeader(
        local_id=1, leader_epoch=5, isr=isr, log_end_offset=log_end_offset, high_watermark=0
    )


def progress(partition: PartitionLeader, replica: int, fetch_offset: int) -> int:
    partition.on_follower_fetch(replica, fetch_offset, 0, 1, now_ms=0)
    return partition.high_watermark


def test_alone_in_sync_everything_appended_is_committed() -> None:
    alone = leader(isr=(1,))
    assert alone.high_watermark == 10
    assert alone.on_append(12) == 12


def test_no_record_commits_before_every_in_sync_replica_has_it() -> None:
    three = leader(isr=(1, 2, 3))
    assert three.high_watermark == 0
    assert progress(three, 2, 10) == 0
    assert progress(three, 3, 7) == 7
    assert three.on_append(20) == 7


def test_the_high_watermark_never_moves_back() -> None:
    two = leader(isr=(1, 2))
    progress(two, 2, 9)
    assert progress(two, 2, 4) == 9


def test_a_replica_out_of_sync_does_not_hold_back_the_high_watermark() -> None:
    two = leader(isr=(1, 2))
    assert progress(two, 3, 2) == 0
    assert progress(two, 2, 10) == 10


def test_an_open_transaction_bounds_the_last_stable_offset() -> None:
    assert last_stable_offset(10, None) == 10
    assert last_stable_offset(10, 4) == 4
    assert last_stable_offset(10, 12) == 10


def replicated(isr: tuple[int, ...], **settings: int) -> PartitionLeader:
    """Three replicas of which all brokers are active, epoch 7; the log has 10 records, 4 are committed."""
    return PartitionLeader(
        local_id=1,
        leader_epoch=5,
        partition_epoch=3,
        isr=isr,
        replicas=(1, 2, 3),
        log_end_offset=10,
        high_watermark=4,
        eligible=lambda _: 7,
        **settings,
    )


def fetch(leader: PartitionLeader, node_id: int, offset: int, now_ms: int = 0, epoch: int = 7):  # type: ignore[no-untyped-def]
    return leader.on_follower_fetch(node_id, offset, 0, epoch, now_ms)


def test_a_follower_joins_when_it_has_reached_the_high_watermark_and_the_epoch_start() -> None:
    leader = replicated(isr=(1, 2))
    fetch(leader, 2, 10)
    assert leader.high_watermark == 10
    assert fetch(leader, 3, 9) is None
    update = fetch(leader, 3, 10)
    assert update is not None
    assert (update.leader_epoch, update.partition_epoch) == (5, 3)
    assert update.isr == (InSyncMember(1, 7), InSyncMember(2, 7), InSyncMember(3, 7))
    # it counts at once, though the controller has not answered
    assert (leader.isr, leader._maximal_isr) == ({1, 2}, {1, 2, 3})
    leader.on_append(12)
    fetch(leader, 2, 12)
    assert leader.high_watermark == 10
    leader.on_update_answered(update, leader_epoch=5, partition_epoch=4, isr=[1, 2, 3])
    assert (leader.isr, leader.partition_epoch, leader.update_under_way) == ({1, 2, 3}, 4, None)


def test_a_broker_of_another_epoch_does_not_join() -> None:
    leader = replicated(isr=(1, 2))
    assert fetch(leader, 3, 10, epoch=6) is None


def test_a_follower_that_has_not_caught_up_for_too_long_goes_when_the_controller_says_so() -> None:
    leader = replicated(isr=(1, 2, 3), lag_time_max_ms=100)
    fetch(leader, 2, 10)
    assert leader.on_tick(100) is None
    fetch(leader, 2, 10, now_ms=90)
    update = leader.on_tick(101)
    assert update is not None
    assert [each.node_id for each in update.isr] == [1, 2]
    assert leader.high_watermark == 4  # until then the other replica may be elected
    leader.on_update_answered(update, leader_epoch=5, partition_epoch=4, isr=[1, 2])
    assert leader.high_watermark == 10


def test_a_follower_that_fetches_all_the_time_stays_though_it_never_has_everything() -> None:
    leader = replicated(isr=(1, 2), lag_time_max_ms=100)
    for step in range(1, 10):
        fetch(leader, 2, leader.log_end_offset - 1, now_ms=step * 50)
        leader.on_append(leader.log_end_offset + 1)
        assert leader.on_tick(step * 50) is None


def test_a_refused_update() -> None:
    leader = replicated(isr=(1, 2))
    update = fetch(leader, 3, 10)
    assert leader.on_update_refused(update, ErrorCode.REQUEST_TIMED_OUT)
    assert leader.update_under_way is update
    assert not leader.on_update_refused(update, ErrorCode.INELIGIBLE_REPLICA)
    assert (leader.update_under_way, leader._maximal_isr) == (None, {1, 2})
    update = fetch(leader, 3, 10)
    # the partition has changed: the metadata will bring its state
    assert not leader.on_update_refused(update, ErrorCode.INVALID_UPDATE_VERSION)
    assert leader._maximal_isr == {1, 2, 3}
    leader.on_metadata(partition_epoch=4, isr=(1, 2), replicas=(1, 2, 3))
    assert (leader.update_under_way, leader._maximal_isr) == (None, {1, 2})


def test_old_metadata_has_no_effect() -> None:
    leader = replicated(isr=(1, 2))
    leader.on_metadata(partition_epoch=2, isr=(1,), replicas=(1,))
    assert (leader.isr, leader.has_followers) == ({1, 2}, True)


def test_no_record_commits_with_fewer_in_sync_than_min_insync_replicas() -> None:
    leader = replicated(isr=(1,), min_insync_replicas=2)
    assert (leader.high_watermark, leader.has_enough_replicas) == (4, False)
    update = fetch(leader, 2, 10)
    assert leader.high_watermark == 4
    leader.on_update_answered(update, leader_epoch=5, partition_epoch=4, isr=[1, 2])
    assert (leader.high_watermark, leader.has_enough_replicas) == (10, True)


def test_acknowledgements() -> None:
    leader = replicated(isr=(1, 2), min_insync_replicas=2)
    assert leader.acknowledgement(10) is None
    fetch(leader, 2, 10)
    assert leader.acknowledgement(10) is ErrorCode.NONE
    leader.on_metadata(partition_epoch=4, isr=(1,), replicas=(1, 2, 3))
    assert leader.acknowledgement(10) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_a_leader_is_settled_once_the_log_it_began_with_is_committed() -> None:
    leader = replicated(isr=(1, 2))
    leader.on_append(12)
    assert not leader.settled
    fetch(leader, 2, 10)
    assert leader.settled


def test_the_low_watermark_is_that_of_replicas_that_are_there() -> None:
    leader = replicated(isr=(1, 2))
    leader.on_follower_fetch(2, 10, 3, 7, 0)
    assert leader.low_watermark(5, lambda _: True) == -1
    assert leader.low_watermark(5, lambda node_id: node_id == 2) == 3
    assert leader.low_watermark(2, lambda node_id: node_id == 2) == 2
