"""The partitions of share groups whose delivery state begins or ends with the share coordinator.

Theory of operation. When a group subscribes to a topic, its partitions are recorded as initializing, the
share coordinator is asked to begin their state, and its answer makes them initialized; then they may be
assigned. Deletions go the same way by `deleting`. So all that is under way when this coordinator ends is in
the log: initializing partitions are requested again when a member heartbeats and no answer has come for
group.share.initialize.retry.interval.ms, deletions when an administrator repeats them. To begin or to end a
state twice is not an error to the share coordinator.

Requests about one group are sent one after the other, so the share coordinator gets them in the order of the
decisions, and an answer counts as long as no later request contradicts it: a partition that is deleted and
subscribed to again ends as initialized.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from ottla.core.coordination.records import CoordinatorRecord
from ottla.core.groups.api import DeletedTopic
from ottla.core.groups.context import ShardContext
from ottla.core.groups.share import records
from ottla.core.groups.share.api import (
    AskShareCoordinator,
    ShareCoordinatorAnswered,
    ShareStateRequest,
    ShareStateResponse,
)
from ottla.core.groups.share.group import ShareGroup, StatePartitions, TopicPartitions, TopicState
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.delete_share_group_state_request import DeleteShareGroupStateRequest
from ottla.protocol.messages.initialize_share_group_state_request import (
    InitializeShareGroupStateRequest,
    InitializeStateData,
    PartitionData,
)

UNDECIDED_START_OFFSET = -1
"""Leaves the start to the share partition's leader, which uses the group's share.auto.offset.reset."""

Answered: TypeAlias = Callable[[ShareStateResponse], None]
Topics: TypeAlias = Mapping[uuid.UUID, TopicState]


class StatePartitionsOfGroups:
    """Keeps the state partitions of a shard's share groups, and asks the share coordinator."""

    def __init__(self, context: ShardContext) -> None:
        self._context = context
        self._outbox = context.outbox
        self._groups = context.share
        self._next_call_id = 0
        self._calls: dict[int, tuple[ShareStateRequest, Answered]] = {}
        """Call id -> the unanswered request and its continuation; one call a group."""
        self._waiting: dict[str, deque[tuple[ShareStateRequest, Answered]]] = {}
        """The groups with a call under way, each with the calls that wait for it."""

    # Requests to the share coordinator

    def ask(self, request: ShareStateRequest, answered: Answered) -> None:
        """Ask the share coordinator, after the earlier requests about the same group."""
        waiting = self._waiting.get(request.group_id)
        if waiting is None:
            self._waiting[request.group_id] = deque()
            self._emit(request, answered)
        else:
            waiting.append((request, answered))

    def _emit(self, request: ShareStateRequest, answered: Answered) -> None:
        call_id = self._next_call_id
        self._next_call_id += 1
        self._calls[call_id] = request, answered
        self._outbox.emit(AskShareCoordinator(call_id, request))

    def on_answer(self, event: ShareCoordinatorAnswered) -> None:
        """Continue with an answer, and send the next request about the group."""
        request, answered = self._calls.pop(event.call_id)
        group_id = request.group_id
        answered(event.response)
        waiting = self._waiting[group_id]
        if waiting:
            self._emit(*waiting.popleft())
        else:
            del self._waiting[group_id]

    def _to_be_answered(self, group_id: str, *kinds: type[ShareStateRequest]) -> TopicPartitions:
        """The partitions of a group in unanswered and waiting requests of these types."""
        requests = [request for request, _ in self._calls.values() if request.group_id == group_id]
        requests += [request for request, _ in self._waiting.get(group_id, ())]
        found: dict[uuid.UUID, frozenset[int]] = {}
        for request in requests:
            for topic in request.topics if isinstance(request, kinds) else ():
                partitions = frozenset(each.partition for each in topic.partitions)
                found[topic.topic_id] = partitions | found.get(topic.topic_id, frozenset())
        return found

    # Initialization

    def begin(
        self, group: ShareGroup, epoch: int, names: Iterable[str], changes: list[CoordinatorRecord]
    ) -> InitializeShareGroupStateRequest | None:
        """Add a record to `changes` that the named topics' partitions without state are initializing.

        Returns the request to send once that is in the log (`ask_to_begin`), None if there is nothing to
        begin.
        """
        states = group.states or StatePartitions()
        retry_ms = self._context.broker_settings.share_initialize_retry_interval_ms
        is_fresh = self._outbox.now.steady_ms - group.states_since_ms < retry_ms
        begun: dict[uuid.UUID, TopicState] = {}
        for name in sorted(names):
            topic = self._context.topics.named(name)
            if topic is None:
                continue
            have = partitions_of(states.initialized, topic.topic_id)
            if len(have) >= topic.partition_count:
                continue
            if is_fresh:
                have |= partitions_of(states.initializing, topic.topic_id)
            missing = frozenset(range(topic.partition_count)) - have
            if missing:
                begun[topic.topic_id] = TopicState(name, missing)
        if not begun:
            return None
        changes.append(records.state_partitions(group.group_id, with_initializing(states, begun)))
        offsets = {
            topic_id: dict.fromkeys(sorted(topic.partitions), UNDECIDED_START_OFFSET)
            for topic_id, topic in begun.items()
        }
        return initialize_request(group.group_id, epoch, offsets)

    def ask_to_begin(self, request: InitializeShareGroupStateRequest) -> None:
        """Send the request that `begin` returned."""
        self.ask(request, lambda response: self.begun(request.group_id, response, lambda error: None))

    def begun(self, group_id: str, response: ShareStateResponse, then: Callable[[ErrorCode], None]) -> None:
        """Record the partitions that have state now; `then` is called when that append has ended.

        Partitions with an error in the response are no longer initializing: the next heartbeat of a member
        that subscribes to them tries again.
        """
        self._context.turns.run(group_id, lambda: self._record_begun(group_id, response, then))

    def _record_begun(
        self, group_id: str, response: ShareStateResponse, then: Callable[[ErrorCode], None]
    ) -> None:
        group = self._groups.get(group_id)
        if group is None or group.states is None:
            then(ErrorCode.NONE)
            return
        # A partition that is to be deleted next does not count as begun; one to begin again has not failed
        # yet.
        ending = self._to_be_answered(group_id, DeleteShareGroupStateRequest)
        beginning = self._to_be_answered(group_id, InitializeShareGroupStateRequest)
        begun = _less(_by_success(response, True), ending)
        failed = _less(_less(_by_success(response, False), ending), beginning)
        if failed:
            self._outbox.note(
                "share state could not be initialized group=%s partitions=%d",
                group_id,
                sum(len(partitions) for partitions in failed.values()),
            )
        states = group.states
        initializing = without(without(states.initializing, begun), failed)
        initialized = dict(states.initialized)
        for topic_id, topic in states.initializing.items():
            # Not topics that were deleted meanwhile.
            new = topic.partitions & begun.get(topic_id, frozenset())
            if new:
                initialized[topic_id] = TopicState(topic.name, new | partitions_of(initialized, topic_id))
        self.write(group, StatePartitions(initializing, initialized, states.deleting), then)

    def write(self, group: ShareGroup, states: StatePartitions, then: Callable[[ErrorCode], None]) -> None:
        """Append the states if they have changed, in the group's turn; `then` is called at the end."""
        if states == group.states:
            then(ErrorCode.NONE)
        else:
            record = records.state_partitions(group.group_id, states)
            self._context.turns.append(group.group_id, [record], lambda: then(ErrorCode.NONE), then)

    # Topics

    def topics_deleted(self, topics: Iterable[DeletedTopic]) -> None:
        """Forget the partitions of deleted topics; the share coordinator is told of them by its own event."""
        gone = frozenset(topic.topic_id for topic in topics)
        for group in list(self._groups.values()):
            states = group.states
            if states is not None and gone & {*states.initializing, *states.initialized, *states.deleting}:
                self._run_forget(group.group_id, gone)

    def _run_forget(self, group_id: str, gone: frozenset[uuid.UUID]) -> None:
        self._context.turns.run(group_id, lambda: self._forget(group_id, gone))

    def _forget(self, group_id: str, gone: frozenset[uuid.UUID]) -> None:
        group = self._groups.get(group_id)
        if group is None or group.states is None:
            return
        states = StatePartitions(
            {
                topic_id: topic
                for topic_id, topic in group.states.initializing.items()
                if topic_id not in gone
            },
            {topic_id: topic for topic_id, topic in group.states.initialized.items() if topic_id not in gone},
            {topic_id: name for topic_id, name in group.states.deleting.items() if topic_id not in gone},
        )
        self.write(group, states, lambda error: None)


