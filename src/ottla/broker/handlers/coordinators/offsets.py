"""The offset APIs: OffsetCommit, TxnOffsetCommit, OffsetFetch, OffsetDelete.

    OffsetCommit 2-10   topics that do not exist are answered here: UNKNOWN_TOPIC_OR_PARTITION, or
                        UNKNOWN_TOPIC_ID when the request names topics by id (10)
    TxnOffsetCommit 0-6 a part of the producer's transaction; before 5 AddOffsetsToTxn has added the group's
                        partition to it, from 5 on that is done here (KIP-890, offset_verification.py);
                        6 names topics by id (KIP-1319)
    OffsetFetch 1-10    1-7: one group; the error of the group is the answer's, in version 1 every
                        partition's; 8: several groups, each with its own error
    OffsetDelete 0

The shards know topics by name, and keep the id with the offset: the offset of a topic that was deleted and
made again is then not taken for the new topic's.
"""

from __future__ import annotations

from collections.abc import Collection, Container
from typing import TYPE_CHECKING
from uuid import UUID

from ottla.broker.coordinators.coordinator_routing import answer_of
from ottla.broker.handlers.coordinators.groups import may_read_group
from ottla.broker.network.context import RequestContext
from ottla.broker.network.turns import in_turns
from ottla.core.security.acls import AclOperation, ResourceType
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.offset_commit_request import OffsetCommitRequest, OffsetCommitRequestTopic
from ottla.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.protocol.messages.offset_delete_request import OffsetDeleteRequest
from ottla.protocol.messages.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
)
from ottla.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from ottla.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
)
from ottla.protocol.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from ottla.broker.handlers.node import Node

FIRST_VERSION_WITH_TOPIC_IDS = 10
FIRST_TXN_COMMIT_VERSION_THAT_KNOWS_LOADING = 2
FIRST_TXN_COMMIT_VERSION_WITH_TOPIC_IDS = 6
FIRST_FETCH_VERSION_WITH_GROUPS = 8
FIRST_FETCH_VERSION_WITH_AN_ERROR = 2
NO_OFFSET = -1


# -- OffsetCommit -----------------------------------------------------------------------------------


async def offset_commit(
    node: Node, context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse:
    if not may_read_group(node, context, request.group_id):
        from ottla.core.groups.responses import offset_commit_error

        return offset_commit_error(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    refused: list[OffsetCommitResponseTopic] = []
    accepted: list[OffsetCommitRequestTopic] = []
    by_id = context.api_version >= FIRST_VERSION_WITH_TOPIC_IDS
    unreadable = _unreadable(node, context, request, by_id)
    for topic in request.topics:
        known, error = _resolve(node, topic, by_id, unreadable)
        unknown = [
            OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=error)
            for each in topic.partitions
            if each.partition_index not in known
        ]
        topic.partitions = [each for each in topic.partitions if each.partition_index in known]
        if unknown:
            refused.append(
                OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=unknown)
            )
        if topic.partitions:
            accepted.append(topic)
    if not accepted:
        return OffsetCommitResponse(topics=refused)
    request.topics = accepted
    answer = await answer_of(node.groups.request(request.group_id, request, context))
    assert isinstance(answer, OffsetCommitResponse)
    answered = {topic.name: topic for topic in answer.topics}
    for topic_refused in refused:
        if topic_refused.name in answered:
            answered[topic_refused.name].partitions += topic_refused.partitions
        else:
            answer.topics.append(topic_refused)
    return answer


def _unreadable(
    node: Node, context: RequestContext, request: OffsetCommitRequest | TxnOffsetCommitRequest, by_id: bool
) -> Collection[str]:
    """The topics of the request for which the client may not commit offsets."""
    if not node.authorization.enforced:
        return ()
    known = node.image.topics_by_id
    names = (
        [known[topic.topic_id].name for topic in request.topics if topic.topic_id in known]
        if by_id
        else [topic.name for topic in request.topics]
    )
    return node.authorization.refused(context, AclOperation.READ, ResourceType.TOPIC, names)


