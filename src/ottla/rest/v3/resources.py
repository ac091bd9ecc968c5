"""The shapes that all resources of API v3 share: kind, metadata with URL and name, and links to others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

from starlette.requests import Request

from ottla.rest.operations import Api
from ottla.rest.urls import path_of
from ottla.web.errors import ApiError

CLUSTER: Final = "/v3/clusters/{cluster_id}"
TOPIC: Final = f"{CLUSTER}/topics/{{topic_name}}"
PARTITION: Final = f"{TOPIC}/partitions/{{partition_id}}"
BROKER: Final = f"{CLUSTER}/brokers/{{broker_id}}"
GROUP: Final = f"{CLUSTER}/consumer-groups/{{consumer_group_id}}"

T = TypeVar("T")

AT_A_TIME: Final = 500
"""Resources that are made before other tasks get their turn."""

JsonObject = dict[str, Any]


class ClusterResources:
    """Makes resources of one cluster, for one request."""

    def __init__(self, base: str, cluster_id: str) -> None:
        self.cluster_id = cluster_id
        self._root = f"{base}{path_of('v3', 'clusters', cluster_id)}"

    def url(self, *parts: str | int) -> str:
        """The URL of a resource of the cluster."""
        return self._root + path_of(*parts)

    def link(self, *parts: str | int) -> JsonObject:
        """A link to a resource of the cluster."""
        return {"related": self.url(*parts)}

    def resource(
        self, kind: str, path: Sequence[str | int], name: str | None, content: JsonObject
    ) -> JsonObject:
        """A resource at `path`; `name` is what follows the cluster in its resource name."""
        metadata = {"self": self.url(*path)}
        if name is not None:
            metadata["resource_name"] = f"crn:///kafka={self.cluster_id}{name}"
        return {"kind": kind, "metadata": metadata, "cluster_id": self.cluster_id, **content}

    def collection(self, kind: str, path: Sequence[str | int], resources: Sequence[JsonObject]) -> JsonObject:
        """A list of resources, always complete: there is no next page."""
        return {"kind": kind, "metadata": {"self": self.url(*path), "next": None}, "data": resources}


async def cluster_of(api: Api, request: Request) -> ClusterResources:
    """The cluster that the path names. Raises ApiError 404 for another than the proxy's."""
    asked, ours = request.path_params["cluster_id"], await api.admin.cluster_id()
    if asked != ours:
        raise ApiError(404, 404, f"Cluster {asked} cannot be found.")
    return ClusterResources(api.urls.base(request), ours)


async def made_of(items: Iterable[T], make: Callable[[T], JsonObject]) -> list[JsonObject]:
    """A resource of each item; other tasks run after every few."""
    made: list[JsonObject] = []
    for item in items:
        made.append(make(item))
        if len(made) % AT_A_TIME == 0:
            await asyncio.sleep(0)
    return made