def with_initializing(states: StatePartitions, begun: Topics) -> StatePartitions:
    """`states` with these partitions initializing too; a topic that is initializing is not deleting."""
    initializing = dict(states.initializing)
    for topic_id, topic in begun.items():
        before = partitions_of(initializing, topic_id)
        initializing[topic_id] = TopicState(topic.name, topic.partitions | before)
    deleting = {topic_id: name for topic_id, name in states.deleting.items() if topic_id not in initializing}
    return StatePartitions(initializing, states.initialized, deleting)


def without(topics: Topics, taken: TopicPartitions) -> dict[uuid.UUID, TopicState]:
    """`topics` without some partitions, and without topics that have none left."""
    left = {}
    for topic_id, topic in topics.items():
        partitions = topic.partitions - taken.get(topic_id, frozenset())
        if partitions:
            left[topic_id] = TopicState(topic.name, partitions)
    return left


def partitions_of(topics: Topics, topic_id: uuid.UUID) -> frozenset[int]:
    topic = topics.get(topic_id)
    return frozenset() if topic is None else topic.partitions


def initialize_request(
    group_id: str, state_epoch: int, offsets: Mapping[uuid.UUID, Mapping[int, int]]
) -> InitializeShareGroupStateRequest:
    """A request to begin the state of these partitions: topic id -> partition -> start offset."""
    return InitializeShareGroupStateRequest(
        group_id=group_id,
        topics=[
            InitializeStateData(
                topic_id=topic_id,
                partitions=[
                    PartitionData(partition=partition, state_epoch=state_epoch, start_offset=start_offset)
                    for partition, start_offset in partitions.items()
                ],
            )
            for topic_id, partitions in offsets.items()
        ],
    )


def _less(partitions: TopicPartitions, taken: TopicPartitions) -> dict[uuid.UUID, frozenset[int]]:
    return {topic_id: these - taken.get(topic_id, frozenset()) for topic_id, these in partitions.items()}


def _by_success(response: ShareStateResponse, succeeded: bool) -> dict[uuid.UUID, frozenset[int]]:
    """The partitions of a response without an error, or those with one."""
    found = {}
    for topic in response.results:
        partitions = frozenset(
            each.partition for each in topic.partitions if (each.error_code == ErrorCode.NONE) is succeeded
        )
        if partitions:
            found[topic.topic_id] = partitions
    return found
