"""Connect's REST API for commands: blocking calls to any worker, ottla's or Kafka's own. Needs no package."""

from __future__ import annotations

import http.client
import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

from ottla.client.errors import ClusterError
from ottla.client.registry.wire import shown
from ottla.client.rest_access import RestAccess, RestService

URL_VARIABLE: Final = "OTTLA_CONNECT_URL"
CONNECT: Final = RestService("Connect", "http://127.0.0.1:8083")
TIMEOUT_SECONDS: Final = 95.0
"""Connect gives up on a request of its own after 90 seconds."""
REBALANCE_SECONDS: Final = 30.0
REBALANCE_PAUSE_SECONDS: Final = 0.25
MAX_ANSWER_BYTES: Final = 64 << 20
_PART_BYTES: Final = 64 << 10
_REBALANCE: Final = ("rebalance", "stale configuration")


class ConnectRefusal(ClusterError):
    """A worker refuses a request. status: of HTTP; the message is the worker's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message, status)
        self.status = status


@dataclass(frozen=True, slots=True)
class FieldError:
    """A setting of a configuration that a worker does not take, and why."""

    setting: str
    problem: str


class ConnectApi:
    """Asks the workers. All methods raise ClusterError: ConnectRefusal for a refusal, else nobody answers."""

    def __init__(self, access: RestAccess) -> None:
        self._access = access
        self._context: ssl.SSLContext | None = None

    # -- what there is

    def server(self) -> Mapping[str, Any]:
        """The worker's version, commit and Kafka cluster."""
        return _object(self.ask("GET", ()))

    def connectors(self) -> dict[str, dict[str, Any]]:
        """All connectors with their `status` and `info`."""
        return _object(self.ask("GET", ("connectors",), query={"expand": ["status", "info"]}))

    def config(self, name: str) -> dict[str, str]:
        """A connector's configuration."""
        return _object(self.ask("GET", ("connectors", name, "config")))

    def status(self, name: str) -> dict[str, Any]:
        """A connector's state and that of its tasks."""
        return _object(self.ask("GET", ("connectors", name, "status")))

    def offsets(self, name: str) -> list[dict[str, Any]]:
        """A connector's offsets: of each of its partitions."""
        return list(_object(self.ask("GET", ("connectors", name, "offsets"))).get("offsets", []))

    def plugins(self, connectors_only: bool = True) -> list[dict[str, Any]]:
        """The plugins that workers have: class, type and version."""
        query = {"connectorsOnly": str(connectors_only).lower()}
        return list(self.ask("GET", ("connector-plugins",), query=query) or [])

    def plugin_config(self, plugin: str) -> list[dict[str, Any]]:
        """The settings of a plugin."""
        return list(self.ask("GET", ("connector-plugins", plugin, "config")) or [])

    def logs(self, name: str, query: Mapping[str, str]) -> dict[str, Any]:
        """Lines of a connector's log: `lines`, and `next`, by which later ones are asked for."""
        return _object(self.ask("GET", ("connectors", name, "logs"), query=query))

    # -- changes

    def validate(self, config: Mapping[str, str]) -> list[FieldError]:
        """The settings of a configuration that the workers would not take, in their order."""
        path = ("connector-plugins", config.get("connector.class", ""), "config", "validate")
        found = _object(self.ask("PUT", path, dict(config)))
        return list(_field_errors(found.get("configs", [])))

    def create(self, name: str, config: Mapping[str, str], initial_state: str | None = None) -> None:
        """Create a connector, in a state if one is named."""
        body: dict[str, Any] = {"name": name, "config": dict(config)}
        if initial_state is not None:
            body["initial_state"] = initial_state
        self.ask("POST", ("connectors",), body)

    def put(self, name: str, config: Mapping[str, str]) -> None:
        """Replace a connector's configuration."""
        self.ask("PUT", ("connectors", name, "config"), dict(config))

    def delete(self, name: str) -> None:
        """Delete a connector; its topics and offsets stay."""
        self.ask("DELETE", ("connectors", name))

    def pause(self, name: str) -> None:
        """Have a connector's tasks wait."""
        self.ask("PUT", ("connectors", name, "pause"))

    def resume(self, name: str) -> None:
        """Have a paused or stopped connector go on."""
        self.ask("PUT", ("connectors", name, "resume"))

    def stop(self, name: str) -> None:
        """End a connector's tasks, and keep its configuration and offsets."""
        self.ask("PUT", ("connectors", name, "stop"))

    def restart(self, name: str, include_tasks: bool, only_failed: bool) -> None:
        """Start a connector anew, and its tasks if they are included."""
        query = {"includeTasks": str(include_tasks).lower(), "onlyFailed": str(only_failed).lower()}
        self.ask("POST", ("connectors", name, "restart"), query=query)

    def restart_task(self, name: str, task: int) -> None:
        """Start a task anew."""
        self.ask("POST", ("connectors", name, "tasks", str(task), "restart"))

    def alter_offsets(self, name: str, offsets: Sequence[Mapping[str, Any]]) -> str:
        """Change offsets of a stopped connector; the worker's message."""
        answer = _object(self.ask("PATCH", ("connectors", name, "offsets"), {"offsets": list(offsets)}))
        return str(answer.get("message", ""))

    def reset_offsets(self, name: str) -> str:
        """Forget all offsets of a stopped connector; the worker's message."""
        return str(_object(self.ask("DELETE", ("connectors", name, "offsets"))).get("message", ""))

    def signal(self, name: str, signal: Mapping[str, Any]) -> Mapping[str, Any]:
        """Give a connector of a database's changes a signal (ottla's workers alone): where it was written."""
        return _object(self.ask("POST", ("connectors", name, "signals"), dict(signal)))

    # -- how they are asked

    def ask(
        self, method: str, path: Sequence[str], body: Any = None, query: Mapping[str, Any] | None = None
    ) -> Any:
        """The JSON of an answer, None for one without content. A rebalance is waited for."""
        target = "/" + "/".join(quote(part, safe="") for part in path)
        if query:
            target += "?" + urlencode(query, doseq=True)
        data = None if body is None else json.dumps(body).encode()
        deadline = time.monotonic() + REBALANCE_SECONDS
        while True:
            status, answer = self._answer(method, target, data)
            if status < 300:
                return answer
            told = answer if isinstance(answer, dict) else {}
            message = str(told.get("message") or f"{self._access.shown} answers {status} to {target}")
            rebalancing = status == 409 and any(each in message for each in _REBALANCE)
            if not rebalancing or time.monotonic() > deadline:
                raise ConnectRefusal(status, message)
            time.sleep(REBALANCE_PAUSE_SECONDS)

    def _answer(self, method: str, target: str, data: bytes | None) -> tuple[int, Any]:
        """The status and the JSON of the first worker that takes the request."""
        problems = []
        for url in self._access.urls:
            try:
                return self._asked(url, method, target, data)
            except urllib.error.URLError as problem:
                reason = problem.reason
                problems.append(f"{shown(url)}: {reason}")
                if not isinstance(reason, ConnectionRefusedError) and method != "GET":
                    break  # it may have been carried out
            except (OSError, http.client.HTTPException) as problem:
                problems.append(f"{shown(url)}: {str(problem) or type(problem).__name__}")
                if method != "GET":
                    break
        raise ClusterError(f"Connect does not answer at {'; '.join(problems)}")

    def _asked(self, url: str, method: str, target: str, data: bytes | None) -> tuple[int, Any]:
        parts = urlsplit(url)
        authorization = self._access.authorization_for(url)
        host = parts.netloc.rpartition("@")[2]
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if authorization is not None:
            headers["Authorization"] = authorization
        plain = urlunsplit((parts.scheme, host, parts.path, "", ""))
        asked = urllib.request.Request(plain + target, data=data, headers=headers, method=method)
        try:
            with self._opener(url).open(asked, timeout=TIMEOUT_SECONDS) as answer:
                return answer.status, _json(_bounded(answer), plain)
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code, _json_or_none(_bounded(refusal))

    def _opener(self, url: str) -> urllib.request.OpenerDirector:
        handlers: list[urllib.request.BaseHandler] = [_NoRedirects()]
        if url.startswith("https:"):
            if self._context is None:
                from ottla.client.tls_context import tls_context

                self._context = tls_context(self._access.tls)
            handlers.append(urllib.request.HTTPSHandler(context=self._context))
        return urllib.request.build_opener(*handlers)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Credentials are for the address that the user named, and for no other."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _bounded(source: Any) -> bytes:
    data = bytearray()
    while part := source.read(_PART_BYTES):
        data += part
        if len(data) > MAX_ANSWER_BYTES:
            raise ClusterError(f"an answer of Connect has more than {MAX_ANSWER_BYTES} bytes")
    return bytes(data)


def _json(data: bytes, url: str) -> Any:
    if not data:
        return None
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise ClusterError(f"{url} is no Connect worker: its answer is not JSON") from None


def _json_or_none(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _object(answer: Any) -> dict[str, Any]:
    if not isinstance(answer, dict):
        raise ClusterError("the answer is not one of a Connect worker: it is no JSON object")
    return answer


def _field_errors(configs: Any) -> Iterator[FieldError]:
    for each in configs if isinstance(configs, list) else ():
        value = each.get("value") or {}
        for problem in value.get("errors") or ():
            yield FieldError(str(value.get("name")), str(problem))
