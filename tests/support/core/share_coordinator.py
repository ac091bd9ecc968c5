"""A share coordinator's shard under a test's control: its clock, its log and the ends of its appends."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ottla.core.coordination.api import (
    Append,
    AppendDone,
    AppendFailed,
    Client,
    Loaded,
    Moment,
    Reply,
    RequestReceived,
    Resigned,
    Tick,
)
from ottla.core.coordination.records import CoordinatorRecord
from ottla.core.share.coordinator import (
    Event,
    Prune,
    ShareCoordinatorSettings,
    ShareCoordinatorShard,
    TopicIdsDeleted,
)
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import (
    delete_share_group_state_request,
    initialize_share_group_state_request,
    read_share_group_state_request,
    read_share_group_state_summary_request,
    write_share_group_state_request,
)
from ottla.protocol.messages.delete_share_group_state_request import DeleteShareGroupStateRequest
from ottla.protocol.messages.initialize_share_group_state_request import InitializeShareGroupStateRequest
from ottla.protocol.messages.read_share_group_state_request import ReadShareGroupStateRequest
from ottla.protocol.messages.read_share_group_state_summary_request import (
    ReadShareGroupStateSummaryRequest,
)
from ottla.protocol.messages.write_share_group_state_request import WriteShareGroupStateRequest
from ottla.protocol.schema import Message

WALL_MINUS_STEADY_MS = 1_700_000_000_000
TOPIC = uuid.UUID(int=7)
PARTITIONS = 3


class ShareCoordinatorDriver:
    """Feeds a shard events and collects its effects. Appends succeed at once unless `hold_appends` is set."""

    def __init__(self, settings: ShareCoordinatorSettings | None = None) -> None:
        self.settings = settings or ShareCoordinatorSettings()
        self.topics = {TOPIC: PARTITIONS}
        self.now_ms = 0
        self.log: list[CoordinatorRecord] = []
        self.pruned_to = 0
        self._pruned_by_leader = -1
        self.replies: dict[int, Any] = {}
        """The one partition's answer in each reply."""
        self.held: deque[Append] = deque()
        self.hold_appends = False
        self._next_request_id = 0
        self.shard = self._loaded_shard()

    @property
    def now(self) -> Moment:
        return Moment(self.now_ms, self.now_ms + WALL_MINUS_STEADY_MS)

    # -- requests ---------------------------------------------------------------------------------

    def send(self, request: Message) -> int:
        """Give the shard a request; its answer, now or later, is in `replies` under the returned id."""
        request_id = self._next_request_id
        self._next_request_id += 1
        self.step(RequestReceived(self.now, request_id, request, Client("", "", 0)))
        return request_id

    def ask(self, request: Message) -> Any:
        """The one partition's answer to a request that is answered at once."""
        return self.replies[self.send(request)]

    def error(self, request: Message) -> ErrorCode:
        return ErrorCode(self.ask(request).error_code)

    # -- events -----------------------------------------------------------------------------------

    def advance(self, milliseconds: int) -> None:
        """Let time pass, and send ticks when they are due."""
        end_ms = self.now_ms + milliseconds
        while (wake_ms := self.shard.next_wake_ms()) is not None and wake_ms <= end_ms:
            self.now_ms = max(self.now_ms, wake_ms)
            self.step(Tick(self.now))
        self.now_ms = end_ms

    def append_done(self) -> None:
        """The oldest held append is committed."""
        append = self.held.popleft()
        base_offset = len(self.log)
        self.log += append.records
        self.step(AppendDone(self.now, append.append_id, base_offset))

    def append_failed(self, error: ErrorCode = ErrorCode.NOT_ENOUGH_REPLICAS) -> None:
        """The oldest held append was refused."""
        self.step(AppendFailed(self.now, self.held.popleft().append_id, error))

    def topic_deleted(self, topic_id: uuid.UUID) -> None:
        self.topics.pop(topic_id, None)
        self.step(TopicIdsDeleted(self.now, frozenset({topic_id})))

    def reload(self) -> None:
        """A new leader loads the log; appends that were held are lost."""
        self.step(Resigned(self.now))
        self.held.clear()
        self._pruned_by_leader = -1
        self.shard = self._loaded_shard()

    def reloaded_copy(self) -> ShareCoordinatorShard:
        """The state that a new leader would load now."""
        return self._loaded_shard()

    def step(self, event: Event) -> None:
        for effect in self.shard.step(event):
            match effect:
                case Reply(request_id, response):
                    assert request_id not in self.replies, "a second answer to one request"
                    self.replies[request_id] = response.results[0].partitions[0]  # type: ignore[attr-defined]
                case Append():
                    self.held.append(effect)
                case Prune(offset):
                    # A new leader may repeat a pruning of the last one.
                    assert self.pruned_to <= offset <= len(self.log)
                    assert self._pruned_by_leader < offset, "asked twice by one leader"
                    self.pruned_to = self._pruned_by_leader = offset
        if not self.hold_appends:
            while self.held:
                self.append_done()

    def _loaded_shard(self) -> ShareCoordinatorShard:
        shard = ShareCoordinatorShard(self.settings, lambda topic_id: self.topics.get(topic_id, 0))
        for offset in range(self.pruned_to, len(self.log)):
            shard.replay(replace(self.log[offset], offset=offset))
        shard.step(Loaded(self.now))
        return shard


