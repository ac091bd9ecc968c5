"""A mirrored partition towards its source: positions, effects of answers, and their order."""

from __future__ import annotations

import pytest

from ottla.core.links.mirror import (
    TIMES_SHORT,
    AdvanceLogStart,
    AppendMirrored,
    AskOffsets,
    LookForLeader,
    LookForTopic,
    MirrorPosition,
    PartitionMirror,
    RetryLater,
    SourceAnswer,
    StartOver,
    Tell,
    Truncate,
)
from ottla.core.links.plan import (
    Acl,
    GroupOffset,
    Progress,
    may_stop,
    plan_acls,
    plan_configs,
    plan_offsets,
)
from ottla.core.links.promotion import end_of_mirror
from ottla.core.links.topic_state import AbortedTransaction, Loss, LossKind, MirrorState
from ottla.core.replica.reading import EpochEnd
from ottla.protocol.errors import ErrorCode
from ottla.storage.producer_states import ProducerState
from support.core.mirrored_log import Rec, StoredLog


def mirror(*epochs: int, start: int = 0, leader_epoch: int = 9) -> tuple[PartitionMirror, MirrorPosition]:
    log = StoredLog()
    log.start_over(start)
    log.append([Rec(epoch, number) for number, epoch in enumerate(epochs)])
    made = PartitionMirror(leader_epoch=leader_epoch, log=log)
    return made, made.position()


def test_the_position_names_the_end_and_its_epoch() -> None:
    assert mirror(2, 2, 5, start=10)[1] == MirrorPosition(13, 5)
    assert mirror()[1] == MirrorPosition(0, -1)


def test_records_are_appended_and_the_start_follows() -> None:
    made, asked = mirror(2, 2)
    answer = SourceAnswer(ErrorCode.NONE, 7, 1, None, b"batches")
    assert made.on_answer(asked, answer) == [AppendMirrored(b"batches", 2), AdvanceLogStart(1)]
    assert made.lag == 5


def test_an_answer_for_another_position_has_no_effect() -> None:
    made, _ = mirror(2, 2)
    answer = SourceAnswer(ErrorCode.NONE, 7, 0, None, b"batches")
    assert made.on_answer(MirrorPosition(1, 2), answer) == ()


def test_batches_above_the_leader_epoch_wait() -> None:
    made, _ = mirror(leader_epoch=4)
    assert made.appendable([2, 4, 5, 5]) == 2
    assert made.appendable([4]) == 1
    assert made.appendable([6]) == 0


@pytest.mark.parametrize(
    ("source", "cut"),
    [
        (EpochEnd(2, 3), 3),  # both have epoch 2, the source less of it
        (EpochEnd(2, 9), 4),  # the source has more of epoch 2, and nothing of 5
        (EpochEnd(3, 9), 4),  # the source has an epoch between that the mirror lacks
        (EpochEnd(1, 0), 0),
    ],
)
def test_a_divergence_is_told_before_the_log_is_cut(source: EpochEnd, cut: int) -> None:
    made, asked = mirror(2, 2, 2, 2, 5, 5)
    effects = made.on_answer(asked, SourceAnswer(ErrorCode.NONE, diverging=source))
    assert effects == (Tell(LossKind.TRUNCATED, 6, cut), Truncate(cut))


def test_a_divergence_that_would_cut_nothing_is_no_sense() -> None:
    made, asked = mirror(2, 2)
    (effect,) = made.on_answer(asked, SourceAnswer(ErrorCode.NONE, diverging=EpochEnd(2, 5)))
    assert isinstance(effect, RetryLater)


def test_retention_that_overtook_is_a_gap_but_not_for_an_empty_mirror() -> None:
    made, asked = mirror(2, 2)
    out_of_range = SourceAnswer(ErrorCode.OFFSET_OUT_OF_RANGE)
    assert made.on_answer(asked, out_of_range) == (AskOffsets(asked),)
    assert made.on_source_offsets(asked, 5, 9) == (Tell(LossKind.GAP, 2, 5), StartOver(5))
    empty, asked = mirror()
    assert empty.on_source_offsets(asked, 5, 9) == (StartOver(5),)


def test_a_source_that_lost_its_end_is_told_when_it_stays_so() -> None:
    made, asked = mirror(2, 2, 2)
    for _ in range(TIMES_SHORT - 1):
        assert isinstance(made.on_source_offsets(asked, 0, 1)[0], RetryLater)
    assert made.on_source_offsets(asked, 0, 1) == (Tell(LossKind.LOST, 3, 1),)
    made.on_answer(asked, SourceAnswer(ErrorCode.NONE, 3, 0))
    assert isinstance(made.on_source_offsets(asked, 0, 1)[0], RetryLater)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ErrorCode.UNKNOWN_TOPIC_ID, LookForTopic),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, LookForTopic),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, LookForLeader),
        (ErrorCode.FENCED_LEADER_EPOCH, LookForLeader),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, RetryLater),
    ],
)
def test_errors(error: ErrorCode, kind: type) -> None:
    made, asked = mirror(2)
    assert [type(each) for each in made.on_answer(asked, SourceAnswer(error))] == [kind]


