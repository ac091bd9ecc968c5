"""API v3: topics: listed, created (or validated), grown and deleted."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from ottla.rest.access import may_read, require_topics
from ottla.rest.admin.cluster_topics import create_topic, delete_topic, grow_topic, settled
from ottla.rest.admin.model import NewTopic, Topic
from ottla.rest.operations import Api, Description, Operation, Query
from ottla.rest.path_numbers import INT32_MAX
from ottla.rest.v3.requests import (
    INT16_MAX,
    bad,
    flag_field,
    known_fields,
    list_field,
    optional_number,
    optional_text_field,
    query_flag,
    read_fields,
    text_field,
)
from ottla.rest.v3.resources import CLUSTER, TOPIC, ClusterResources, JsonObject, cluster_of, made_of
from ottla.web.access_rules import Action
from ottla.web.application import json_answer

TOPIC_FIELDS: Final = (
    "topic_name",
    "partitions_count",
    "replication_factor",
    "replicas_assignments",
    "configs",
    "validate_only",
)


def topic_data(resources: ClusterResources, topic: Topic) -> JsonObject:
    """A topic that exists."""
    data = described_topic(
        resources, topic.name, topic.is_internal, topic.replication_factor, len(topic.partitions)
    )
    if topic.authorized_operations is not None:
        data["authorized_operations"] = list(topic.authorized_operations)
    return data


def described_topic(
    resources: ClusterResources, name: str, is_internal: bool, replication_factor: int, partitions: int
) -> JsonObject:
    """A topic, also one that does not exist yet."""
    return resources.resource(
        "KafkaTopic",
        ("topics", name),
        f"/topic={name}",
        {
            "topic_name": name,
            "is_internal": is_internal,
            "replication_factor": replication_factor,
            "partitions_count": partitions,
            "partitions": resources.link("topics", name, "partitions"),
            "configs": resources.link("topics", name, "configs"),
            "partition_reassignments": resources.link("topics", name, "partitions", "-", "reassignment"),
        },
    )


async def list_topics(api: Api, request: Request) -> Response:
    """All topics, internal ones too."""
    resources = await cluster_of(api, request)
    found = [topic for topic in await api.admin.topics() if may_read(request, topic.name)]
    topics = await made_of(found, partial(topic_data, resources))
    return json_answer(resources.collection("KafkaTopicList", ("topics",), topics))


async def get_topic(api: Api, request: Request) -> Response:
    """One topic."""
    resources = await cluster_of(api, request)
    asked = query_flag(request, "include_authorized_operations")
    topic = await api.admin.topic(request.path_params["topic_name"], asked)
    return json_answer(topic_data(resources, topic))


async def post_topic(api: Api, request: Request) -> Response:
    """Create a topic, or with validate_only answer how it would be created."""
    resources = await cluster_of(api, request)
    fields = await read_fields(api, request, TOPIC_FIELDS)
    validate_only = flag_field(fields, "validate_only")
    new = new_topic(fields)
    require_topics(request, Action.ADMIN, [new.name])
    created = await create_topic(api.admin, new, validate_only)
    # brokers before Kafka 2.4 do not answer the values of the defaults
    partitions = created.partitions if created.partitions > 0 else max(new.partitions, len(new.assignments))
    replicas = created.replication_factor if created.replication_factor > 0 else new.replication_factor
    data = described_topic(resources, created.name, False, replicas, partitions)
    answer = json_answer(data, 200 if validate_only else 201)
    if not validate_only:
        await settled(api.admin, created.name, partitions)
        answer.headers["location"] = data["metadata"]["self"]
    return answer


async def patch_topic(api: Api, request: Request) -> Response:
    """Give a topic more partitions."""
    resources = await cluster_of(api, request)
    fields = await read_fields(api, request, ("partitions_count",))
    partitions = optional_number(fields, "partitions_count", INT32_MAX)
    if partitions is None:
        raise bad("partitions_count must be a whole number and is missing")
    name = request.path_params["topic_name"]
    topic = await api.admin.topic(name)
    await grow_topic(api.admin, name, partitions)
    await settled(api.admin, name, partitions)
    data = described_topic(resources, name, topic.is_internal, topic.replication_factor, partitions)
    return json_answer(data)


async def remove_topic(api: Api, request: Request) -> Response:
    """Delete a topic with its records."""
    await cluster_of(api, request)
    name = request.path_params["topic_name"]
    await delete_topic(api.admin, name)
    await settled(api.admin, name, 0)
    return Response(status_code=204)


def new_topic(fields: dict[str, Any]) -> NewTopic:
    """The topic that a body describes. Raises ApiError."""
    name = text_field(fields, "topic_name")
    partitions = optional_number(fields, "partitions_count", INT32_MAX)
    replicas = optional_number(fields, "replication_factor", INT16_MAX)
    assignments = _assignments(fields)
    if assignments:
        if replicas is not None or (partitions is not None and partitions != len(assignments)):
            raise bad("replicas_assignments say how many partitions and replicas there are: leave those out")
        partitions = replicas = -1
    configs = [
        (text_field(config, "name"), optional_text_field(config, "value"))
        for config in (
            known_fields(item, ("name", "value"), "configs") for item in list_field(fields, "configs")
        )
    ]
    return NewTopic(
        name,
        -1 if partitions is None else partitions,
        -1 if replicas is None else replicas,
        assignments,
        configs,
    )


def _assignments(fields: dict[str, Any]) -> list[tuple[int, list[int]]]:
    """Replicas by partition: a list of objects, or one object with partitions as names."""
    given = fields.get("replicas_assignments")
    if isinstance(given, dict):
        given = [{"partition_id": _whole(key), "broker_ids": brokers} for key, brokers in given.items()]
    assignments = []
    for item in list_field({"replicas_assignments": given}, "replicas_assignments"):
        fields = known_fields(item, ("partition_id", "broker_ids"), "replicas_assignments")
        partition = optional_number(fields, "partition_id", INT32_MAX)
        if partition is None:
            raise bad("partition_id must be a whole number and is missing")
        brokers = [_broker(broker) for broker in list_field(fields, "broker_ids")]
        assignments.append((partition, brokers))
    return assignments


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 10):
        raise bad(f"replicas_assignments: {text[:100]} is no partition")
    return int(text)


def _broker(value: Any) -> int:
    broker = optional_number({"broker_ids": value}, "broker_ids", INT32_MAX)
    if broker is None:
        raise bad("Cannot deserialize broker_ids: they must be whole numbers")
    return broker


OPERATIONS: Final = (
    Operation(
        Description("GET", f"{CLUSTER}/topics", "List topics", {200: "KafkaTopicList"}, errors=(404,)),
        list_topics,
        everything=True,
    ),
    Operation(
        Description(
            "POST",
            f"{CLUSTER}/topics",
            "Create a topic",
            {201: "KafkaTopic", 200: "KafkaTopic"},
            body="CreateTopicRequest",
            errors=(404,),
            note="With `validate_only` nothing is created: the answer, 200, is what would be.",
        ),
        post_topic,
    ),
    Operation(
        Description(
            "GET",
            TOPIC,
            "Get a topic",
            {200: "KafkaTopic"},
            query=(
                Query(
                    "include_authorized_operations",
                    "Whether to say what the proxy's principal may do with the topic",
                    "boolean",
                ),
            ),
            errors=(404,),
        ),
        get_topic,
    ),
    Operation(
        Description(
            "PATCH",
            TOPIC,
            "Give a topic more partitions",
            {200: "KafkaTopic"},
            body="UpdatePartitionCountRequest",
            errors=(404,),
        ),
        patch_topic,
    ),
    Operation(Description("DELETE", TOPIC, "Delete a topic", {204: None}, errors=(404,)), remove_topic),
)
