"""API v3: partitions, their offsets, replicas, and the replicas that move."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from ottla.rest.admin.cluster_topics import reassignments
from ottla.rest.admin.model import OffsetSpec, Partition, Reassignment, Topic
from ottla.rest.kafka_errors import NO_SUCH_PARTITION
from ottla.rest.operations import Api, Description, Operation, Query
from ottla.rest.path_numbers import path_number
from ottla.rest.v3.requests import bad
from ottla.rest.v3.resources import (
    BROKER,
    CLUSTER,
    PARTITION,
    TOPIC,
    ClusterResources,
    JsonObject,
    cluster_of,
    made_of,
)
from ottla.web.application import json_answer
from ottla.web.errors import ApiError

OFFSET_TYPES: Final = ("earliest", "latest")


def partition_data(resources: ClusterResources, topic: str, partition: Partition) -> JsonObject:
    """A partition; without the link `leader` while it has none."""
    path = ("topics", topic, "partitions", partition.id)
    leader = {}
    if partition.leader is not None:
        leader = {"leader": resources.link(*path, "replicas", partition.leader)}
    return resources.resource(
        "KafkaPartition",
        path,
        f"/topic={topic}/partition={partition.id}",
        {
            "topic_name": topic,
            "partition_id": partition.id,
            **leader,
            "replicas": resources.link(*path, "replicas"),
            "reassignment": resources.link(*path, "reassignment"),
        },
    )


def replica_data(resources: ClusterResources, topic: str, partition: Partition, broker: int) -> JsonObject:
    """A replica of a partition."""
    return resources.resource(
        "KafkaReplica",
        ("topics", topic, "partitions", partition.id, "replicas", broker),
        f"/topic={topic}/partition={partition.id}/replica={broker}",
        {
            "topic_name": topic,
            "partition_id": partition.id,
            "broker_id": broker,
            "is_leader": broker == partition.leader,
            "is_in_sync": broker in partition.in_sync,
            "broker": resources.link("brokers", broker),
        },
    )


def reassignment_data(resources: ClusterResources, moved: Reassignment) -> JsonObject:
    """A partition whose replicas move."""
    path = ("topics", moved.topic, "partitions", moved.partition)
    return resources.resource(
        "KafkaReassignment",
        (*path, "reassignment"),
        f"/topic={moved.topic}/partition={moved.partition}/reassignment",
        {
            "topic_name": moved.topic,
            "partition_id": moved.partition,
            "adding_replicas": list(moved.adding),
            "removing_replicas": list(moved.removing),
            "replicas": resources.link(*path, "replicas"),
        },
    )


async def list_partitions(api: Api, request: Request) -> Response:
    """The partitions of a topic."""
    resources = await cluster_of(api, request)
    topic = await api.admin.topic(request.path_params["topic_name"])
    partitions = [partition_data(resources, topic.name, partition) for partition in topic.partitions]
    path = ("topics", topic.name, "partitions")
    return json_answer(resources.collection("KafkaPartitionList", path, partitions))


async def get_partition(api: Api, request: Request) -> Response:
    """One partition."""
    resources = await cluster_of(api, request)
    topic, partition = await _partition(api, request)
    return json_answer(partition_data(resources, topic.name, partition))


async def get_offsets(api: Api, request: Request) -> Response:
    """A partition's first offset and the one behind its last record, or one of the two."""
    resources = await cluster_of(api, request)
    asked = request.query_params.get("offset_type")
    if asked is not None and asked.lower() not in OFFSET_TYPES:
        raise bad(f"offset_type must be one of {', '.join(OFFSET_TYPES)}")
    topic, partition = await _partition(api, request)
    key = topic.name, partition.id
    offsets = {}
    for name, spec in (("earliest", OffsetSpec.EARLIEST), ("latest", OffsetSpec.LATEST)):
        if asked is None or asked.lower() == name:
            found = await api.admin.offsets([key], spec)
            if key not in found:
                raise ApiError(404, 40403, NO_SUCH_PARTITION)
            offsets[f"{name}_offset"] = found[key]
    return json_answer(
        resources.resource(
            "KafkaPartitionWithOffsets",
            ("topics", topic.name, "partitions", partition.id, "offset"),
            f"/topic={topic.name}/partition={partition.id}/offset",
            {"topic_name": topic.name, "partition_id": partition.id, **offsets},
        )
    )


async def list_replicas(api: Api, request: Request) -> Response:
    """The replicas of a partition."""
    resources = await cluster_of(api, request)
    topic, partition = await _partition(api, request)
    replicas = [replica_data(resources, topic.name, partition, broker) for broker in partition.replicas]
    path = ("topics", topic.name, "partitions", partition.id, "replicas")
    return json_answer(resources.collection("KafkaReplicaList", path, replicas))


