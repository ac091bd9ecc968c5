"""A REST Proxy in a process of its own, asked as any client of HTTP would."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from support.servers.services import ServiceProcess

TIMEOUT_S = 60.0


@dataclass(slots=True)
class RestApi:
    """`ottla rest` on a cluster. Paths of v3 are those within the cluster."""

    service: ServiceProcess
    http: httpx.Client
    cluster_id: str

    @classmethod
    @contextmanager
    def start(
        cls, bootstrap: str, directory: Path, settings: Mapping[str, str] | None = None
    ) -> Iterator[RestApi]:
        with (
            ServiceProcess.start("rest", bootstrap, directory, settings) as service,
            httpx.Client(base_url=service.url, timeout=TIMEOUT_S) as http,
        ):
            clusters = http.get("/v3/clusters").json()["data"]
            yield cls(service, http, clusters[0]["cluster_id"])

    def call(self, method: str, path: str, body: Any = None, **options: Any) -> httpx.Response:
        """A request of v3."""
        if body is not None:
            options["json"] = body
        return self.http.request(method, f"/v3/clusters/{self.cluster_id}{path}", **options)

    def get(self, path: str) -> Any:
        """The answer to a GET of v3, which must be 200."""
        answer = self.call("GET", path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def data(self, path: str) -> list[dict[str, Any]]:
        """The resources of a list."""
        found: list[dict[str, Any]] = self.get(path)["data"]
        return found

    def refused(self, method: str, path: str, body: Any = None, **options: Any) -> tuple[int, int, str]:
        """Status, error code and message of a request that is refused."""
        answer = self.call(method, path, body, **options)
        told = answer.json()
        assert set(told) == {"error_code", "message"}, told
        return answer.status_code, told["error_code"], told["message"]

    def create_topic(self, name: str, **fields: Any) -> dict[str, Any]:
        """A new topic."""
        answer = self.call("POST", "/topics", {"topic_name": name, **fields})
        assert answer.status_code == 201, answer.text
        created: dict[str, Any] = answer.json()
        return created
