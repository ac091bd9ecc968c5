"""The registry's identity, version and state.

GET /                        nothing: a health check
GET /v1/metadata/id          the Kafka cluster with the schemas, and the group of the registry's instances
GET /v1/metadata/version     the version of Confluent's API that is spoken, and ottla's own
GET /v1/metadata/state       whether this instance takes writes, or why not; the primary; how far it has read
                             which topic (ottla's own)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from ottla import __version__
from ottla.registry.registry import Registry
from ottla.registry.routes.access import ANYBODY, READ_SOME
from ottla.registry.routes.operation import Operation, answer
from ottla.registry.settings import GROUP_ID, TOPIC

API_VERSION: Final = "8.0.0"


@dataclass(frozen=True, slots=True)
class MetadataRoutes:
    """The family's endpoints."""

    registry: Registry

    def operations(self) -> Sequence[Operation]:
        return (
            Operation("GET", "/", self.root, ANYBODY),
            Operation("GET", "/v1/metadata/id", self.cluster_id, ANYBODY),
            Operation("GET", "/v1/metadata/version", self.version, ANYBODY),
            Operation("GET", "/v1/metadata/state", self.state, READ_SOME),
        )

    async def root(self, request: Request) -> Response:
        return answer(request, {})

    async def cluster_id(self, request: Request) -> Response:
        clusters = {
            "kafka-cluster": self.registry.kafka_cluster_id,
            "schema-registry-cluster": self.registry.settings[GROUP_ID],
        }
        return answer(request, {"scope": {"path": [], "clusters": clusters}, "id": ""})

    async def version(self, request: Request) -> Response:
        return answer(request, {"version": API_VERSION, "commitId": f"ottla {__version__}"})

    async def state(self, request: Request) -> Response:
        state, place = self.registry.state, self.registry.place
        told = {
            "state": "READY" if state.problem is None else "READ_ONLY",
            "problem": state.problem,
            "primary": state.primary,
            "topic": self.registry.settings[TOPIC],
            "topic_id": str(place.topic_id),
            "offset": place.offsets[0],
        }
        return answer(request, told)