async def get_replica(api: Api, request: Request) -> Response:
    """One replica of a partition."""
    resources = await cluster_of(api, request)
    broker = path_number(request, "broker_id")
    topic, partition = await _partition(api, request)
    if broker not in partition.replicas:
        raise ApiError(404, 404, f"Broker {broker} has no replica of this partition.")
    return json_answer(replica_data(resources, topic.name, partition, broker))


async def list_broker_replicas(api: Api, request: Request) -> Response:
    """All replicas that one broker has."""
    resources = await cluster_of(api, request)
    broker = path_number(request, "broker_id")
    if (await api.admin.cluster()).node(broker) is None:
        raise ApiError(404, 404, f"Broker {broker} cannot be found.")
    held = (
        (topic.name, partition)
        for topic in await api.admin.topics()
        for partition in topic.partitions
        if broker in partition.replicas
    )
    replicas = await made_of(held, lambda of: replica_data(resources, of[0], of[1], broker))
    path = ("brokers", broker, "partition-replicas")
    return json_answer(resources.collection("KafkaReplicaList", path, replicas))


async def list_reassignments(api: Api, request: Request) -> Response:
    """Every partition whose replicas move."""
    resources = await cluster_of(api, request)
    moved = [reassignment_data(resources, one) for one in await reassignments(api.admin)]
    path = ("topics", "-", "partitions", "-", "reassignment")
    return json_answer(resources.collection("KafkaReassignmentList", path, moved))


async def list_topic_reassignments(api: Api, request: Request) -> Response:
    """A topic's partitions whose replicas move."""
    resources = await cluster_of(api, request)
    topic = await api.admin.topic(request.path_params["topic_name"])
    ids = [partition.id for partition in topic.partitions]
    moved = [reassignment_data(resources, one) for one in await reassignments(api.admin, topic.name, ids)]
    path = ("topics", topic.name, "partitions", "-", "reassignment")
    return json_answer(resources.collection("KafkaReassignmentList", path, moved))


async def get_reassignment(api: Api, request: Request) -> Response:
    """The reassignment of one partition."""
    resources = await cluster_of(api, request)
    topic, partition = await _partition(api, request)
    for moved in await reassignments(api.admin, topic.name, [partition.id]):
        return json_answer(reassignment_data(resources, moved))
    raise ApiError(404, 404, "The replicas of this partition are not being moved.")


async def _partition(api: Api, request: Request) -> tuple[Topic, Partition]:
    partition_id = path_number(request, "partition_id")
    topic = await api.admin.topic(request.path_params["topic_name"])
    partition = topic.partition(partition_id)
    if partition is None:
        raise ApiError(404, 40403, NO_SUCH_PARTITION)
    return topic, partition


def _get(path: str, summary: str, answer: str, query: tuple[Query, ...] = ()) -> Description:
    return Description("GET", path, summary, {200: answer}, query=query, errors=(404,))


OPERATIONS: Final = (
    Operation(
        _get(
            f"{CLUSTER}/topics/-/partitions/-/reassignment",
            "List reassignments of the cluster",
            "KafkaReassignmentList",
        ),
        list_reassignments,
        everything=True,
    ),
    Operation(_get(f"{TOPIC}/partitions", "List partitions", "KafkaPartitionList"), list_partitions),
    Operation(
        _get(f"{TOPIC}/partitions/-/reassignment", "List reassignments of a topic", "KafkaReassignmentList"),
        list_topic_reassignments,
    ),
    Operation(_get(PARTITION, "Get a partition", "KafkaPartition"), get_partition),
    Operation(
        _get(
            f"{PARTITION}/offset",
            "Get the offsets at which a partition begins and ends",
            "KafkaPartitionWithOffsets",
            (Query("offset_type", "The one to tell, if not both", choices=OFFSET_TYPES),),
        ),
        get_offsets,
    ),
    Operation(_get(f"{PARTITION}/reassignment", "Get a reassignment", "KafkaReassignment"), get_reassignment),
    Operation(_get(f"{PARTITION}/replicas", "List replicas", "KafkaReplicaList"), list_replicas),
    Operation(_get(f"{PARTITION}/replicas/{{broker_id}}", "Get a replica", "KafkaReplica"), get_replica),
    Operation(
        _get(f"{BROKER}/partition-replicas", "List the replicas that a broker has", "KafkaReplicaList"),
        list_broker_replicas,
        everything=True,
    ),
)