def test_a_topic_that_is_gone_or_another_ends_the_mirror() -> None:
    made, _ = mirror(2, 2)
    assert made.on_source_topic("a", None) == (Tell(LossKind.DELETED, 2, 2),)
    assert made.on_source_topic("a", "b") == (Tell(LossKind.RECREATED, 2, 0),)
    assert isinstance(made.on_source_topic("a", "a")[0], LookForLeader)


# -- the end of a mirror --------------------------------------------------------------------------------


def test_open_transactions_are_aborted_and_colliding_producers_fenced() -> None:
    producers = [
        ProducerState(7, 3, coordinator_epoch=2, current_txn_first_offset=50),
        ProducerState(2, 0),
        ProducerState(5_000, 1, current_txn_first_offset=40),
    ]
    ended = end_of_mirror(producers, next_producer_id=1_000)
    assert ended.max_producer_id == 5_000
    assert ended.aborted == (AbortedTransaction(5_000, 40), AbortedTransaction(7, 50))
    assert [(each.producer_id, each.producer_epoch) for each in ended.markers] == [
        (5_000, 1), (7, 3), (2, 1), (7, 4),
    ]  # fmt: skip
    assert end_of_mirror([], 1_000).markers == ()


# -- what comes along -----------------------------------------------------------------------------------


def test_settings_become_the_sources_and_those_of_links_stay() -> None:
    here = {"ottla.link.name": "berlin", "retention.ms": "1", "segment.ms": "2", "compression.type": "gzip"}
    source = {"retention.ms": "5", "segment.ms": "2", "unknown.thing": "x", "remote.storage.enable": "true"}
    assert plan_configs(source, here) == {"retention.ms": "5", "compression.type": None}


def test_offsets_beyond_the_mirror_are_committed_at_its_end_for_now() -> None:
    source = {
        ("t", 0): GroupOffset(10, 3, "m"),
        ("t", 1): GroupOffset(99, 3, ""),
        ("t", 2): GroupOffset(1, 0, ""),
    }
    here = {("t", 0): GroupOffset(10, 3, "m")}
    assert plan_offsets(source, here, {("t", 0): 50, ("t", 1): 50}) == {("t", 1): GroupOffset(50, -1, "")}


def test_a_group_that_has_moved_is_left_alone() -> None:
    source, ends = {("t", 0): GroupOffset(10, 3, "m")}, {("t", 0): 50}
    assert plan_offsets(source, {("t", 0): GroupOffset(11, 3, "")}, ends) == {}
    assert plan_offsets(source, {("t", 0): GroupOffset(10, 3, "")}, ends) == source
    assert plan_offsets(source, {("t", 0): GroupOffset(9, 3, "m")}, ends) == source


def test_acls_of_mirror_topics_are_the_sources_and_others_only_come() -> None:
    def acl(kind: int, name: str, pattern: int = 3, who: str = "User:a") -> Acl:
        return Acl(kind, name, pattern, who, "*", 3, 3)

    source = [acl(2, "orders"), acl(2, "other"), acl(3, "readers"), acl(2, "or", 4), acl(4, "kafka-cluster")]
    here = [acl(2, "orders", who="User:old"), acl(2, "mine"), acl(3, "locals"), acl(2, "or", 4)]
    add, remove = plan_acls(source, here, {"orders"})
    assert add == [acl(3, "readers"), acl(2, "orders")]
    assert remove == [acl(2, "orders", who="User:old")]


def test_a_promotion_waits_for_all_partitions_and_a_fail_over_for_none() -> None:
    def state(name: str, *told: Loss) -> MirrorState:
        return MirrorState("berlin", "", name, {}, {}, told)

    there, behind = Progress(5, 5), Progress(9, 5)
    assert may_stop(state("promote"), [0, 1], {0: there, 1: there})
    assert not may_stop(state("promote"), [0, 1], {0: there, 1: behind})
    assert not may_stop(state("promote"), [0, 1], {0: there})
    assert not may_stop(state("promote"), [0], {0: Progress(None, 5)})
    assert not may_stop(state("promote", Loss(0, LossKind.DELETED, 5, 5, 0)), [0], {0: there})
    assert not may_stop(state("mirroring"), [0], {0: there})
    assert may_stop(state("fail-over"), [0], {})
