"""A Connect worker's REST API in a thread: connectors in a table, with the answers that Kafka's own gives.

Statuses, bodies and messages were taken down from Kafka Connect 4.3.1 with its file connectors.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
REQUIRED = {SOURCE: ("topic",), SINK: ("topics",)}
DEFAULTS = {"tasks.max": "1", "batch.size": "2000"}
NAMES = {"FileStreamSource": SOURCE, "FileStreamSink": SINK}
LINES = {"connector.class": "FileStreamSource", "file": "/tmp/in", "topic": "lines"}
WORKER = "127.0.0.1:8083"

Reply = tuple[int, Any]


@dataclass(slots=True)
class FakeConnect:
    """The state of the API.

    before: replies given before any others, in their order, whatever is asked. instead: gives the reply to a
    request where it is another than usual.
    """

    url: str = ""
    connectors: dict[str, dict[str, str]] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    failed_tasks: dict[str, str] = field(default_factory=dict)
    offsets: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    logs: dict[str, list[str]] = field(default_factory=dict)
    asked: list[tuple[str, str, Any]] = field(default_factory=list)
    before: list[Reply] = field(default_factory=list)
    instead: Callable[[str, str, Any, Mapping[str, list[str]]], Reply | None] = lambda *_: None

    @classmethod
    @contextmanager
    def running(cls) -> Iterator[FakeConnect]:
        """The API at a free port for the length of the block."""
        fake = cls()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                split = urlsplit(self.path)
                status, reply = fake.reply(self.command, split.path, body, parse_qs(split.query))
                data = b"" if reply is None else json.dumps(reply).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        fake.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield fake
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    def put(self, *names: str) -> None:
        """Have running connectors of these names."""
        for name in names:
            self.connectors[name] = {**LINES, "name": name}
            self.states[name] = "RUNNING"

    def writes(self) -> list[tuple[str, str]]:
        """The requests so far that change something, with their paths."""
        return [
            (method, path)
            for method, path, _ in self.asked
            if method != "GET" and not path.endswith("/validate")
        ]

    def reply(self, method: str, path: str, body: Any, query: Mapping[str, list[str]]) -> Reply:
        self.asked.append((method, path, body))
        if self.before:
            return self.before.pop(0)
        if (other := self.instead(method, path, body, query)) is not None:
            return other
        parts = [unquote(part) for part in path.split("/") if part]
        match (method, *parts):
            case ("GET",):
                return 200, {"version": "4.3.1", "commit": "abc", "kafka_cluster_id": "xyz"}
            case ("GET", "health"):
                return 200, {"status": "healthy", "message": "Worker has completed startup"}
            case ("GET", "connector-plugins"):
                return 200, [
                    {"class": SINK, "type": "sink", "version": "4.3.1"},
                    {"class": SOURCE, "type": "source", "version": "4.3.1"},
                ]
            case ("PUT", "connector-plugins", name, "config", "validate"):
                return self._validated(name, body)
            case ("GET", "connectors"):
                return self._listed(query.get("expand", []))
            case ("POST", "connectors"):
                return self._created(body["name"], body["config"])
            case (_, "connectors", name, *rest):
                return self._of_connector(method, name, rest, body, query)
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def status(self, name: str) -> dict[str, Any]:
        state = self.states[name]
        tasks = []
        if state != "STOPPED":
            tasks = [{"id": 0, "state": state, "worker_id": WORKER, "version": "4.3.1"}]
            if name in self.failed_tasks:
                tasks[0] |= {"state": "FAILED", "trace": self.failed_tasks[name]}
        return {
            "name": name,
            "connector": {"state": state, "worker_id": WORKER, "version": "4.3.1"},
            "tasks": tasks,
            "type": self._type(name),
        }

    def info(self, name: str) -> dict[str, Any]:
        return {
            "name": name,
            "config": self.connectors[name],
            "tasks": [{"connector": name, "task": 0}],
            "type": self._type(name),
        }

    def _type(self, name: str) -> str:
        given = self.connectors[name]["connector.class"]
        return "source" if NAMES.get(given, given) == SOURCE else "sink"

    def _listed(self, expand: list[str]) -> Reply:
        if not expand:
            return 200, list(self.connectors)
        parts = {"status": self.status, "info": self.info}
        return 200, {name: {each: parts[each](name) for each in expand} for name in self.connectors}

    def _validated(self, plugin: str, config: dict[str, str]) -> Reply:
        name = NAMES.get(plugin, plugin)
        if name not in REQUIRED:
            return 500, {"error_code": 500, "message": f"Failed to find any class that implements {plugin}"}
        given = {**DEFAULTS, **config}
        configs = []
        for setting in ("name", "connector.class", "tasks.max", *REQUIRED[name]):
            errors = []
            if not given.get(setting):
                errors = [f'Missing required configuration "{setting}" which has no default value.']
            elif setting == "tasks.max" and not given[setting].isdecimal():
                errors = [
                    f"Invalid value {given[setting]} for configuration tasks.max: Not a number of type INT"
                ]
            configs.append(
                {
                    "definition": {"name": setting, "type": "STRING", "default_value": DEFAULTS.get(setting)},
                    "value": {"name": setting, "value": given.get(setting), "errors": errors},
                }
            )
        count = sum(len(each["value"]["errors"]) for each in configs)
        return 200, {"name": name, "error_count": count, "groups": ["Common"], "configs": configs}

    def _created(self, name: str, config: dict[str, str]) -> Reply:
        if name in self.connectors:
            return 409, {"error_code": 409, "message": f"Connector {name} already exists"}
        self.connectors[name] = {**config, "name": name}
        self.states[name] = "RUNNING"
        return 201, self.info(name)

    def _of_connector(
        self, method: str, name: str, rest: list[str], body: Any, query: Mapping[str, list[str]]
    ) -> Reply:
        known = name in self.connectors
        match (method, *rest):
            case ("PUT", "config"):
                if not known:
                    return self._created(name, body)
                self.connectors[name] = {**body, "name": name}
                return 200, self.info(name)
        if not known:
            message = "No status found for connector" if rest == ["status"] else "Unknown connector"
            return 404, {"error_code": 404, "message": f"{message} {name}"}
        match (method, *rest):
            case ("GET",):
                return 200, self.info(name)
            case ("DELETE",):
                del self.connectors[name]
                return 204, None
            case ("GET", "config"):
                return 200, self.connectors[name]
            case ("GET", "status"):
                return 200, self.status(name)
            case ("PUT", "pause" | "resume" | "stop" as word):
                self.states[name] = {"pause": "PAUSED", "resume": "RUNNING", "stop": "STOPPED"}[word]
                return (204 if word == "stop" else 202), None
            case ("POST", "restart"):
                if query.get("includeTasks") == ["true"]:
                    self.failed_tasks.pop(name, None)
                    return 202, self.status(name)
                return (202, self.status(name)) if query.get("onlyFailed") == ["true"] else (204, None)
            case ("GET", "offsets"):
                return 200, {"offsets": self.offsets.get(name, [])}
            case ("PATCH" | "DELETE", "offsets"):
                if self.states[name] != "STOPPED":
                    message = (
                        "Connectors must be in the STOPPED state before their offsets can be modified. This "
                        "can be done for the specified connector by issuing a 'PUT' request to the "
                        f"'/connectors/{name}/stop' endpoint"
                    )
                    return 400, {"error_code": 400, "message": message}
                self.offsets[name] = body["offsets"] if body else []
                word = "altered" if body else "reset"
                return 200, {"message": f"The offsets for this connector have been {word} successfully"}
            case ("GET", "logs"):
                after = int(query.get("after", ["0"])[0])
                lines = self.logs.get(name, [])
                return 200, {"lines": lines[after:], "next": str(len(lines))}
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}
