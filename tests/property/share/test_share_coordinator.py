"""The share coordinator in any order of requests, ends of appends, time and reloads.

Acknowledged changes are in the log; a new coordinator would load the same state from the pruned log; offsets
are in the state that the strongest of all acknowledged writes gave them.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ottla.core.share.coordinator import ShareCoordinatorSettings
from ottla.core.share.state_batches import StateBatch, combine
from ottla.protocol.errors import ErrorCode
from support.core.share_coordinator import (
    PARTITIONS,
    TOPIC,
    ShareCoordinatorDriver,
    delete,
    initialize,
    read,
    summary,
    write,
)
from support.exploration import examples

SETTINGS = ShareCoordinatorSettings(updates_per_snapshot=3, write_timeout_ms=5_000)
partitions = st.integers(0, PARTITIONS - 1)
LATEST_EPOCH = 3
epochs = st.integers(-1, LATEST_EPOCH)
batches = st.lists(
    st.tuples(st.integers(0, 15), st.integers(0, 5), st.sampled_from((0, 2, 4)), st.integers(1, 3)).map(
        lambda each: StateBatch(each[0], each[0] + each[1], each[2], each[3])
    ),
    max_size=4,
)


class ShareStates(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.driver = ShareCoordinatorDriver(SETTINGS)
        self.sent: list[int] = []

    @rule(partition=partitions, start=st.integers(-1, 10), state_epoch=epochs)
    def initialize(self, partition: int, start: int, state_epoch: int) -> None:
        self.sent.append(self.driver.send(initialize(start, state_epoch, partition)))

    @rule(partition=partitions, batches=batches, start=st.integers(-1, 12), state=epochs, leader=epochs)
    def write(self, partition: int, batches: list[StateBatch], start: int, state: int, leader: int) -> None:
        self.sent.append(self.driver.send(write(batches, start, state, leader, partition)))

    @rule(partition=partitions, leader_epoch=epochs)
    def read(self, partition: int, leader_epoch: int) -> None:
        self.sent.append(self.driver.send(read(leader_epoch, partition)))

    @rule(partition=partitions)
    def read_summary(self, partition: int) -> None:
        self.sent.append(self.driver.send(summary(partition)))

    @rule(partition=partitions)
    def delete(self, partition: int) -> None:
        self.sent.append(self.driver.send(delete(partition)))

    @rule()
    def topic_is_deleted_and_there_again(self) -> None:
        self.driver.topic_deleted(TOPIC)
        self.driver.topics[TOPIC] = PARTITIONS

    @rule(hold=st.booleans())
    def hold_appends(self, hold: bool) -> None:
        self.driver.hold_appends = hold
        while not hold and self.driver.held:
            self.driver.append_done()

    @precondition(lambda self: self.driver.held)
    @rule(done=st.booleans())
    def append_ends(self, done: bool) -> None:
        if done:
            self.driver.append_done()
        else:
            self.driver.append_failed()

    @rule(milliseconds=st.sampled_from((1, 5_000, 300_000)))
    def time_passes(self, milliseconds: int) -> None:
        self.driver.advance(milliseconds)

    @rule()
    def another_leader(self) -> None:
        self.driver.reload()

    @invariant()
    def a_new_leader_would_know_the_same(self) -> None:
        assert self.driver.reloaded_copy().states == self.driver.shard.states

    @invariant()
    def batches_are_in_order_from_the_start_on(self) -> None:
        for state in self.driver.shard.states.values():
            assert state.batches == combine((), state.batches, state.start_offset)

    def teardown(self) -> None:
        self.hold_appends(False)
        for request_id in self.sent:
            assert request_id in self.driver.replies, "a request was never answered"
        states = self.driver.shard.states
        for partition in range(PARTITIONS):
            answer = self.driver.ask(read(LATEST_EPOCH, partition))
            stored = [state for key, state in states.items() if key.partition == partition]
            if not stored:
                assert answer.error_code == ErrorCode.INVALID_REQUEST
                continue
            assert answer.start_offset == stored[0].start_offset
            assert len(answer.state_batches) == len(stored[0].batches)


ShareStates.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=50, deadline=None)
TestShareStates = ShareStates.TestCase