def initialize(
    start_offset: int = 0, state_epoch: int = 1, partition: int = 0, topic_id: uuid.UUID = TOPIC
) -> InitializeShareGroupStateRequest:
    data = initialize_share_group_state_request.PartitionData(
        partition=partition, state_epoch=state_epoch, start_offset=start_offset
    )
    topic = initialize_share_group_state_request.InitializeStateData(topic_id=topic_id, partitions=[data])
    return InitializeShareGroupStateRequest(group_id="g", topics=[topic])


def read(
    leader_epoch: int = 0, partition: int = 0, topic_id: uuid.UUID = TOPIC
) -> ReadShareGroupStateRequest:
    data = read_share_group_state_request.PartitionData(partition=partition, leader_epoch=leader_epoch)
    topic = read_share_group_state_request.ReadStateData(topic_id=topic_id, partitions=[data])
    return ReadShareGroupStateRequest(group_id="g", topics=[topic])


def summary(partition: int = 0, topic_id: uuid.UUID = TOPIC) -> ReadShareGroupStateSummaryRequest:
    data = read_share_group_state_summary_request.PartitionData(partition=partition)
    topic = read_share_group_state_summary_request.ReadStateSummaryData(topic_id=topic_id, partitions=[data])
    return ReadShareGroupStateSummaryRequest(group_id="g", topics=[topic])


def write(
    batches: Sequence[tuple[int, int, int, int]] = (),
    start_offset: int = -1,
    state_epoch: int = 1,
    leader_epoch: int = 0,
    partition: int = 0,
    delivery_complete_count: int = -1,
) -> WriteShareGroupStateRequest:
    data = write_share_group_state_request.PartitionData(
        partition=partition,
        state_epoch=state_epoch,
        leader_epoch=leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=delivery_complete_count,
        state_batches=[
            write_share_group_state_request.StateBatch(
                first_offset=first, last_offset=last, delivery_state=state, delivery_count=count
            )
            for first, last, state, count in batches
        ],
    )
    topic = write_share_group_state_request.WriteStateData(topic_id=TOPIC, partitions=[data])
    return WriteShareGroupStateRequest(group_id="g", topics=[topic])


def delete(partition: int = 0, topic_id: uuid.UUID = TOPIC) -> DeleteShareGroupStateRequest:
    data = delete_share_group_state_request.PartitionData(partition=partition)
    topic = delete_share_group_state_request.DeleteStateData(topic_id=topic_id, partitions=[data])
    return DeleteShareGroupStateRequest(group_id="g", topics=[topic])