def _resolve(
    node: Node,
    topic: OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic,
    by_id: bool,
    unreadable: Collection[str],
) -> tuple[Container[int], ErrorCode]:
    """Fill in the topic's name and id. Returns its partitions, and the error for any other partition."""
    if by_id:
        image = node.image.topics_by_id.get(topic.topic_id)
        if image is None:
            return (), ErrorCode.UNKNOWN_TOPIC_ID
        if image.name in unreadable:
            return (), ErrorCode.TOPIC_AUTHORIZATION_FAILED
    elif topic.name in unreadable:
        return (), ErrorCode.TOPIC_AUTHORIZATION_FAILED
    else:
        image = node.image.topics.get(topic.name)
        if image is None:
            return (), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topic.name, topic.topic_id = image.name, image.topic_id
    return image.partitions, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# -- TxnOffsetCommit --------------------------------------------------------------------------------


async def txn_offset_commit(
    node: Node, context: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse:
    error = _txn_commit_refusal(node, context, request)
    if error is not None:
        from ottla.core.groups.responses import txn_offset_commit_error

        return txn_offset_commit_error(request, error)
    by_id = context.api_version >= FIRST_TXN_COMMIT_VERSION_WITH_TOPIC_IDS
    unreadable = _unreadable(node, context, request, by_id)
    answered: dict[UUID | str, TxnOffsetCommitResponseTopic] = {}
    accepted: list[TxnOffsetCommitRequestTopic] = []
    for topic in request.topics:
        known, error = _resolve(node, topic, by_id, unreadable)
        unknown = [
            TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=error)
            for each in topic.partitions
            if each.partition_index not in known
        ]
        topic.partitions = [each for each in topic.partitions if each.partition_index in known]
        if unknown:
            refused = TxnOffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
            answered.setdefault(topic.topic_id if by_id else topic.name, refused).partitions += unknown
        if topic.partitions:
            accepted.append(topic)
    if accepted:
        request.topics = accepted
        for result in (await _commit_in_transaction(node, context, request)).topics:
            merged = answered.setdefault(result.topic_id if by_id else result.name, result)
            if merged is not result:
                merged.partitions += result.partitions
    if context.api_version < FIRST_TXN_COMMIT_VERSION_THAT_KNOWS_LOADING:
        for result in answered.values():
            for partition in result.partitions:
                if partition.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                    partition.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return TxnOffsetCommitResponse(topics=list(answered.values()))


def _txn_commit_refusal(
    node: Node, context: RequestContext, request: TxnOffsetCommitRequest
) -> ErrorCode | None:
    transactional_id = request.transactional_id
    if not node.authorization.allows(
        context, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
    ):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return None if may_read_group(node, context, request.group_id) else ErrorCode.GROUP_AUTHORIZATION_FAILED


async def _commit_in_transaction(
    node: Node, context: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse:
    from ottla.broker.coordinators.offset_verification import verify_offsets
    from ottla.core.coordination.outbox import answer_for
    from ottla.core.groups.responses import txn_offset_commit_error

    if not request.group_id:
        return txn_offset_commit_error(request, ErrorCode.INVALID_GROUP_ID)
    partition = node.groups.partition_for(request.group_id)
    error = await verify_offsets(node, request, context.api_version, partition)
    if error:
        return txn_offset_commit_error(request, answer_for(error))
    answer = await answer_of(node.groups.request_of_partition(partition, request, context))
    assert isinstance(answer, TxnOffsetCommitResponse)
    return answer


# -- OffsetFetch ------------------------------------------------------------------------------------


async def offset_fetch(
    node: Node, context: RequestContext, request: OffsetFetchRequest
) -> OffsetFetchResponse:
    version = context.api_version
    if version >= FIRST_FETCH_VERSION_WITH_GROUPS:
        answers = [
            await _fetch_group(node, context, group, request.require_stable)
            async for group in in_turns(request.groups)
        ]
        return OffsetFetchResponse(groups=answers)
    wanted = OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if request.topics is None
        else [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ],
    )
    answer = await _fetch_group(node, context, wanted, request.require_stable)
    if answer.error_code and version < FIRST_FETCH_VERSION_WITH_AN_ERROR:
        answer.topics = _all_with_error(wanted, answer.error_code)
    return OffsetFetchResponse(
        error_code=answer.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=each.partition_index,
                        committed_offset=each.committed_offset,
                        committed_leader_epoch=each.committed_leader_epoch,
                        metadata=each.metadata,
                        error_code=each.error_code,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in answer.topics
        ],
    )


