"""The tracker: what is known of a cluster's groups over time."""

from __future__ import annotations

from ottla.client.cluster_requests import TopicPartition
from ottla.client.first_records import FirstRecord, NoRecord, Place
from ottla.lag.core.standing import Position
from ottla.lag.core.tracker import PartitionVerdict, Rules, Tracker
from ottla.lag.core.verdicts import Status

ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 1)
NOW_MS = 1_700_000_000_000


def tracker(end: int = 100, **rules: int | float) -> Tracker:
    made = Tracker(Rules(**rules))  # type: ignore[arg-type]
    for partition in (ONE, TWO):
        made.saw_end(partition, end, NOW_MS)
    return made


def commit(made: Tracker, offset: int, at_ms: int, group: str = "g") -> None:
    made.saw_commit(group, ONE, offset, order=at_ms, timestamp_ms=NOW_MS + at_ms, now_ms=NOW_MS + at_ms)


def only(made: Tracker, at_ms: int, group: str = "g") -> PartitionVerdict:
    verdict = made.verdict(group, NOW_MS + at_ms)
    assert verdict is not None
    (one,) = verdict.partitions
    return one


def test_a_group_that_keeps_up_then_stops() -> None:
    made = tracker()
    for number in range(10):
        made.saw_end(ONE, 100 + number * 10, NOW_MS + number * 1_000)
        commit(made, 100 + number * 10, number * 1_000)
    assert only(made, 9_000).status is Status.OK
    for number in range(10, 30):
        made.saw_end(ONE, 100 + number * 10, NOW_MS + number * 1_000)
    stopped = only(made, 29_000)
    assert (stopped.status, stopped.lag) == (Status.STOP, 200)
    # the record after the last commit was written between the ends of second 9 and of second 10
    assert stopped.lag_ms is not None and 19_000 <= stopped.lag_ms <= 20_000


def test_the_total_and_the_worst_partition() -> None:
    made = tracker()
    made.saw_position("g", ONE, 90, NOW_MS)
    made.saw_position("g", TWO, 40, NOW_MS)
    verdict = made.verdict("g", NOW_MS)
    assert verdict is not None and verdict.total_lag == 70
    assert verdict.max_lag is not None and verdict.max_lag.partition == TWO
    assert verdict.complete == 0.0
    assert made.verdict("other", NOW_MS) is None


def test_a_commit_of_a_partition_without_a_known_end_is_passed_over() -> None:
    made = Tracker()
    commit(made, 5, 0)
    assert made.groups == []


def test_a_commit_that_is_too_old_is_passed_over_and_a_silent_group_expires() -> None:
    made = tracker(expire_ms=10_000)
    made.saw_commit("g", ONE, 5, order=1, timestamp_ms=NOW_MS - 10_001, now_ms=NOW_MS)
    assert made.groups == []
    commit(made, 5, 0)
    assert made.expire(NOW_MS + 10_000) == []
    assert made.expire(NOW_MS + 10_001) == ["g"]
    assert made.groups == []


def test_a_window_that_is_hardly_filled_is_ok_where_the_rules_say_so() -> None:
    made = tracker(minimum_complete=0.5, intervals=4)
    commit(made, 5, 0)
    made.saw_end(ONE, 200, NOW_MS + 500)
    assert only(made, 60_000).status is Status.OK
    commit(made, 6, 1_000)
    assert only(made, 60_000).status is Status.STOP


def test_an_assigned_partition_without_an_offset_is_told_as_such() -> None:
    made = tracker()
    made.saw_owners("g", {ONE: ("/127.0.0.1", "packer")}, NOW_MS)
    one = only(made, 0)
    assert (one.standing.position, one.standing.lag, one.lag_ms) == (Position.NOT_COMMITTED, None, None)
    assert (one.owner, one.client_id, one.status) == ("/127.0.0.1", "packer", Status.OK)


def test_offsets_that_are_gone_are_forgotten_and_owned_partitions_stay() -> None:
    made = tracker()
    for partition in (ONE, TWO):
        made.saw_position("g", partition, 10, NOW_MS)
    made.saw_owners("g", {ONE: ("/h", "c")}, NOW_MS)
    made.forget_offsets_but("g", (), NOW_MS + 1)
    one = only(made, 1)
    assert (one.partition, one.standing.position) == (ONE, Position.NOT_COMMITTED)
    made.forget_offset("g", ONE)
    assert made.groups == []


def test_a_commit_that_came_while_offsets_were_asked_for_is_kept() -> None:
    made = tracker()
    commit(made, 10, 500)
    made.forget_offsets_but("g", (), NOW_MS + 100)
    assert only(made, 600).offset == 10


def test_a_topic_that_is_gone_takes_its_groups_along() -> None:
    made = tracker()
    made.saw_position("g", ONE, 10, NOW_MS)
    made.forget_topics_but([TWO])
    assert made.groups == [] and made.partitions == {TWO} and made.ends("orders") == [100]
    assert made.ends("nothing") is None


