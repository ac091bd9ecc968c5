"""API v3: consumer groups, their consumers, the consumers' assignments, and the groups' lags."""

from __future__ import annotations

from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from ottla.rest.admin.consumer_lag import group_lags
from ottla.rest.admin.model import Group, Member, PartitionLag
from ottla.rest.operations import Api, Description, Operation
from ottla.rest.path_numbers import path_number
from ottla.rest.v3.resources import CLUSTER, GROUP, ClusterResources, JsonObject, cluster_of, made_of
from ottla.web.application import json_answer
from ottla.web.errors import ApiError

GROUPS: Final = "consumer-groups"


def group_data(resources: ClusterResources, group: Group) -> JsonObject:
    """A group; `coordinator` is missing where the cluster names none."""
    coordinator = {}
    if group.coordinator is not None:
        coordinator = {"coordinator": resources.link("brokers", group.coordinator)}
    return resources.resource(
        "KafkaConsumerGroup",
        (GROUPS, group.id),
        f"/consumer-group={group.id}",
        {
            "consumer_group_id": group.id,
            "is_simple": group.is_simple,
            "partition_assignor": group.assignor,
            "state": group.state,
            "type": group.type,
            **coordinator,
            "consumers": resources.link(GROUPS, group.id, "consumers"),
            "lag_summary": resources.link(GROUPS, group.id, "lag-summary"),
        },
    )


def consumer_data(resources: ClusterResources, group: Group, member: Member) -> JsonObject:
    """A consumer of a group."""
    return resources.resource(
        "KafkaConsumer",
        (GROUPS, group.id, "consumers", member.id),
        f"/consumer-group={group.id}/consumer={member.id}",
        {
            "consumer_group_id": group.id,
            "consumer_id": member.id,
            "instance_id": member.instance_id,
            "client_id": member.client_id,
            "assignments": resources.link(GROUPS, group.id, "consumers", member.id, "assignments"),
        },
    )


def assignment_data(
    resources: ClusterResources, group: Group, member: Member, topic: str, partition: int
) -> JsonObject:
    """A partition that a consumer reads."""
    of_partition = (topic, "partitions", partition)
    return resources.resource(
        "KafkaConsumerAssignment",
        (GROUPS, group.id, "consumers", member.id, "assignments", *of_partition),
        f"/consumer-group={group.id}/consumer={member.id}/assignment={topic}/partition={partition}",
        {
            "consumer_group_id": group.id,
            "consumer_id": member.id,
            "topic_name": topic,
            "partition_id": partition,
            "partition": resources.link("topics", *of_partition),
            "lag": resources.link(GROUPS, group.id, "lags", *of_partition),
        },
    )


def lag_data(resources: ClusterResources, group: Group, lag: PartitionLag) -> JsonObject:
    """How far a group is behind in one partition; ids are empty where no consumer has the partition."""
    return resources.resource(
        "KafkaConsumerLag",
        (GROUPS, group.id, "lags", lag.topic, "partitions", lag.partition),
        f"/consumer-group={group.id}/lag={lag.topic}/partition={lag.partition}",
        {
            "consumer_group_id": group.id,
            "topic_name": lag.topic,
            "partition_id": lag.partition,
            "current_offset": lag.committed,
            "log_end_offset": lag.log_end,
            "lag": lag.lag,
            "consumer_id": lag.member.id if lag.member else "",
            "instance_id": lag.member.instance_id if lag.member else None,
            "client_id": lag.member.client_id if lag.member else "",
        },
    )


def summary_data(resources: ClusterResources, group: Group, lags: list[PartitionLag]) -> JsonObject:
    """The partition that is farthest behind, and the sum of all lags, at least one."""
    worst = max(lags, key=lambda lag: lag.lag)
    consumer = worst.member.id if worst.member else ""
    return resources.resource(
        "KafkaConsumerGroupLagSummary",
        (GROUPS, group.id, "lag-summary"),
        f"/consumer-group={group.id}/lag-summary",
        {
            "consumer_group_id": group.id,
            "max_lag_consumer_id": consumer,
            "max_lag_instance_id": worst.member.instance_id if worst.member else None,
            "max_lag_client_id": worst.member.client_id if worst.member else "",
            "max_lag_topic_name": worst.topic,
            "max_lag_partition_id": worst.partition,
            "max_lag": worst.lag,
            "total_lag": sum(lag.lag for lag in lags),
            "max_lag_consumer": resources.link(GROUPS, group.id, "consumers", consumer),
            "max_lag_partition": resources.link("topics", worst.topic, "partitions", worst.partition),
        },
    )


async def list_groups(api: Api, request: Request) -> Response:
    """All consumer groups."""
    resources = await cluster_of(api, request)
    groups = await made_of(await api.admin.groups(), partial(group_data, resources))
    return json_answer(resources.collection("KafkaConsumerGroupList", (GROUPS,), groups))


