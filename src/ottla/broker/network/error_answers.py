"""The answer to a request that failed as a whole, in the fields that its response has for errors."""

from __future__ import annotations

from typing import Any, cast

from ottla.protocol.apis import ApiKey, response_class
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.schema import Message

#: The node id and the port of a coordinator that is not told.
_NOWHERE = -1


def error_answer(key: int, request: Message, error: KafkaError) -> Message | None:
    """The answer with `error` for the request or for each of its parts; None where there is no such field."""
    answer = response_class(key)()
    text = str(error) or None
    if key == ApiKey.PRODUCE:
        return _by_partition(request, error.code, text)
    if key == ApiKey.FIND_COORDINATOR:
        return _by_coordinator_key(request, error.code, text)
    if hasattr(answer, "error_code"):
        answer.error_code = ErrorCode(error.code)
        if hasattr(answer, "error_message"):
            answer.error_message = text
        if key == ApiKey.DESCRIBE_CLIENT_QUOTAS:
            cast(Any, answer).entries = None
        if key == ApiKey.ELECT_LEADERS:
            _elections(request, answer, error.code, text)
        if key == ApiKey.ALTER_PARTITION_REASSIGNMENTS:
            _reassignments(request, answer, error.code, text)
        return answer
    match key:
        case ApiKey.CREATE_TOPICS | ApiKey.CREATE_PARTITIONS:
            return _by_topic(key, request, error.code, text)
        case ApiKey.DELETE_TOPICS:
            return _deletions(request, error.code, text)
        case ApiKey.ALTER_CONFIGS | ApiKey.INCREMENTAL_ALTER_CONFIGS | ApiKey.DESCRIBE_CONFIGS:
            return _by_resource(key, request, error.code, text)
        case ApiKey.CREATE_ACLS:
            return _acl_creations(request, error.code, text)
        case ApiKey.DELETE_ACLS:
            return _acl_deletions(request, error.code, text)
        case ApiKey.WRITE_TXN_MARKERS:
            return _by_marker(request, error.code)
        case ApiKey.ALTER_USER_SCRAM_CREDENTIALS:
            return _by_user(request, error.code, text)
        case ApiKey.ALTER_CLIENT_QUOTAS:
            return _by_quota_entity(request, error.code, text)
        case _:
            return None


#: Requests of clients that the quorum's leader answers, not its controller; its error is another one.
_OF_THE_QUORUM = frozenset({ApiKey.DESCRIBE_QUORUM, ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER})


def says_not_controller(response: Message) -> bool:
    """Whether an answer says, anywhere that it can, that the node asked is not the active controller."""
    fields = cast(Any, response)
    if hasattr(fields, "error_code"):
        return fields.error_code == ErrorCode.NOT_CONTROLLER or (
            fields.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and response.API_KEY in _OF_THE_QUORUM
        )
    for name in ("topics", "results", "responses", "entries", "filter_results"):
        for item in getattr(fields, name, ()):
            if getattr(item, "error_code", 0) == ErrorCode.NOT_CONTROLLER:
                return True
    return False


def _by_topic(key: int, request: Message, code: ErrorCode, text: str | None) -> Message:
    from ottla.protocol.messages.create_partitions_response import (
        CreatePartitionsResponse,
        CreatePartitionsTopicResult,
    )
    from ottla.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse

    names = [topic.name for topic in cast(Any, request).topics]
    if key == ApiKey.CREATE_PARTITIONS:
        return CreatePartitionsResponse(
            results=[
                CreatePartitionsTopicResult(name=name, error_code=code, error_message=text) for name in names
            ]
        )
    return CreateTopicsResponse(
        topics=[CreatableTopicResult(name=name, error_code=code, error_message=text) for name in names]
    )


def _by_partition(request: Message, code: ErrorCode, text: str | None) -> Message:
    from ottla.protocol.messages.produce_request import ProduceRequest
    from ottla.protocol.messages.produce_response import (
        PartitionProduceResponse,
        ProduceResponse,
        TopicProduceResponse,
    )

    assert isinstance(request, ProduceRequest)
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(
                        index=data.index,
                        error_code=code,
                        base_offset=-1,
                        log_append_time_ms=-1,
                        log_start_offset=-1,
                        error_message=text,
                    )
                    for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def _deletions(request: Message, code: ErrorCode, text: str | None) -> Message:
    from ottla.protocol.messages.delete_topics_request import DeleteTopicsRequest
    from ottla.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse

    assert isinstance(request, DeleteTopicsRequest)
    by_state = [
        DeletableTopicResult(name=each.name, topic_id=each.topic_id, error_code=code, error_message=text)
        for each in request.topics
    ]
    by_name = [
        DeletableTopicResult(name=name, error_code=code, error_message=text) for name in request.topic_names
    ]
    return DeleteTopicsResponse(responses=by_state + by_name)