def test_an_offset_beyond_an_end_that_was_read_later_says_that_the_log_was_cut() -> None:
    made = tracker()
    made.saw_position("g", ONE, 120, NOW_MS + 10)
    assert only(made, 20).standing.position is Position.CAUGHT_UP, (
        "records may have come since the end was read"
    )
    made.saw_end(ONE, 105, NOW_MS + 1_000)
    cut = only(made, 1_000).standing
    assert (cut.position, cut.lag) == (Position.BEYOND_END, 0)


def wanted(made: Tracker, at_ms: int = 0) -> list[tuple[Place, int]]:
    """Places and ends, in the order in which they are looked at."""
    found = sorted(made.wanted(made.places().items(), NOW_MS + at_ms), key=lambda one: one.rank)
    return [(one.place, one.end) for one in found]


def test_only_places_that_are_not_known_are_wanted() -> None:
    made = tracker()
    made.saw_position("a", ONE, 10, NOW_MS)
    made.saw_position("b", ONE, 98, NOW_MS)
    made.saw_position("c", TWO, 100, NOW_MS)
    assert made.behind(made.places()) == [ONE]
    assert wanted(made) == [((ONE, 98), 100), ((ONE, 10), 100)]
    made.saw_first((ONE, 98), NoRecord(), 100, NOW_MS)
    made.saw_first((ONE, 10), FirstRecord(12, NOW_MS - 5_000), 100, NOW_MS - 1)
    assert wanted(made) == []
    assert wanted(made, 60_000) == [((ONE, 10), 100), ((ONE, 98), 100)], "the one that is known longest first"
    assert only(made, 0, "b").standing.position is Position.CAUGHT_UP
    behind = only(made, 0, "a")
    assert (behind.lag, behind.lag_ms) == (90, 5_000)
    made.saw_end(ONE, 101, NOW_MS + 1_000)
    assert wanted(made) == [((ONE, 98), 101)], "a log that grew may have a record now"


def test_sampled_offsets_that_change_are_commits_and_those_that_stay_are_none() -> None:
    made = tracker()
    for number, offset in enumerate((10, 10, 20, 20, 30)):
        made.saw_position("g", ONE, offset, NOW_MS + number * 1_000, is_commit=True)
    assert [one.offset for one in made.window("g", ONE)] == [10, 20, 30]


def test_a_sampled_group_is_given_time_for_its_first_commit() -> None:
    made = tracker()
    made.saw_position("g", ONE, 10, NOW_MS, is_commit=True)
    assert only(made, 59_999).status is Status.OK
    assert only(made, 60_000).status is Status.STOP
    made.saw_position("g", ONE, 20, NOW_MS + 61_000, is_commit=True)
    assert only(made, 62_000).status is Status.OK
    made.saw_position("g", ONE, 5, NOW_MS + 63_000, is_commit=True)
    assert only(made, 63_000).status is Status.REWIND


def test_an_offset_from_before_the_commits_that_are_read_goes_with_the_first_of_them() -> None:
    made = tracker()
    made.saw_position("g", ONE, 10, NOW_MS, committed_ms=NOW_MS - 600_000)
    assert only(made, 0).status is Status.STOP
    commit(made, 20, 1_000)
    commit(made, 30, 2_000)
    assert [one.offset for one in made.window("g", ONE)] == [20, 30]
    assert only(made, 2_500).status is Status.OK


def test_commits_of_the_topic_take_the_place_of_those_that_were_sampled() -> None:
    made = tracker()
    for number, offset in enumerate((10, 20, 30)):
        made.saw_position("g", ONE, offset, NOW_MS + number * 1_000, is_commit=True)
    made.saw_commit("g", ONE, 40, order=7, timestamp_ms=NOW_MS + 3_000, now_ms=NOW_MS + 3_000)
    assert [one.offset for one in made.window("g", ONE)] == [40]
    made.saw_commit("g", ONE, 25, order=5, timestamp_ms=NOW_MS + 1_000, now_ms=NOW_MS + 3_000)
    assert [one.offset for one in made.window("g", ONE)] == [25, 40]
    # the topic can't be read any more, and then again
    made.saw_position("g", ONE, 40, NOW_MS + 4_000, is_commit=True)
    made.saw_position("g", ONE, 50, NOW_MS + 5_000, is_commit=True)
    assert [one.offset for one in made.window("g", ONE)] == [25, 40, 50]
    made.saw_commit("g", ONE, 40, order=7, timestamp_ms=NOW_MS + 3_000, now_ms=NOW_MS + 6_000)
    made.saw_commit("g", ONE, 50, order=9, timestamp_ms=NOW_MS + 4_900, now_ms=NOW_MS + 6_000)
    assert [(one.order, one.offset) for one in made.window("g", ONE)] == [(7, 40), (9, 50)]
