"""The directories of logs.

DescribeLogDirs (API key 35): versions 1 to 5, the replicas in each directory, and the room left (KIP-827).
AlterReplicaLogDirs (34): versions 1 and 2 (KIP-113). A broker has one directory, so a replica can only be
told to stay where it is; any other path is not one of its directories.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from ottla.broker.network.context import RequestContext
from ottla.core.security.acls import CLUSTER_NAME, AclOperation, ResourceType
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, KafkaError, NotLeaderOrFollower
from ottla.protocol.messages.alter_replica_log_dirs_request import AlterReplicaLogDirsRequest
from ottla.protocol.messages.alter_replica_log_dirs_response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from ottla.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from ottla.protocol.messages.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from ottla.broker.handlers.node import Node

#: A replica under way to a directory is `<topic>-<partition>.<32 hex digits>-future` there (KAFKA-4893).
FUTURE_SUFFIX_CHARACTERS = len(".") + 32 + len("-future")
LONGEST_DIRECTORY_NAME = 255


def describe_log_dirs(
    node: Node, context: RequestContext, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    """Every partition of the request (null: all) with its size in bytes.

    offset_lag is how far the log's end is below the high watermark, so 0 but for moves between directories,
    which there are none of.
    """
    if not node.authorization.allows(context, AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    wanted: dict[str, set[int]] | None = None
    if request.topics is not None:
        wanted = {topic.topic: set(topic.partitions) for topic in request.topics}
    by_topic: dict[str, list[DescribeLogDirsPartition]] = {}
    for partition in node.partitions:
        if wanted is not None and partition.index not in wanted.get(partition.topic, ()):
            continue
        by_topic.setdefault(partition.topic, []).append(
            DescribeLogDirsPartition(
                partition_index=partition.index,
                partition_size=partition.log.size_bytes,
                offset_lag=0,
                is_future_key=False,
            )
        )
    usage = shutil.disk_usage(node.log_directory.path)
    return DescribeLogDirsResponse(
        error_code=0,
        results=[
            DescribeLogDirsResult(
                error_code=0,
                log_dir=str(node.log_directory.path),
                topics=[
                    DescribeLogDirsTopic(name=name, partitions=partitions)
                    for name, partitions in by_topic.items()
                ],
                total_bytes=usage.total,
                usable_bytes=usage.free,
            )
        ],
    )


def alter_replica_log_dirs(
    node: Node, context: RequestContext, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    """Of a replica that is named under several directories, the last one counts."""
    may = node.authorization
    is_refused = not may.allows(context, AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)
    here = str(node.log_directory.path)
    by_topic: dict[str, dict[int, ErrorCode]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            answers = by_topic.setdefault(topic.name, {})
            for index in topic.partitions:
                answers[index] = (
                    ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                    if is_refused
                    else _move(node, topic.name, index, is_here=directory.path == here)
                )
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                topic_name=name,
                partitions=[
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
                    for index, code in answers.items()
                ],
            )
            for name, answers in by_topic.items()
        ]
    )


def _move(node: Node, topic: str, index: int, *, is_here: bool) -> ErrorCode:
    if len(f"{topic}-{index}") + FUTURE_SUFFIX_CHARACTERS > LONGEST_DIRECTORY_NAME:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if not is_here:
        return ErrorCode.LOG_DIR_NOT_FOUND
    try:
        node.partitions.replica(topic, index)
    except NotLeaderOrFollower:
        # Kafka's error for a replica that another broker has
        return ErrorCode.REPLICA_NOT_AVAILABLE
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


HANDLERS = {
    ApiKey.DESCRIBE_LOG_DIRS: describe_log_dirs,
    ApiKey.ALTER_REPLICA_LOG_DIRS: alter_replica_log_dirs,
}
