"""Kafka 4.4's checks of a StreamsGroupHeartbeat that are independent of the group, with Kafka's messages.

Topic patterns are in the protocol, but no coordinator of Kafka 4.4 accepts them.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.core.groups.streams.configured import ConfiguredTopology
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.streams_group_heartbeat_request import (
    StreamsGroupHeartbeatRequest,
    TaskIds,
)
from ottla.protocol.messages.streams_group_heartbeat_request import Topology as RequestTopology

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2


class Refused(Exception):
    """The error and message in the answer to a request."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


def check_heartbeat(request: StreamsGroupHeartbeatRequest) -> None:
    """Check the fields of a heartbeat. Raises Refused."""
    _check_features(request)
    for name, value in (
        ("MemberId", request.member_id),
        ("GroupId", request.group_id),
        ("InstanceId", request.instance_id),
        ("RackId", request.rack_id),
    ):
        _require(value is None or value.strip() != "", f"{name} can't be empty.")
    if request.member_epoch == JOIN_EPOCH:
        _check_join(request)
    elif request.member_epoch == LEAVE_STATIC_EPOCH:
        _require(request.instance_id is not None, "InstanceId can't be null.")
    else:
        _require(
            request.member_epoch > LEAVE_STATIC_EPOCH,
            f"MemberEpoch is {request.member_epoch}, but must be greater than or equal to -2.",
        )
    tasks = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    given = [each is not None for each in tasks]
    _require(all(given) or not any(given), "If one task-type is non-null, all must be non-null.")
    if request.member_epoch != JOIN_EPOCH:
        _require(request.topology is None, "Topology can only be provided when (re-)joining.")


def check_tasks(configured: ConfiguredTopology, request: StreamsGroupHeartbeatRequest) -> None:
    """Check that the tasks that a member names exist. Raises Refused."""
    for tasks in (request.active_tasks, request.standby_tasks, request.warmup_tasks):
        for each in tasks or ():
            subtopology = configured.subtopologies.get(each.subtopology_id)
            if subtopology is None:
                raise Refused(
                    ErrorCode.INVALID_REQUEST,
                    f"Subtopology {each.subtopology_id} does not exist in the topology.",
                )
            for partition in each.partitions:
                _require(
                    0 <= partition < subtopology.task_count,
                    f"Task {partition} for subtopology {each.subtopology_id} is invalid. "
                    f"Number of tasks for this subtopology: {subtopology.task_count}",
                )


def _check_features(request: StreamsGroupHeartbeatRequest) -> None:
    if request.topology is not None:
        _require(
            not any(each.source_topic_regex for each in request.topology.subtopologies),
            "Regular expressions for source topics are not supported yet.",
        )


def _check_join(request: StreamsGroupHeartbeatRequest) -> None:
    _require(request.rebalance_timeout_ms != -1, "RebalanceTimeoutMs must be provided in first request.")
    _require_no_tasks(request.active_tasks, "ActiveTasks")
    _require_no_tasks(request.standby_tasks, "StandbyTasks")
    _require_no_tasks(request.warmup_tasks, "WarmupTasks")
    if request.topology is None:
        raise Refused(ErrorCode.INVALID_REQUEST, "Topology must be non-null when (re-)joining.")
    _check_changelogs(request.topology)


def _check_changelogs(topology: RequestTopology) -> None:
    for subtopology in topology.subtopologies:
        for topic in subtopology.state_changelog_topics:
            if topic.partitions:
                raise Refused(
                    ErrorCode.STREAMS_INVALID_TOPOLOGY,
                    f"Changelog topic {topic.name} must have an undefined partition count, "
                    f"but it is set to {topic.partitions}.",
                )


def _require_no_tasks(tasks: Sequence[TaskIds] | None, name: str) -> None:
    """Check that a member that joins sends an empty list of tasks, not an absent one. Raises Refused."""
    _require(tasks is not None and not tasks, f"{name} must be empty when (re-)joining.")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise Refused(ErrorCode.INVALID_REQUEST, message)
