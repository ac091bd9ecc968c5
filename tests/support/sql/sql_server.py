"""`ottla sql server` in a process of its own, and its REST API for tests."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from support.servers.services import ServiceProcess

TIMEOUT_S = 180.0
"""Spark starts cold in it, beside two other Sparks on two cores."""
QUICK = {"ottla.sql.session.timeout.ms": "3000", "ottla.sql.heartbeat.interval.ms": "300"}


@dataclass(slots=True)
class SqlServer:
    """A server of SQL that runs."""

    process: ServiceProcess

    @classmethod
    @contextmanager
    def start(
        cls,
        bootstrap: str,
        directory: Path,
        service_id: str,
        *,
        warm: bool = False,
        settings: Mapping[str, str] | None = None,
        port: int | None = None,
        scheme: str = "http",
    ) -> Iterator[SqlServer]:
        """A server for the length of the block; its state lies in `directory`, which others may share."""
        given = {
            "ksql.service.id": service_id,
            "ksql.streams.state.dir": str(directory / "state"),
            "ottla.sql.spark.warm": str(warm).lower(),
            **QUICK,
            **(settings or {}),
        }
        with ServiceProcess.start(
            "sql", bootstrap, directory, given, port=port, scheme=scheme, words=("sql", "server")
        ) as process:
            yield cls(process)

    @property
    def url(self) -> str:
        return self.process.url

    def ask(self, text: str, properties: Mapping[str, str] | None = None, **others: Any) -> httpx.Response:
        """The answer of /ksql."""
        body = {"ksql": text, "streamsProperties": dict(properties or {}), **others}
        return httpx.post(f"{self.url}/ksql", json=body, timeout=TIMEOUT_S)

    def run(self, text: str, properties: Mapping[str, str] | None = None, **others: Any) -> list[Any]:
        """The entities of statements that have to succeed."""
        answer = self.ask(text, properties, **others)
        assert answer.status_code == 200, answer.text
        found: list[Any] = answer.json()
        return found

    def refused(self, text: str) -> dict[str, Any]:
        """The error of statements that have to be refused."""
        answer = self.ask(text)
        assert answer.status_code == 400, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def rows(self, text: str, properties: Mapping[str, str] | None = None) -> list[list[Any]]:
        """The rows of a query that ends."""
        body = {"sql": text, "properties": dict(properties or {})}
        answer = httpx.post(f"{self.url}/query-stream", json=body, timeout=TIMEOUT_S)
        assert answer.status_code == 200, answer.text
        head, *rows = [json.loads(line) for line in answer.text.splitlines()]
        assert "columnNames" in head, head
        return rows

    def until(self, text: str, fits: Callable[[list[list[Any]]], bool], timeout_s: float = TIMEOUT_S) -> Any:
        """Ask a query until its rows fit; those rows."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                found: Any = self.rows(text)
                if fits(found):
                    return found
            except (AssertionError, httpx.HTTPError) as problem:
                found = problem
            assert time.monotonic() < deadline, (text, found, self.process.server.log_tail(40))
            time.sleep(0.1)

    def query(self, id: str) -> dict[str, Any] | None:
        """A query of SHOW QUERIES."""
        (shown,) = self.run("SHOW QUERIES;")
        return next((each for each in shown["queries"] if each["id"] == id), None)


class Push:
    """A push query that a thread listens to."""

    def __init__(self, server: SqlServer, text: str, properties: Mapping[str, str] | None = None) -> None:
        self.head: dict[str, Any] = {}
        self.rows: list[Any] = []
        self.ended = threading.Event()
        self._changed = threading.Condition()
        body = {"sql": text, "properties": dict(properties or {})}
        self._thread = threading.Thread(target=self._listen, args=(server, body), daemon=True)
        self._thread.start()
        self._until(lambda: bool(self.head) or self.ended.is_set())

    def _listen(self, server: SqlServer, body: Mapping[str, Any]) -> None:
        try:
            with httpx.stream(
                "POST", f"{server.url}/query-stream", json=body, timeout=httpx.Timeout(TIMEOUT_S, read=None)
            ) as answer:
                for line in answer.iter_lines():
                    found = json.loads(line)
                    with self._changed:
                        if isinstance(found, dict) and "queryId" in found:
                            self.head = found
                        else:
                            self.rows.append(found)
                        self._changed.notify_all()
        except httpx.HTTPError as problem:
            self.rows.append({"lost": str(problem)})
        finally:
            with self._changed:
                self.ended.set()
                self._changed.notify_all()

    def _until(self, fits: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(fits, TIMEOUT_S), (self.head, self.rows)

    def until(self, fits: Callable[[list[Any]], bool]) -> list[Any]:
        """Wait until the rows so far fit; those rows."""
        self._until(lambda: fits(self.rows))
        return list(self.rows)

    def until_ended(self) -> list[Any]:
        """Wait for the end; all rows."""
        assert self.ended.wait(TIMEOUT_S), self.rows
        return self.rows