def _by_coordinator_key(request: Message, code: ErrorCode, text: str | None) -> Message:
    from ottla.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse

    keys = cast(Any, request).coordinator_keys
    if not keys:  # an older version's request has one key, whose answer is the response itself
        return FindCoordinatorResponse(error_code=code, error_message=text, node_id=_NOWHERE, port=_NOWHERE)
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(key=key, node_id=_NOWHERE, port=_NOWHERE, error_code=code, error_message=text)
            for key in keys
        ],
    )


def _elections(request: Message, answer: Message, code: ErrorCode, text: str | None) -> None:
    from ottla.protocol.messages.elect_leaders_response import PartitionResult, ReplicaElectionResult

    cast(Any, answer).replica_election_results = [
        ReplicaElectionResult(
            topic=topic.topic,
            partition_result=[
                PartitionResult(partition_id=index, error_code=code, error_message=text)
                for index in topic.partitions
            ],
        )
        for topic in cast(Any, request).topic_partitions or ()
    ]


def _reassignments(request: Message, answer: Message, code: ErrorCode, text: str | None) -> None:
    from ottla.protocol.messages.alter_partition_reassignments_response import (
        ReassignablePartitionResponse,
        ReassignableTopicResponse,
    )

    cast(Any, answer).responses = [
        ReassignableTopicResponse(
            name=topic.name,
            partitions=[
                ReassignablePartitionResponse(
                    partition_index=each.partition_index, error_code=code, error_message=text
                )
                for each in topic.partitions
            ],
        )
        for topic in cast(Any, request).topics
    ]


def _acl_creations(request: Message, code: ErrorCode, text: str | None) -> Message:
    from ottla.protocol.messages.create_acls_response import AclCreationResult, CreateAclsResponse

    count = len(cast(Any, request).creations)
    return CreateAclsResponse(
        results=[AclCreationResult(error_code=code, error_message=text) for _ in range(count)]
    )


def _acl_deletions(request: Message, code: ErrorCode, text: str | None) -> Message:
    from ottla.protocol.messages.delete_acls_response import DeleteAclsFilterResult, DeleteAclsResponse

    count = len(cast(Any, request).filters)
    return DeleteAclsResponse(
        filter_results=[DeleteAclsFilterResult(error_code=code, error_message=text) for _ in range(count)]
    )


def _by_marker(request: Message, code: ErrorCode) -> Message:
    from ottla.protocol.messages import write_txn_markers_response as written

    return written.WriteTxnMarkersResponse(
        markers=[
            written.WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    written.WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            written.WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in cast(Any, request).markers
        ]
    )


def _by_user(request: Message, code: ErrorCode, text: str | None) -> Message:
    from ottla.protocol.messages.alter_user_scram_credentials_response import (
        AlterUserScramCredentialsResponse,
        AlterUserScramCredentialsResult,
    )

    fields = cast(Any, request)
    users = dict.fromkeys(each.name for each in (*fields.deletions, *fields.upsertions))
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=user, error_code=code, error_message=text) for user in users
        ]
    )


def _by_quota_entity(request: Message, code: ErrorCode, text: str | None) -> Message:
    from ottla.protocol.messages import alter_client_quotas_response as altered

    return altered.AlterClientQuotasResponse(
        entries=[
            altered.EntryData(
                error_code=code,
                error_message=text,
                entity=[
                    altered.EntityData(entity_type=part.entity_type, entity_name=part.entity_name)
                    for part in entry.entity
                ],
            )
            for entry in cast(Any, request).entries
        ]
    )


def _by_resource(key: int, request: Message, code: ErrorCode, text: str | None) -> Message:
    from ottla.protocol.messages import (
        alter_configs_response,
        describe_configs_response,
        incremental_alter_configs_response,
    )

    resources = [(each.resource_type, each.resource_name) for each in cast(Any, request).resources]
    match key:
        case ApiKey.ALTER_CONFIGS:
            return alter_configs_response.AlterConfigsResponse(
                responses=[
                    alter_configs_response.AlterConfigsResourceResponse(
                        error_code=code, error_message=text, resource_type=kind, resource_name=name
                    )
                    for kind, name in resources
                ]
            )
        case ApiKey.INCREMENTAL_ALTER_CONFIGS:
            return incremental_alter_configs_response.IncrementalAlterConfigsResponse(
                responses=[
                    incremental_alter_configs_response.AlterConfigsResourceResponse(
                        error_code=code, error_message=text, resource_type=kind, resource_name=name
                    )
                    for kind, name in resources
                ]
            )
        case _:
            return describe_configs_response.DescribeConfigsResponse(
                results=[
                    describe_configs_response.DescribeConfigsResult(
                        error_code=code, error_message=text, resource_type=kind, resource_name=name
                    )
                    for kind, name in resources
                ]
            )
