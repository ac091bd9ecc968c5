"""API v3: clusters (always the one behind the proxy) and their brokers."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from ottla.rest.admin.model import Cluster, Node
from ottla.rest.operations import Api, Description, Operation
from ottla.rest.path_numbers import path_number
from ottla.rest.v3.resources import CLUSTER, ClusterResources, JsonObject, cluster_of
from ottla.web.application import json_answer
from ottla.web.errors import ApiError


def cluster_data(resources: ClusterResources, cluster: Cluster) -> JsonObject:
    """A cluster, with links to its brokers, topics, groups and rules."""
    controller = {}
    if cluster.controller is not None:
        controller = {"controller": resources.link("brokers", cluster.controller)}
    return resources.resource(
        "KafkaCluster",
        (),
        "",
        {
            **controller,
            "acls": resources.link("acls"),
            "brokers": resources.link("brokers"),
            "broker_configs": resources.link("broker-configs"),
            "consumer_groups": resources.link("consumer-groups"),
            "topics": resources.link("topics"),
            "partition_reassignments": resources.link("topics", "-", "partitions", "-", "reassignment"),
        },
    )


def broker_data(resources: ClusterResources, node: Node) -> JsonObject:
    """A broker and its address."""
    return resources.resource(
        "KafkaBroker",
        ("brokers", node.id),
        f"/broker={node.id}",
        {
            "broker_id": node.id,
            "host": node.host,
            "port": node.port,
            "rack": node.rack,
            "configs": resources.link("brokers", node.id, "configs"),
            "partition_replicas": resources.link("brokers", node.id, "partition-replicas"),
        },
    )


async def list_clusters(api: Api, request: Request) -> Response:
    """The one cluster, in a list."""
    cluster = await api.admin.cluster()
    base = api.urls.base(request)
    resources = ClusterResources(base, cluster.id)
    return json_answer(
        {
            "kind": "KafkaClusterList",
            "metadata": {"self": f"{base}/v3/clusters", "next": None},
            "data": [cluster_data(resources, cluster)],
        }
    )


async def get_cluster(api: Api, request: Request) -> Response:
    """The cluster, by its id."""
    resources = await cluster_of(api, request)
    return json_answer(cluster_data(resources, await api.admin.cluster()))


async def list_brokers(api: Api, request: Request) -> Response:
    """The live brokers."""
    resources = await cluster_of(api, request)
    cluster = await api.admin.cluster()
    brokers = [broker_data(resources, node) for node in cluster.nodes]
    return json_answer(resources.collection("KafkaBrokerList", ("brokers",), brokers))


async def get_broker(api: Api, request: Request) -> Response:
    """One broker."""
    resources = await cluster_of(api, request)
    broker_id = path_number(request, "broker_id")
    node = (await api.admin.cluster()).node(broker_id)
    if node is None:
        raise ApiError(404, 404, f"Broker {broker_id} cannot be found.")
    return json_answer(broker_data(resources, node))


OPERATIONS: Final = (
    Operation(Description("GET", "/v3/clusters", "List clusters", {200: "KafkaClusterList"}), list_clusters),
    Operation(
        Description("GET", CLUSTER, "Get a cluster", {200: "KafkaCluster"}, errors=(404,)), get_cluster
    ),
    Operation(
        Description("GET", f"{CLUSTER}/brokers", "List brokers", {200: "KafkaBrokerList"}, errors=(404,)),
        list_brokers,
    ),
    Operation(
        Description(
            "GET", f"{CLUSTER}/brokers/{{broker_id}}", "Get a broker", {200: "KafkaBroker"}, errors=(404,)
        ),
        get_broker,
    ),
)
