"""Share groups of a shard under a test's control; the share coordinator answers when it is told to."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence

from ottla.core.groups.settings import GroupSettings
from ottla.core.groups.share.api import AskShareCoordinator, ShareCoordinatorAnswered, ShareStateResponse
from ottla.core.groups.share.group import ShareGroup
from ottla.core.groups.topics import TopicDescription
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.delete_share_group_state_response import (
    DeleteShareGroupStateResponse,
    DeleteStateResult,
)
from ottla.protocol.messages.delete_share_group_state_response import PartitionResult as Deleted
from ottla.protocol.messages.initialize_share_group_state_request import InitializeShareGroupStateRequest
from ottla.protocol.messages.initialize_share_group_state_response import (
    InitializeShareGroupStateResponse,
    InitializeStateResult,
)
from ottla.protocol.messages.initialize_share_group_state_response import PartitionResult as Initialized
from ottla.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from ottla.protocol.schema import Message
from support.core.group_shard import ShardDriver

Answers = Callable[[uuid.UUID, int], ErrorCode]
"""The share coordinator's error for a partition."""


class ShareDriver:
    """A shard and a share coordinator that keeps start offsets. It answers at once unless `hold_answers`."""

    def __init__(self, settings: GroupSettings | None = None) -> None:
        self.shard = ShardDriver(settings or GroupSettings(share_assignment_interval_ms=0))
        self.hold_answers = False
        self.states: dict[tuple[str, uuid.UUID, int], int] = {}
        """(group id, topic id, partition) -> start offset."""
        self._next_topic = 1

    def group(self, group_id: str = "g") -> ShareGroup:
        return self.shard.shard._context.share[group_id]

    def create_topic(self, name: str, partitions: int) -> uuid.UUID:
        topic_id = uuid.UUID(int=self._next_topic)
        self._next_topic += 1
        self.set_topic(name, topic_id, partitions)
        return topic_id

    def set_topic(self, name: str, topic_id: uuid.UUID, partitions: int) -> None:
        self.shard.change_topics({name: TopicDescription(topic_id, name, (frozenset(),) * partitions)})
        self.settle()

    def delete_topic(self, name: str) -> None:
        """The share coordinator hears of it, too."""
        topic = self.shard.topics.named(name)
        assert topic is not None
        self.states = {key: offset for key, offset in self.states.items() if key[1] != topic.topic_id}
        self.shard.topic_deleted(name)

    def send(self, request: Message, version: int = 0, client_id: str = "client") -> int:
        request_id = self.shard.send(request, version, client_id)
        self.settle()
        return request_id

    def ask(self, request: Message, version: int = 0, client_id: str = "client") -> Message:
        """Send a request that is answered now."""
        return self.shard.replies[self.send(request, version, client_id)]

    def heartbeat(
        self, member_id: str, epoch: int, topics: Sequence[str] | None = None, group_id: str = "g"
    ) -> Message:
        """A member's heartbeat, answered now."""
        request = ShareGroupHeartbeatRequest(
            group_id=group_id,
            member_id=member_id,
            member_epoch=epoch,
            subscribed_topic_names=None if topics is None else list(topics),
        )
        return self.ask(request, 1, client_id=member_id)

    def settle(self) -> None:
        while self.asks and not self.hold_answers:
            self.answer()

    @property
    def asks(self) -> list[AskShareCoordinator]:
        """The requests that the share coordinator has not answered."""
        return self.shard.other_effects  # type: ignore[return-value]

    def answer(self, errors: Answers = lambda topic_id, partition: ErrorCode.NONE, index: int = 0) -> None:
        """The share coordinator answers a request, and performs it where it gives no error."""
        asked = self.asks.pop(index)
        response = self._perform(asked, errors)
        self.shard.step(ShareCoordinatorAnswered(self.shard.now, asked.call_id, response))

    def lose_asks(self, performed: bool) -> None:
        """The answers are lost."""
        for asked in self.asks:
            if performed:
                self._perform(asked, lambda topic_id, partition: ErrorCode.NONE)
        self.asks.clear()

    def _perform(self, asked: AskShareCoordinator, errors: Answers) -> ShareStateResponse:
        request = asked.request
        if isinstance(request, InitializeShareGroupStateRequest):
            begun = InitializeShareGroupStateResponse()
            for topic in request.topics:
                results = []
                for each in topic.partitions:
                    error = errors(topic.topic_id, each.partition)
                    if self.shard.topics.with_id(topic.topic_id) is None:
                        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    results.append(Initialized(partition=each.partition, error_code=error))
                    if not error:
                        self.states[request.group_id, topic.topic_id, each.partition] = each.start_offset
                begun.results.append(InitializeStateResult(topic_id=topic.topic_id, partitions=results))
            return begun
        ended = DeleteShareGroupStateResponse()
        for gone in request.topics:
            deleted = []
            for data in gone.partitions:
                error = errors(gone.topic_id, data.partition)
                deleted.append(Deleted(partition=data.partition, error_code=error))
                if not error:
                    self.states.pop((request.group_id, gone.topic_id, data.partition), None)
            ended.results.append(DeleteStateResult(topic_id=gone.topic_id, partitions=deleted))
        return ended
