"""Requests to the share coordinator with one partition each, and their answers.

A shard takes requests that name exactly one share partition (`split` makes them), so its answers name one
too, and `merge` combines those of a whole request.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from ottla.core.share.keys import SharePartitionKey
from ottla.core.share.state_records import ShareState
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import (
    delete_share_group_state_request,
    delete_share_group_state_response,
    initialize_share_group_state_request,
    initialize_share_group_state_response,
    read_share_group_state_request,
    read_share_group_state_response,
    read_share_group_state_summary_request,
    read_share_group_state_summary_response,
    write_share_group_state_request,
    write_share_group_state_response,
)
from ottla.protocol.messages.delete_share_group_state_request import DeleteShareGroupStateRequest
from ottla.protocol.messages.delete_share_group_state_response import DeleteShareGroupStateResponse
from ottla.protocol.messages.initialize_share_group_state_request import InitializeShareGroupStateRequest
from ottla.protocol.messages.initialize_share_group_state_response import InitializeShareGroupStateResponse
from ottla.protocol.messages.read_share_group_state_request import ReadShareGroupStateRequest
from ottla.protocol.messages.read_share_group_state_response import ReadShareGroupStateResponse
from ottla.protocol.messages.read_share_group_state_summary_request import (
    ReadShareGroupStateSummaryRequest,
)
from ottla.protocol.messages.read_share_group_state_summary_response import (
    ReadShareGroupStateSummaryResponse,
)
from ottla.protocol.messages.write_share_group_state_request import WriteShareGroupStateRequest
from ottla.protocol.messages.write_share_group_state_response import WriteShareGroupStateResponse
from ottla.protocol.schema import Message

StateRequest: TypeAlias = (
    InitializeShareGroupStateRequest
    | ReadShareGroupStateRequest
    | WriteShareGroupStateRequest
    | DeleteShareGroupStateRequest
    | ReadShareGroupStateSummaryRequest
)

#: request -> the classes of its topics, and of its answer (message, topic, partition)
_SHAPES: dict[type[Message], tuple[Any, Any, Any, Any]] = {
    InitializeShareGroupStateRequest: (
        initialize_share_group_state_request.InitializeStateData,
        InitializeShareGroupStateResponse,
        initialize_share_group_state_response.InitializeStateResult,
        initialize_share_group_state_response.PartitionResult,
    ),
    ReadShareGroupStateRequest: (
        read_share_group_state_request.ReadStateData,
        ReadShareGroupStateResponse,
        read_share_group_state_response.ReadStateResult,
        read_share_group_state_response.PartitionResult,
    ),
    WriteShareGroupStateRequest: (
        write_share_group_state_request.WriteStateData,
        WriteShareGroupStateResponse,
        write_share_group_state_response.WriteStateResult,
        write_share_group_state_response.PartitionResult,
    ),
    DeleteShareGroupStateRequest: (
        delete_share_group_state_request.DeleteStateData,
        DeleteShareGroupStateResponse,
        delete_share_group_state_response.DeleteStateResult,
        delete_share_group_state_response.PartitionResult,
    ),
    ReadShareGroupStateSummaryRequest: (
        read_share_group_state_summary_request.ReadStateSummaryData,
        ReadShareGroupStateSummaryResponse,
        read_share_group_state_summary_response.ReadStateSummaryResult,
        read_share_group_state_summary_response.PartitionResult,
    ),
}


def key_of(request: StateRequest) -> SharePartitionKey:
    """The share partition that a request names."""
    topic = request.topics[0]
    return SharePartitionKey(request.group_id, topic.topic_id, topic.partitions[0].partition)


def split(request: StateRequest) -> Iterator[tuple[SharePartitionKey, StateRequest]]:
    """A request for each partition that `request` names; of
    a partition that is named twice only the last counts.
    """
    topic_class = _SHAPES[type(request)][0]
    found: dict[SharePartitionKey, StateRequest] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            key = SharePartitionKey(request.group_id, topic.topic_id, partition.partition)
            found[key] = type(request)(
                group_id=request.group_id,
                topics=[topic_class(topic_id=topic.topic_id, partitions=[partition])],
            )
    yield from found.items()


def join(parts: Sequence[StateRequest]) -> StateRequest:
    """Combine requests of one API and group into one request, the inverse of `split`."""
    topic_class = _SHAPES[type(parts[0])][0]
    topics: dict[uuid.UUID, Any] = {}
    for part in parts:
        for topic in part.topics:
            joined = topics.setdefault(topic.topic_id, topic_class(topic_id=topic.topic_id, partitions=[]))
            joined.partitions += topic.partitions
    return type(parts[0])(group_id=parts[0].group_id, topics=list(topics.values()))


def split_answer(request: StateRequest, answer: Message) -> dict[SharePartitionKey, Message]:
    """The answer to `request`, split into an answer for each partition that it names."""
    _, response_class, topic_class, _ = _SHAPES[type(request)]
    return {
        SharePartitionKey(request.group_id, topic.topic_id, each.partition): response_class(
            results=[topic_class(topic_id=topic.topic_id, partitions=[each])]
        )
        for topic in answer.results  # type: ignore[attr-defined]
        for each in topic.partitions
    }


def merge(request: StateRequest, answers: Iterable[Message]) -> Message:
    """The answer to `request`, combined from the answers to its parts, topic by topic."""
    _, response_class, topic_class, _ = _SHAPES[type(request)]
    topics: dict[uuid.UUID, Any] = {}
    for answer in answers:
        for result in answer.results:  # type: ignore[attr-defined]
            topic = topics.get(result.topic_id)
            if topic is None:
                topic = topics[result.topic_id] = topic_class(topic_id=result.topic_id, partitions=[])
            topic.partitions += result.partitions
    merged: Message = response_class(results=list(topics.values()))
    return merged


def error_of(answer: Message) -> ErrorCode:
    """The error in the answer to a request for one partition."""
    return ErrorCode(answer.results[0].partitions[0].error_code)  # type: ignore[attr-defined]


def result(request: StateRequest, **fields: Any) -> Message:
    """The answer to a request for one partition, with `fields` as its other fields."""
    _, response_class, topic_class, partition_class = _SHAPES[type(request)]
    key = key_of(request)
    answer = partition_class(partition=key.partition, **fields)
    response: Message = response_class(results=[topic_class(topic_id=key.topic_id, partitions=[answer])])
    return response


def refusal(request: Message, error: ErrorCode, message: str | None = None) -> Message:
    """An answer that refuses every partition of a request with `error`."""
    _, response_class, topic_class, partition_class = _SHAPES[type(request)]
    text = error.message if message is None else message
    response: Message = response_class(
        results=[
            topic_class(
                topic_id=topic.topic_id,
                partitions=[
                    partition_class(partition=each.partition, error_code=error, error_message=text)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics  # type: ignore[attr-defined]
        ]
    )
    return response


def state_result(request: ReadShareGroupStateRequest, state: ShareState) -> Message:
    """The answer to a share partition's leader that reads its state."""
    return result(
        request,
        state_epoch=state.state_epoch,
        start_offset=state.start_offset,
        state_batches=[
            read_share_group_state_response.StateBatch(
                first_offset=first, last_offset=last, delivery_state=delivery_state, delivery_count=count
            )
            for first, last, delivery_state, count in state.batches
        ],
    )


def summary_result(request: ReadShareGroupStateSummaryRequest, state: ShareState | None) -> Message:
    """The answer with a share partition's epochs, start offset and count; start offset -1 without state."""
    if state is None:
        return result(request, start_offset=-1, delivery_complete_count=-1)
    return result(
        request,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
    )
