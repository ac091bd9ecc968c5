"""API v2: the cluster's topics, partitions, their offsets, and brokers."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from ottla.rest.access import may_read
from ottla.rest.admin.cluster_configs import topic_configs
from ottla.rest.admin.model import OffsetSpec, Partition, Topic
from ottla.rest.operations import Api, Description, Operation
from ottla.rest.path_numbers import path_number
from ottla.web.application import json_answer
from ottla.web.errors import ApiError
from ottla.web.media_types import negotiate

MEDIA_TYPES: Final = ("application/vnd.kafka.v2+json", "application/vnd.kafka+json", "application/json")
"""The media types of answers; the first for a client that takes any."""

TOPIC_NOT_FOUND: Final = (404, 40401, "Topic not found.")
PARTITION_NOT_FOUND: Final = (404, 40402, "Partition not found.")


def accepted_media_type(request: Request) -> str:
    """The type that a client wants its answer in. Raises ApiError 406."""
    found = negotiate(request.headers.get("accept", ""), MEDIA_TYPES)
    if found is None:
        raise ApiError(406, 406, "HTTP 406 Not Acceptable")
    return found


async def list_topics(api: Api, request: Request) -> Response:
    """The names of all topics."""
    media_type = accepted_media_type(request)
    names = [name for name in await api.admin.topic_names() if may_read(request, name)]
    return json_answer(names, media_type=media_type)


async def get_topic(api: Api, request: Request) -> Response:
    """A topic with its configs and partitions."""
    media_type = accepted_media_type(request)
    topic = await _topic(api, request)
    configs = (await topic_configs(api.admin, [topic.name]))[topic.name]
    answer = {
        "name": topic.name,
        "configs": {entry.name: entry.value for entry in configs},
        "partitions": [_partition_data(partition) for partition in topic.partitions],
    }
    return json_answer(answer, media_type=media_type)


async def list_partitions(api: Api, request: Request) -> Response:
    """The partitions of a topic."""
    media_type = accepted_media_type(request)
    topic = await _topic(api, request)
    partitions = [_partition_data(partition) for partition in topic.partitions]
    return json_answer(partitions, media_type=media_type)


async def get_partition(api: Api, request: Request) -> Response:
    """One partition of a topic."""
    media_type = accepted_media_type(request)
    _, partition = await _partition(api, request)
    return json_answer(_partition_data(partition), media_type=media_type)


async def get_offsets(api: Api, request: Request) -> Response:
    """The first offset of a partition and the one behind its last."""
    media_type = accepted_media_type(request)
    topic, partition = await _partition(api, request)
    key = topic.name, partition.id
    first = await api.admin.offsets([key], OffsetSpec.EARLIEST)
    end = await api.admin.offsets([key], OffsetSpec.LATEST)
    if key not in first or key not in end:
        raise ApiError(*PARTITION_NOT_FOUND)
    answer = {"beginning_offset": first[key], "end_offset": end[key]}
    return json_answer(answer, media_type=media_type)


async def list_brokers(api: Api, request: Request) -> Response:
    """The ids of the live brokers."""
    media_type = accepted_media_type(request)
    cluster = await api.admin.cluster()
    return json_answer({"brokers": [node.id for node in cluster.nodes]}, media_type=media_type)


async def _topic(api: Api, request: Request) -> Topic:
    try:
        return await api.admin.topic(request.path_params["topic"])
    except ApiError as problem:
        if problem.status == 404:
            raise ApiError(*TOPIC_NOT_FOUND) from None
        raise


async def _partition(api: Api, request: Request) -> tuple[Topic, Partition]:
    partition_id = path_number(request, "partition")
    topic = await _topic(api, request)
    partition = topic.partition(partition_id)
    if partition is None:
        raise ApiError(*PARTITION_NOT_FOUND)
    return topic, partition


def _partition_data(partition: Partition) -> dict[str, Any]:
    return {
        "partition": partition.id,
        "leader": -1 if partition.leader is None else partition.leader,
        "replicas": [
            {
                "broker": broker,
                "leader": broker == partition.leader,
                "in_sync": broker in partition.in_sync,
            }
            for broker in partition.replicas
        ],
    }


def _get(path: str, summary: str, answer: str, errors: tuple[int, ...] = (404, 406)) -> Description:
    return Description("GET", path, summary, {200: answer}, errors=errors, media_types=MEDIA_TYPES[:1])


OPERATIONS: Final = (
    Operation(_get("/topics", "List the names of topics", "TopicNames", (406,)), list_topics),
    Operation(_get("/topics/{topic}", "Get a topic", "Topic"), get_topic),
    Operation(_get("/topics/{topic}/partitions", "List partitions", "PartitionList"), list_partitions),
    Operation(_get("/topics/{topic}/partitions/{partition}", "Get a partition", "Partition"), get_partition),
    Operation(
        _get(
            "/topics/{topic}/partitions/{partition}/offsets",
            "Get the offsets at which a partition begins and ends",
            "PartitionOffsets",
        ),
        get_offsets,
    ),
    Operation(_get("/brokers", "List the ids of brokers", "BrokerIds", (406,)), list_brokers),
)