async def _fetch_group(
    node: Node, context: RequestContext, wanted: OffsetFetchRequestGroup, require_stable: bool
) -> OffsetFetchResponseGroup:
    by_id = context.api_version >= FIRST_VERSION_WITH_TOPIC_IDS
    authorization = node.authorization
    if not authorization.allows(context, AclOperation.DESCRIBE, ResourceType.GROUP, wanted.group_id):
        return OffsetFetchResponseGroup(
            group_id=wanted.group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED
        )
    unknown: list[OffsetFetchResponseTopics] = []
    if wanted.topics is not None:
        if by_id:
            unknown = [
                _topic_with_error(topic, ErrorCode.UNKNOWN_TOPIC_ID)
                for topic in wanted.topics
                if topic.topic_id not in node.image.topics_by_id
            ]
            known = node.image.topics_by_id
            wanted.topics = [topic for topic in wanted.topics if topic.topic_id in known]
        for topic in wanted.topics:
            _fill_in(node, topic, by_id)
        names = (topic.name for topic in wanted.topics)
        hidden = authorization.refused(context, AclOperation.DESCRIBE, ResourceType.TOPIC, names)
        if hidden:
            unknown += [
                _topic_with_error(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                for topic in wanted.topics
                if topic.name in hidden
            ]
            wanted.topics = [topic for topic in wanted.topics if topic.name not in hidden]
    request = OffsetFetchRequest(groups=[wanted], require_stable=require_stable)
    answer = await answer_of(node.groups.request(wanted.group_id, request, context))
    assert isinstance(answer, OffsetFetchResponse)
    group = answer.groups[0]
    if group.error_code:
        return group
    if wanted.topics is None and authorization.enforced:
        group.topics = [
            topic
            for topic in group.topics
            if authorization.allows_unnamed(context, AclOperation.DESCRIBE, ResourceType.TOPIC, topic.name)
        ]
    if by_id and wanted.topics is None:
        # Offsets of topics that are just being deleted have no id to be named by any more.
        topics = node.image.topics
        group.topics = [topic for topic in group.topics if topic.name in topics]
        for answered in group.topics:
            answered.topic_id = topics[answered.name].topic_id
    group.topics += unknown
    return group


def _fill_in(node: Node, topic: OffsetFetchRequestTopics, by_id: bool) -> None:
    """Fill in the topic's name or, when it exists, its id; the other one is given."""
    if by_id:
        topic.name = node.image.topics_by_id[topic.topic_id].name
    elif topic.name in node.image.topics:
        topic.topic_id = node.image.topics[topic.name].topic_id


def _all_with_error(wanted: OffsetFetchRequestGroup, error: int) -> list[OffsetFetchResponseTopics]:
    return [_topic_with_error(topic, error) for topic in wanted.topics or ()]


def _topic_with_error(topic: OffsetFetchRequestTopics, error: int) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=error
            )
            for index in topic.partition_indexes
        ],
    )


# -- OffsetDelete -----------------------------------------------------------------------------------


async def offset_delete(
    node: Node, context: RequestContext, request: OffsetDeleteRequest
) -> OffsetDeleteResponse:
    authorization = node.authorization
    if not authorization.allows(context, AclOperation.DELETE, ResourceType.GROUP, request.group_id):
        return OffsetDeleteResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    names = (topic.name for topic in request.topics)
    unreadable = authorization.refused(context, AclOperation.READ, ResourceType.TOPIC, names)
    refused: dict[str, list[OffsetDeleteResponsePartition]] = {}
    for topic in request.topics:
        image = None if topic.name in unreadable else node.image.topics.get(topic.name)
        known = {} if image is None else image.partitions
        error = (
            ErrorCode.TOPIC_AUTHORIZATION_FAILED
            if topic.name in unreadable
            else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        refused[topic.name] = [
            OffsetDeleteResponsePartition(partition_index=each.partition_index, error_code=error)
            for each in topic.partitions
            if each.partition_index not in known
        ]
        topic.partitions = [each for each in topic.partitions if each.partition_index in known]
    answer = await answer_of(node.groups.request(request.group_id, request, context))
    assert isinstance(answer, OffsetDeleteResponse)
    for answered in answer.topics:
        answered.partitions += refused[answered.name]
    return answer


HANDLERS = {
    ApiKey.OFFSET_COMMIT: offset_commit,
    ApiKey.TXN_OFFSET_COMMIT: txn_offset_commit,
    ApiKey.OFFSET_FETCH: offset_fetch,
    ApiKey.OFFSET_DELETE: offset_delete,
}
