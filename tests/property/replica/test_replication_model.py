"""Acknowledged records survive any events at a partition's replicas; the model would notice a loss."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

import pytest

from ottla.core.replica import reading
from ottla.core.replica.follower import PartitionFollower
from ottla.core.replica.leader import PartitionLeader
from ottla.protocol.errors import ErrorCode
from support.core.replicated_log import failing_seeds, run
from support.exploration import examples

BROKEN_SEEDS = range(60)


def test_no_acknowledged_record_is_lost_and_replicas_agree_in_the_end() -> None:
    acknowledged = epochs = 0
    for seed in range(examples(60)):
        try:
            partition = run(seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        acknowledged += len(partition.acknowledged)
        epochs += partition.state.leader_epoch
    assert acknowledged > 5 * examples(60)  # the histories are not trivial
    assert epochs > 2 * examples(60)


def without_divergence() -> AbstractContextManager[Any]:
    return mock.patch.object(reading, "find_divergence", lambda *_: None)


def without_truncation() -> AbstractContextManager[Any]:
    on_answer = PartitionFollower.on_answer

    def kept(self: PartitionFollower, asked: Any, answer: Any) -> Any:
        return () if answer.diverging is not None else on_answer(self, asked, answer)

    return mock.patch.object(PartitionFollower, "on_answer", kept)


def acknowledged_at_once() -> AbstractContextManager[Any]:
    return mock.patch.object(PartitionLeader, "acknowledgement", lambda *_: ErrorCode.NONE)


def without_min_isr() -> AbstractContextManager[Any]:
    return mock.patch.object(PartitionLeader, "has_enough_replicas", property(lambda _: True))


def pending_members_do_not_count() -> AbstractContextManager[Any]:
    def moved(self: Any) -> None:
        if self.has_enough_replicas:
            ends = [state.log_end_offset for node, state in self._followers.items() if node in self.isr]
            self.high_watermark = max(self.high_watermark, min([self.log_end_offset, *ends]))

    return mock.patch.object(PartitionLeader, "_move_high_watermark", moved)


def a_majority_is_enough() -> AbstractContextManager[Any]:
    def moved(self: Any) -> None:
        ends = sorted([self.log_end_offset, *(each.log_end_offset for each in self._followers.values())])
        self.high_watermark = max(self.high_watermark, ends[len(ends) // 2])

    return mock.patch.object(PartitionLeader, "_move_high_watermark", moved)


def joining_before_the_high_watermark() -> AbstractContextManager[Any]:
    return mock.patch.object(PartitionLeader, "_may_join", PartitionLeader._is_eligible)


@pytest.mark.parametrize(
    "broken",
    [
        without_divergence,
        without_truncation,
        acknowledged_at_once,
        without_min_isr,
        pending_members_do_not_count,
        a_majority_is_enough,
        joining_before_the_high_watermark,
    ],
)
def test_the_model_notices(broken: Callable[[], AbstractContextManager[Any]]) -> None:
    with broken():
        assert next(failing_seeds(BROKEN_SEEDS), None) is not None
