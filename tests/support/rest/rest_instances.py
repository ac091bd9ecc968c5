"""A REST proxy's consumer instances as a client over HTTP uses them, with the tests' bounded waits."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx

TIMEOUT_S = 30.0
V2 = "application/vnd.kafka.v2+json"


class Instance:
    """One instance. Methods fail when an answer is an error."""

    def __init__(self, base: str, data_format: str) -> None:
        self.base = base
        self.records_type = f"application/vnd.kafka.{data_format}.v2+json"
        self.http = httpx.Client(timeout=TIMEOUT_S, verify=False)

    @classmethod
    @contextmanager
    def make(cls, url: str, group: str, data_format: str = "binary", **settings: Any) -> Iterator[Instance]:
        """An instance that is deleted at the end of the block if it is still there.

        `settings` have underscores in place of dots.
        """
        body = {
            "format": data_format,
            "auto.offset.reset": "earliest",
            "auto.commit.enable": "false",
            "consumer.request.timeout.ms": 10_000,
            "fetch.min.bytes": 0,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        made = httpx.post(f"{url}/consumers/{group}", json=body, timeout=TIMEOUT_S, verify=False)
        assert made.status_code == 200, made.text
        instance = cls(made.json()["base_uri"], data_format)
        try:
            yield instance
        finally:
            instance.http.delete(instance.base)
            instance.http.close()

    def post(self, place: str, body: Any = None) -> None:
        answer = self.http.post(f"{self.base}/{place}", json=body, headers={"content-type": V2})
        assert answer.status_code == 204, answer.text
        assert answer.content == b""

    def get(self, place: str, body: Any = None) -> Any:
        answer = self.http.request("GET", f"{self.base}/{place}", json=body)
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"] == V2
        return answer.json()

    def subscribe(self, *topics: str) -> None:
        self.post("subscription", {"topics": topics})

    def assign(self, topic: str, *partitions: int) -> None:
        self.post("assignments", {"partitions": [{"topic": topic, "partition": each} for each in partitions]})

    def ask_records(self, **query: int) -> httpx.Response:
        return self.http.get(f"{self.base}/records", params=query, headers={"accept": self.records_type})

    def read(self, **query: int) -> list[Any]:
        """The records of one read."""
        answer = self.ask_records(**query)
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"] == self.records_type
        found: list[Any] = answer.json()
        return found

    def read_records(self, count: int, **query: int) -> list[Any]:
        """So many records, of as many reads as it takes."""
        found: list[Any] = []
        deadline = time.monotonic() + TIMEOUT_S
        while len(found) < count:
            assert time.monotonic() < deadline, f"{len(found)} of {count} records in {TIMEOUT_S} s"
            found += self.read(**query)
        return found

    def read_values(self, count: int, **query: int) -> list[Any]:
        """The values of so many records."""
        return [record["value"] for record in self.read_records(count, **query)]

    def partitions(self) -> list[int]:
        """The partitions that the instance has, of any topic."""
        return [each["partition"] for each in self.get("assignments")["partitions"]]

    def committed(self, topic: str, *partitions: int) -> dict[int, int]:
        body = {"partitions": [{"topic": topic, "partition": each} for each in partitions]}
        return {each["partition"]: each["offset"] for each in self.get("offsets", body)["offsets"]}

    def begin_read(self, **query: int) -> socket.socket:
        """Ask for records on a connection of its own, and do not wait for them."""
        url = urlsplit(self.base)
        asked = "&".join(f"{name}={value}" for name, value in query.items())
        connection = socket.create_connection((url.hostname or "", url.port or 80), TIMEOUT_S)
        head = f"GET {url.path}/records?{asked} HTTP/1.1\r\nHost: {url.netloc}\r\nAccept: {self.records_type}"
        connection.sendall(f"{head}\r\n\r\n".encode())
        return connection


def cut(connection: socket.socket) -> None:
    """Close a connection as a client that dies does."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
