"""How far a group is behind, in records and in time."""

from __future__ import annotations

from ottla.client.cluster_requests import TopicPartition
from ottla.client.groups.lag import behind, group_lag, longest_lag_ms, total_lag
from ottla.client.groups.model import GroupDescription, GroupMember, GroupOffset, GroupType

NOW_MS = 1_700_000_000_000
READ, BEHIND, GONE, NEW, EMPTY = (TopicPartition("t", number) for number in range(5))


def group(*assigned: TopicPartition) -> GroupDescription:
    member = GroupMember("m", None, "c", "/127.0.0.1", assigned=assigned)
    return GroupDescription("g", GroupType.CLASSIC, "consumer", "Stable", "range", None, (member,))


def test_lag_counts_records_and_the_age_of_the_first_of_them() -> None:
    offsets = {READ: GroupOffset(10), BEHIND: GroupOffset(3), GONE: GroupOffset(5)}
    ends = {READ: 10, BEHIND: 13, NEW: 7}
    assert behind(offsets, ends) == [(BEHIND, 3)]
    lags = group_lag(group(BEHIND, NEW), offsets, ends, {(BEHIND, 3): NOW_MS - 4_500}, NOW_MS)
    assert [(one.partition, one.offset, one.log_end_offset, one.lag, one.lag_ms) for one in lags] == [
        (0, 10, 10, 0, 0),
        (1, 3, 13, 10, 4_500),
        (2, 5, None, None, None),
        (3, None, 7, None, None),
    ]
    assert [one.member is not None for one in lags] == [False, True, False, True]
    assert (total_lag(lags), longest_lag_ms(lags)) == (10, 4_500)


def test_a_record_from_the_future_is_not_behind() -> None:
    offsets, ends = {BEHIND: GroupOffset(0)}, {BEHIND: 1}
    (lag,) = group_lag(group(), offsets, ends, {(BEHIND, 0): NOW_MS + 60_000}, NOW_MS)
    assert lag.lag_ms == 0


def test_an_age_that_nobody_knows_is_none() -> None:
    (lag,) = group_lag(group(), {BEHIND: GroupOffset(0)}, {BEHIND: 1}, {}, NOW_MS)
    assert (lag.lag, lag.lag_ms) == (1, None)
    assert total_lag([]) is None and longest_lag_ms([lag]) is None


def test_an_offset_beyond_the_end_is_a_negative_lag_that_counts_nothing() -> None:
    lags = group_lag(group(), {BEHIND: GroupOffset(9)}, {BEHIND: 4}, {}, NOW_MS)
    assert [one.lag for one in lags] == [-5]
    assert (total_lag(lags), longest_lag_ms(lags)) == (0, 0)


def test_the_lag_of_a_share_group_is_what_its_broker_says() -> None:
    """Records after the start offset may be acknowledged already."""
    offsets = {BEHIND: GroupOffset(2, lag=3), EMPTY: GroupOffset(None)}
    lags = group_lag(group(), offsets, {BEHIND: 10, EMPTY: 10}, {(BEHIND, 2): NOW_MS - 50}, NOW_MS)
    assert [(one.offset, one.lag, one.lag_ms) for one in lags] == [(2, 3, 50), (None, None, None)]
    offsets = {BEHIND: GroupOffset(2, lag=0)}
    (lag,) = group_lag(group(), offsets, {BEHIND: 10}, {(BEHIND, 2): NOW_MS - 50}, NOW_MS)
    assert (lag.lag, lag.lag_ms) == (0, 0)
