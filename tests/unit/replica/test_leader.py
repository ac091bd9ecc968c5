"""The leader's high watermark and last stable offset."""

from ottla.core.replica.leader import PartitionLeader, last_stable_offset


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


def test_nothing_commits_before_every_in_sync_replica_has_it() -> None:
    three = leader(isr=(1, 2, 3))
    assert three.high_watermark == 0
    assert progress(three, 2, 10) == 0
    assert progress(three, 3, 7) == 7
    assert three.on_append(20) == 7


def test_the_high_watermark_never_moves_back() -> None:
    two = leader(isr=(1, 2))
    progress(two, 2, 9)
    assert progress(two, 2, 4) == 9


def test_a_replica_out_of_sync_holds_nothing_up() -> None:
    two = leader(isr=(1, 2))
    assert progress(two, 3, 2) == 0
    assert progress(two, 2, 10) == 10


def test_an_open_transaction_bounds_the_last_stable_offset() -> None:
    assert last_stable_offset(10, None) == 10
    assert last_stable_offset(10, 4) == 4
    assert last_stable_offset(10, 12) == 10