async def get_group(api: Api, request: Request) -> Response:
    """One consumer group."""
    resources, group = await cluster_of(api, request), await _group(api, request)
    return json_answer(group_data(resources, group))


async def list_consumers(api: Api, request: Request) -> Response:
    """The consumers of a group."""
    resources, group = await cluster_of(api, request), await _group(api, request)
    consumers = [consumer_data(resources, group, member) for member in group.members]
    path = (GROUPS, group.id, "consumers")
    return json_answer(resources.collection("KafkaConsumerList", path, consumers))


async def get_consumer(api: Api, request: Request) -> Response:
    """One consumer of a group."""
    resources, group = await cluster_of(api, request), await _group(api, request)
    return json_answer(consumer_data(resources, group, _member(group, request)))


async def list_assignments(api: Api, request: Request) -> Response:
    """The partitions that a consumer reads."""
    resources, group = await cluster_of(api, request), await _group(api, request)
    member = _member(group, request)
    assignments = [
        assignment_data(resources, group, member, topic, partition)
        for topic, partition in sorted(member.assigned)
    ]
    path = (GROUPS, group.id, "consumers", member.id, "assignments")
    return json_answer(resources.collection("KafkaConsumerAssignmentList", path, assignments))


async def get_assignment(api: Api, request: Request) -> Response:
    """One partition that a consumer reads."""
    resources, group = await cluster_of(api, request), await _group(api, request)
    member, (topic, partition) = _member(group, request), _topic_partition(request)
    if (topic, partition) not in member.assigned:
        raise ApiError(404, 404, f"The consumer is not assigned partition {partition} of {topic}.")
    return json_answer(assignment_data(resources, group, member, topic, partition))


async def get_lag_summary(api: Api, request: Request) -> Response:
    """A summary of a group's lags."""
    resources, group = await cluster_of(api, request), await _group(api, request)
    lags = await group_lags(api.admin, group)
    if not lags:
        raise ApiError(404, 404, f"Consumer group {group.id} has committed no offsets.")
    return json_answer(summary_data(resources, group, lags))


async def list_lags(api: Api, request: Request) -> Response:
    """How far a group is behind in each partition that it has committed an offset of."""
    resources, group = await cluster_of(api, request), await _group(api, request)
    lags = await made_of(await group_lags(api.admin, group), partial(lag_data, resources, group))
    return json_answer(resources.collection("KafkaConsumerLagList", (GROUPS, group.id, "lags"), lags))


async def get_lag(api: Api, request: Request) -> Response:
    """How far a group is behind in one partition."""
    resources, group = await cluster_of(api, request), await _group(api, request)
    topic, partition = _topic_partition(request)
    for lag in await group_lags(api.admin, group, [(topic, partition)]):
        return json_answer(lag_data(resources, group, lag))
    raise ApiError(
        404, 404, f"Consumer group {group.id} has committed no offset of partition {partition} of {topic}."
    )


async def _group(api: Api, request: Request) -> Group:
    return await api.admin.group(request.path_params["consumer_group_id"])


def _member(group: Group, request: Request) -> Member:
    wanted = request.path_params["consumer_id"]
    for member in group.members:
        if member.id == wanted:
            return member
    raise ApiError(404, 404, f"Consumer {wanted} cannot be found.")


def _topic_partition(request: Request) -> tuple[str, int]:
    return request.path_params["topic_name"], path_number(request, "partition_id")


def _get(path: str, summary: str, answer: str) -> Description:
    return Description("GET", path, summary, {200: answer}, errors=(404,))


_CONSUMER: Final = f"{GROUP}/consumers/{{consumer_id}}"
_OF_PARTITION: Final = "{topic_name}/partitions/{partition_id}"

OPERATIONS: Final = (
    Operation(
        _get(f"{CLUSTER}/consumer-groups", "List consumer groups", "KafkaConsumerGroupList"),
        list_groups,
        everything=True,
    ),
    Operation(_get(GROUP, "Get a consumer group", "KafkaConsumerGroup"), get_group),
    Operation(_get(f"{GROUP}/consumers", "List consumers", "KafkaConsumerList"), list_consumers),
    Operation(_get(_CONSUMER, "Get a consumer", "KafkaConsumer"), get_consumer),
    Operation(
        _get(f"{_CONSUMER}/assignments", "List assignments", "KafkaConsumerAssignmentList"), list_assignments
    ),
    Operation(
        _get(f"{_CONSUMER}/assignments/{_OF_PARTITION}", "Get an assignment", "KafkaConsumerAssignment"),
        get_assignment,
    ),
    Operation(
        _get(f"{GROUP}/lag-summary", "Get the lag of a group in short", "KafkaConsumerGroupLagSummary"),
        get_lag_summary,
    ),
    Operation(_get(f"{GROUP}/lags", "List the lags of a group", "KafkaConsumerLagList"), list_lags),
    Operation(_get(f"{GROUP}/lags/{_OF_PARTITION}", "Get a lag", "KafkaConsumerLag"), get_lag),
)
