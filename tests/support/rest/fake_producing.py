"""The producing side of a REST proxy, and a Schema Registry, without a cluster: for tests of routes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

import httpx
from confluent_kafka import KafkaError

from ottla.client.registry.async_client import RegistryClient
from ottla.client.registry.wire import RegistryAccess
from ottla.rest.figures import ApiVersion
from ottla.rest.records.bytes_in_work import BytesInWork
from ottla.rest.records.producing import Deliveries, OpenStreams, Outgoing

CLUSTER_ID = "cluster-of-tests"


@dataclass
class FakeMessage:
    """A record as a delivery report has it."""

    at_partition: int
    at_offset: int

    def partition(self) -> int:
        return self.at_partition

    def offset(self) -> int:
        return self.at_offset

    def timestamp(self) -> tuple[int, int]:
        return (1, 1_700_000_000_000 + self.at_offset)


@dataclass
class FakeRegistry:
    """Answers as a Schema Registry does; `schemas` are (subject, version, type, text) by id."""

    schemas: dict[int, tuple[str, int, str, str]] = field(default_factory=dict)
    references: dict[int, list[dict[str, object]]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    answer: Callable[[httpx.Request], httpx.Response | None] = lambda _request: None

    def client(
        self, urls: str = "http://registry", clock: Callable[[], float] = time.monotonic
    ) -> RegistryClient:
        access = RegistryAccess(urls, attempts=1)
        return RegistryClient(access, httpx.MockTransport(self._handle), clock)

    def _handle(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(f"{request.method} {request.url}")
        given = self.answer(request)
        if given is not None:
            return given
        path = request.url.raw_path.decode().partition("?")[0]
        parts = [unquote(part) for part in path.strip("/").split("/")]
        match request.method, parts:
            case "GET", ["schemas", "ids", text] if int(text) in self.schemas:
                return httpx.Response(200, json=self._shown(int(text)))
            case "GET", ["schemas", "ids", text, "versions"] if int(text) in self.schemas:
                subject, version, _, _ = self.schemas[int(text)]
                return httpx.Response(200, json=[{"subject": subject, "version": version}])
            case "GET", ["subjects", subject, "versions", version]:
                return self._of_subject(subject, version)
            case "POST", ["subjects", subject, "versions"]:
                return httpx.Response(200, json={"id": self._register(subject, json.loads(request.content))})
            case "POST", ["subjects", subject]:
                asked = self._register(subject, json.loads(request.content))
                return httpx.Response(200, json=self._shown(asked))
        return httpx.Response(404, json={"error_code": 40403, "message": "Schema not found"})

    def _of_subject(self, subject: str, version: str) -> httpx.Response:
        found = [
            number
            for number, (of, at, _, _) in self.schemas.items()
            if of == subject and version in ("latest", str(at))
        ]
        if not found:
            return httpx.Response(
                404, json={"error_code": 40401, "message": f"Subject '{subject}' not found."}
            )
        return httpx.Response(200, json=self._shown(found[-1]))

    def _register(self, subject: str, body: dict[str, str]) -> int:
        wanted = (body["schemaType"], body["schema"])
        for number, (of, _, kind, text) in self.schemas.items():
            if of == subject and (kind, text) == wanted:
                return number
        number = len(self.schemas) + 1
        versions = sum(of == subject for of, _, _, _ in self.schemas.values())
        self.schemas[number] = (subject, versions + 1, *wanted)
        return number

    def _shown(self, number: int) -> dict[str, object]:
        subject, version, kind, text = self.schemas[number]
        shown: dict[str, object] = {"subject": subject, "version": version, "id": number, "schema": text}
        if kind != "AVRO":
            shown["schemaType"] = kind
        if number in self.references:
            shown["references"] = self.references[number]
        return shown


class FakeProducing:
    """Takes records as `Producing` does. With `held`, deliveries wait until `report` is called."""

    def __init__(
        self, schemas: RegistryClient, topics: dict[str, int], max_body_bytes: int = 1 << 20
    ) -> None:
        self.schemas = schemas
        self.max_body_bytes = max_body_bytes
        self.work = BytesInWork(4 << 20, wait_seconds=0.05)
        self.topics = topics
        self.sent: list[tuple[str, Outgoing]] = []
        self.failing: dict[bytes, KafkaError] = {}
        self.held = False
        self.streams = OpenStreams()
        self._waiting: list[tuple[Deliveries, int, Outgoing]] = []

    async def cluster_id(self) -> str:
        return CLUSTER_ID

    async def partitions(self, topic: str, at_least: int = 1) -> int | None:
        return self.topics.get(topic)

    def forget_topic(self, topic: str) -> None:
        pass

    async def send(
        self, topic: str, records: Sequence[Outgoing], api: ApiVersion = ApiVersion.V3
    ) -> Deliveries:
        deliveries = Deliveries(len(records))
        for place, record in enumerate(records):
            self.sent.append((topic, record))
            self._waiting.append((deliveries, place, record))
        if not self.held:
            self.report()
        return deliveries

    def report(self) -> None:
        """Report the delivery of all records that were sent."""
        waiting, self._waiting = self._waiting, []
        for deliveries, place, record in waiting:
            error = self.failing.get(record.value or b"")
            message = FakeMessage(max(record.partition, 0), len(self.sent) - 1)
            deliveries.reported(place, error, None if error else message)  # type: ignore[arg-type]
