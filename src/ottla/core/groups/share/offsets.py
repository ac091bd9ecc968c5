"""Administrators' requests about share groups' offsets, and deletion of share groups (KIP-932).

    DescribeShareGroupOffsets 0-1   only the partitions with state; the shell adds the offsets
    AlterShareGroupOffsets 0        of empty groups; creates the group if there is none
    DeleteShareGroupOffsets 0       of empty groups, a topic at a time
    DeleteGroups                    of empty groups; their state goes first

Theory of operation. The offsets themselves are kept by the share coordinator. To alter them means to begin
the state of these partitions anew at the given offsets, in the steps of state_partitions.py: recorded as
initializing, requested, recorded as initialized, then answered. To delete them: recorded as deleting,
requested, removed, answered. After a kill in between the record remains, and the same request sent again
continues from there.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ottla.core.coordination.api import RequestReceived
from ottla.core.coordination.outbox import answer_for
from ottla.core.groups.context import GroupKind, ShardContext
from ottla.core.groups.share import records
from ottla.core.groups.share.api import ShareStateResponse
from ottla.core.groups.share.group import ShareGroup, StatePartitions, TopicState
from ottla.core.groups.share.state_partitions import (
    StatePartitionsOfGroups,
    initialize_request,
    with_initializing,
)
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
)
from ottla.protocol.messages.alter_share_group_offsets_response import (
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from ottla.protocol.messages.delete_share_group_offsets_request import DeleteShareGroupOffsetsRequest
from ottla.protocol.messages.delete_share_group_offsets_response import (
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from ottla.protocol.messages.delete_share_group_state_request import (
    DeleteShareGroupStateRequest,
    DeleteStateData,
    PartitionData,
)
from ottla.protocol.messages.describe_share_group_offsets_request import DescribeShareGroupOffsetsRequest
from ottla.protocol.messages.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)

NO_OFFSET = -1
NO_TOPICS_MESSAGE = "the share group has no state for this topic"

Prepared = Callable[[ErrorCode], None]


@dataclass(frozen=True, slots=True)
class Deletion:
    """The decision on a DeleteShareGroupOffsets: the states
    once it has begun, the request to send, and refusals.
    """

    states: StatePartitions
    partitions: Mapping[uuid.UUID, frozenset[int]]
    refused: list[DeleteShareGroupOffsetsResponseTopic]


class ShareOffsets:
    """Decides administrators' requests about the share groups of a shard."""

    def __init__(self, context: ShardContext, states: StatePartitionsOfGroups) -> None:
        self._context = context
        self._outbox = context.outbox
        self._groups = context.share
        self._states = states

    # DescribeShareGroupOffsets

    def describe(self, event: RequestReceived, request: DescribeShareGroupOffsetsRequest) -> None:
        """The partitions that each group has state for; the shell fills in their offsets."""
        groups = [
            DescribeShareGroupOffsetsResponseGroup(
                group_id=wanted.group_id, topics=self._topics_of(self._groups.get(wanted.group_id))
            )
            for wanted in request.groups
        ]
        self._outbox.reply(event.request_id, DescribeShareGroupOffsetsResponse(groups=groups))

    def _topics_of(self, group: ShareGroup | None) -> list[DescribeShareGroupOffsetsResponseTopic]:
        topics = []
        for topic_id, partitions in (group.initialized if group is not None else {}).items():
            topic = self._context.topics.with_id(topic_id)
            if topic is not None:
                described = [
                    DescribeShareGroupOffsetsResponsePartition(partition_index=index, start_offset=NO_OFFSET)
                    for index in sorted(partitions)
                ]
                topics.append(
                    DescribeShareGroupOffsetsResponseTopic(
                        topic_name=topic.name, topic_id=topic_id, partitions=described
                    )
                )
        return topics

    # AlterShareGroupOffsets

    def alter(self, event: RequestReceived, request: AlterShareGroupOffsetsRequest) -> None:
        if not request.group_id:
            self._refuse_alter(event.request_id, ErrorCode.INVALID_GROUP_ID)
        else:
            self._context.turns.run(request.group_id, lambda: self._alter(event, request))

    def _alter(self, event: RequestReceived, request: AlterShareGroupOffsetsRequest) -> None:
        group_id = request.group_id
        kind = self._context.kind_of(group_id)
        if kind not in (None, GroupKind.SHARE):
            self._refuse_alter(event.request_id, ErrorCode.GROUP_ID_NOT_FOUND)
            return
        group = self._groups.get(group_id) or ShareGroup(group_id)
        if group.members:
            self._refuse_alter(event.request_id, ErrorCode.NON_EMPTY_GROUP)
            return
        offsets: dict[uuid.UUID, dict[int, int]] = {}
        topics = [self._check_altered(topic, offsets) for topic in request.topics]
        # Topics that do not exist come first, as in Kafka.
        answer = AlterShareGroupOffsetsResponse(
            responses=sorted(topics, key=lambda topic: topic.topic_id.int > 0)
        )
        if not offsets:
            self._outbox.reply(event.request_id, answer)
            return
        begun = {
            topic_id: TopicState(self._name_of(topic_id), frozenset(partitions))
            for topic_id, partitions in offsets.items()
        }
        states = with_initializing(group.states or StatePartitions(), begun)
        ask = initialize_request(group_id, group.epoch, offsets)

        def answered(response: ShareStateResponse) -> None:
            _add_errors(answer, response)
            self._states.begun(group_id, response, finish)

        def finish(error: ErrorCode) -> None:
            if error:
                self._refuse_alter(event.request_id, answer_for(error))
            else:
                self._outbox.reply(event.request_id, answer)

        self._context.turns.append(
            group_id,
            [records.state_partitions(group_id, states)],
            lambda: self._states.ask(ask, answered),
            lambda error: self._refuse_alter(event.request_id, answer_for(error)),
        )

    def _check_altered(
        self, topic: AlterShareGroupOffsetsRequestTopic, offsets: dict[uuid.UUID, dict[int, int]]
    ) -> AlterShareGroupOffsetsResponseTopic:
        """The answer about a topic as far as it is known now; adds alterable partitions to `offsets`."""
        found = self._context.topics.named(topic.topic_name)
        answer = AlterShareGroupOffsetsResponseTopic(topic_name=topic.topic_name)
        if found is not None:
            answer.topic_id = found.topic_id
        for partition in topic.partitions:
            index = partition.partition_index
            result = AlterShareGroupOffsetsResponsePartition(partition_index=index)
            if found is not None and 0 <= index < found.partition_count:
                offsets.setdefault(found.topic_id, {})[index] = partition.start_offset
            else:
                result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                result.error_message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.message
            answer.partitions.append(result)
        return answer

    def _refuse_alter(self, request_id: int, error: ErrorCode) -> None:
        self._outbox.reply(
            request_id, AlterShareGroupOffsetsResponse(error_code=error, error_message=error.message)
        )

    # DeleteShareGroupOffsets

    def delete(self, event: RequestReceived, request: DeleteShareGroupOffsetsRequest) -> None:
        if not request.group_id:
            self._refuse_delete(event.request_id, ErrorCode.INVALID_GROUP_ID)
        else:
            self._context.turns.run(request.group_id, lambda: self._delete(event, request))

    def _delete(self, event: RequestReceived, request: DeleteShareGroupOffsetsRequest) -> None:
        group = self._groups.get(request.group_id)
        if group is None:
            self._refuse_delete(event.request_id, ErrorCode.GROUP_ID_NOT_FOUND)
            return
        if group.members:
            self._refuse_delete(event.request_id, ErrorCode.NON_EMPTY_GROUP)
            return
        if group.states is None:
            self._outbox.reply(event.request_id, DeleteShareGroupOffsetsResponse())
            return
        deletion = self._deletion(group.states, [topic.topic_name for topic in request.topics])
        responses = deletion.refused

        def begun(error: ErrorCode) -> None:
            if error:
                self._refuse_delete(event.request_id, answer_for(error))
            elif not deletion.partitions:
                self._outbox.reply(event.request_id, DeleteShareGroupOffsetsResponse(responses=responses))
            else:
                self._states.ask(_delete_request(request.group_id, deletion.partitions), answered)

        def answered(response: ShareStateResponse) -> None:
            deleted = []
            for topic in response.results:
                error = next((each.error_code for each in topic.partitions if each.error_code), 0)
                responses.append(self._deleted_topic(topic.topic_id, ErrorCode(error)))
                if not error:
                    deleted.append(topic.topic_id)
            self._end_deleting(request.group_id, deleted, finish)

        def finish(error: ErrorCode) -> None:
            if error:
                self._refuse_delete(event.request_id, answer_for(error))
            else:
                self._outbox.reply(event.request_id, DeleteShareGroupOffsetsResponse(responses=responses))

        self._states.write(group, deletion.states, begun)

    def _deletion(self, states: StatePartitions, names: Iterable[str]) -> Deletion:
        initialized, deleting = dict(states.initialized), dict(states.deleting)
        partitions: dict[uuid.UUID, frozenset[int]] = {}
        refused = []
        for name in names:
            topic = self._context.topics.named(name)
            error = DeleteShareGroupOffsetsResponseTopic(
                topic_name=name,
                error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                error_message=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.message,
            )
            if topic is None:
                refused.append(error)
            elif topic.topic_id in initialized:
                partitions[topic.topic_id] = initialized.pop(topic.topic_id).partitions
                deleting[topic.topic_id] = name
            elif topic.topic_id in deleting:
                # An earlier deletion is not complete.
                partitions[topic.topic_id] = frozenset(range(topic.partition_count))
            else:
                error.error_message = NO_TOPICS_MESSAGE
                refused.append(error)
        return Deletion(StatePartitions(states.initializing, initialized, deleting), partitions, refused)

    def _deleted_topic(self, topic_id: uuid.UUID, error: ErrorCode) -> DeleteShareGroupOffsetsResponseTopic:
        return DeleteShareGroupOffsetsResponseTopic(
            topic_id=topic_id,
            topic_name=self._name_of(topic_id),
            error_code=error,
            error_message=error.message if error else None,
        )

    def _end_deleting(self, group_id: str, topic_ids: Iterable[uuid.UUID], then: Prepared) -> None:
        """Remove the topics whose state is deleted."""

        def decide() -> None:
            group = self._groups.get(group_id)
            if group is None or group.states is None:
                then(ErrorCode.NONE)
                return
            gone = set(topic_ids)
            deleting = {id_: name for id_, name in group.states.deleting.items() if id_ not in gone}
            states = StatePartitions(group.states.initializing, group.states.initialized, deleting)
            self._states.write(group, states, then)

        self._context.turns.run(group_id, decide)

    def _refuse_delete(self, request_id: int, error: ErrorCode) -> None:
        self._outbox.reply(
            request_id, DeleteShareGroupOffsetsResponse(error_code=error, error_message=error.message)
        )

    def _name_of(self, topic_id: uuid.UUID) -> str:
        topic = self._context.topics.with_id(topic_id)
        return "" if topic is None else topic.name

    # DeleteGroups

    def delete_group(self, group_id: str, then: Prepared) -> None:
        """Delete a share group: its state with the share coordinator, then the group.

        `then` is called with NONE, NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND, or the error of the failed step.
        """
        self._context.turns.run(group_id, lambda: self._begin_deletion(group_id, then))

    def _begin_deletion(self, group_id: str, then: Prepared) -> None:
        group = self._groups.get(group_id)
        if group is None:
            then(ErrorCode.GROUP_ID_NOT_FOUND)
            return
        if group.members:
            then(ErrorCode.NON_EMPTY_GROUP)
            return
        partitions = self._all_partitions(group.states or StatePartitions())
        if group.states is None or not partitions:
            self._end_group(group_id, then)
            return
        names = {topic_id: self._name_of(topic_id) for topic_id in partitions}
        for topics in (group.states.initializing, group.states.initialized):
            names.update((topic_id, topic.name) for topic_id, topic in topics.items())

        def begun(error: ErrorCode) -> None:
            if error:
                then(answer_for(error))
            else:
                self._states.ask(_delete_request(group_id, partitions), answered)

        def answered(response: ShareStateResponse) -> None:
            codes = (each.error_code for topic in response.results for each in topic.partitions)
            error = next((ErrorCode(code) for code in codes if code), ErrorCode.NONE)
            if error:
                then(error)
            else:
                self._context.turns.run(group_id, lambda: self._end_group(group_id, then))

        self._states.write(group, StatePartitions(deleting=names), begun)

    def _all_partitions(self, states: StatePartitions) -> dict[uuid.UUID, frozenset[int]]:
        """Every partition that may have state; for an unfinished deletion all partitions of the topic."""
        found: dict[uuid.UUID, frozenset[int]] = {}
        for topics in (states.initializing, states.initialized):
            for topic_id, topic in topics.items():
                found[topic_id] = topic.partitions | found.get(topic_id, frozenset())
        for topic_id in states.deleting:
            described = self._context.topics.with_id(topic_id)
            if described is not None:
                found[topic_id] = frozenset(range(described.partition_count)) | found.get(
                    topic_id, frozenset()
                )
        return found

    def _end_group(self, group_id: str, then: Prepared) -> None:
        group = self._groups.get(group_id)
        if group is None:
            then(ErrorCode.GROUP_ID_NOT_FOUND)
        elif group.members:
            then(ErrorCode.NON_EMPTY_GROUP)  # A member has joined meanwhile; the group begins its state anew.
        elif group.states is not None and (group.states.initializing or group.states.initialized):
            self._begin_deletion(group_id, then)  # Offsets were altered meanwhile.
        else:
            self._context.turns.append(
                group_id,
                records.group_tombstones(group_id),
                lambda: then(ErrorCode.NONE),
                lambda error: then(answer_for(error)),
            )


def _delete_request(
    group_id: str, partitions: Mapping[uuid.UUID, frozenset[int]]
) -> DeleteShareGroupStateRequest:
    return DeleteShareGroupStateRequest(
        group_id=group_id,
        topics=[
            DeleteStateData(
                topic_id=topic_id, partitions=[PartitionData(partition=index) for index in sorted(indexes)]
            )
            for topic_id, indexes in partitions.items()
        ],
    )


def _add_errors(answer: AlterShareGroupOffsetsResponse, response: ShareStateResponse) -> None:
    """Copy the share coordinator's errors to the same partitions in the answer."""
    errors = {
        (topic.topic_id, each.partition): each
        for topic in response.results
        for each in topic.partitions
        if each.error_code
    }
    for topic in answer.responses:
        for partition in topic.partitions:
            error = errors.get((topic.topic_id, partition.partition_index))
            if error is not None and not partition.error_code:
                partition.error_code, partition.error_message = error.error_code, error.error_message
