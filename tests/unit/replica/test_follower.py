"""A follower's next fetch, and the effects of answers on its log."""

from __future__ import annotations

import pytest

from ottla.core.replica.follower import (
    NONSENSE,
    AdvanceLogStart,
    AppendFetched,
    AskOffsets,
    AwaitMetadata,
    Effect,
    FetchAnswer,
    PartitionFollower,
    RetryLater,
    StartOver,
    Truncate,
)
from ottla.core.replica.reading import EpochEnd
from ottla.protocol.errors import ErrorCode
from support.core.replicated_log import FakeLog, Rec


def log_of(*epochs: int) -> FakeLog:
    log = FakeLog()
    log.append([Rec(epoch, value) for value, epoch in enumerate(epochs)])
    return log


def follower_of(log: FakeLog, leader_epoch: int = 9, high_watermark: int = 0) -> PartitionFollower:
    return PartitionFollower(leader_id=2, leader_epoch=leader_epoch, log=log, high_watermark=high_watermark)


def answered(follower: PartitionFollower, answer: FetchAnswer) -> list[Effect]:
    return list(follower.on_answer(follower.position(), answer))


def test_it_fetches_from_its_end_and_names_its_last_epoch() -> None:
    assert follower_of(log_of(1, 1, 3)).position()[:4] == (3, 3, 9, 0)
    assert follower_of(FakeLog()).position()[:4] == (0, -1, 9, 0)


def test_records_are_appended_and_the_high_watermark_follows_as_far_as_the_log_goes() -> None:
    log = log_of(1)
    follower = follower_of(log)
    assert answered(follower, FetchAnswer(ErrorCode.NONE, 5, 0, None, b"records")) == [
        AppendFetched(b"records", fetch_offset=1, leader_epoch=9)
    ]
    log.append([Rec(1, 7), Rec(1, 8)])
    follower.on_appended()
    assert follower.high_watermark == 3
    assert answered(follower, FetchAnswer(ErrorCode.NONE, 2, 0)) == []
    assert follower.high_watermark == 3  # it does not go back


def test_the_leaders_start_is_followed() -> None:
    assert answered(follower_of(log_of(1, 1)), FetchAnswer(ErrorCode.NONE, 2, 1)) == [AdvanceLogStart(1)]


@pytest.mark.parametrize(
    ("own", "told", "cut"),
    [
        ((1, 1, 3, 3), EpochEnd(3, 3), 3),  # the leader has less of the epoch
        ((1, 1, 3, 3), EpochEnd(2, 9), 2),  # the leader's epoch 2 is unknown here: back to the end of 1
        ((1, 1, 3, 3), EpochEnd(1, 4), 2),  # the leader has more of epoch 1: back to the end of it here
        ((1, 1, 3, 3), EpochEnd(1, 1), 1),
        ((3, 3), EpochEnd(2, 5), 0),  # the whole log here is of later epochs
    ],
)
def test_a_diverging_tail_goes(own: tuple[int, ...], told: EpochEnd, cut: int) -> None:
    log = log_of(*own)
    follower = follower_of(log, high_watermark=4)
    assert answered(follower, FetchAnswer(ErrorCode.NONE, 9, 0, told)) == [Truncate(cut)]
    log.truncate(cut)
    follower.on_truncated()
    assert follower.high_watermark <= cut


@pytest.mark.parametrize("end_offset", [-1, -(2**63)])
def test_an_impossible_divergence_is_ignored(end_offset: int) -> None:
    told = EpochEnd(1, end_offset)
    assert answered(follower_of(log_of(1, 1)), FetchAnswer(ErrorCode.NONE, 2, 0, told)) == [NONSENSE]


def test_an_epoch_without_records_goes_too() -> None:
    log = log_of(1, 1)
    log.assign_epoch(2, 2)
    assert answered(follower_of(log), FetchAnswer(ErrorCode.NONE, 2, 0, EpochEnd(1, 2))) == [Truncate(2)]


def test_errors() -> None:
    follower = follower_of(log_of(1))
    asked = follower.position()
    assert answered(follower, FetchAnswer(ErrorCode.OFFSET_OUT_OF_RANGE)) == [AskOffsets(asked)]
    for code in (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER):
        assert answered(follower, FetchAnswer(code)) == [AwaitMetadata(code)]
    code = ErrorCode.KAFKA_STORAGE_ERROR
    assert answered(follower, FetchAnswer(code)) == [RetryLater(code)]


@pytest.mark.parametrize(
    ("start", "end", "effects"),
    [
        (0, 1, [Truncate(1)]),
        (5, 9, [StartOver(5)]),
        (0, 9, []),
        (-5, -1, [NONSENSE]),
        (0, -1, [NONSENSE]),
        (9, 5, [NONSENSE]),
    ],
)
def test_an_offset_that_the_leader_does_not_have(start: int, end: int, effects: list[Effect]) -> None:
    follower = follower_of(log_of(1, 1))
    assert list(follower.on_leader_offsets(follower.position(), start, end)) == effects


def test_an_answer_to_an_earlier_position_is_ignored() -> None:
    log = log_of(1)
    follower = follower_of(log)
    asked = follower.position()
    log.append([Rec(1, 9)])
    assert list(follower.on_answer(asked, FetchAnswer(ErrorCode.NONE, 5, 0, EpochEnd(0, 0)))) == []
    late = asked._replace(leader_epoch=8)
    assert list(follower_of(log_of(1)).on_answer(late, FetchAnswer(ErrorCode.NONE, 5, 0, None, b"x"))) == []
