"""The HTTP API, in the shape of Burrow's version 3.

    GET /burrow/admin, /burrow/admin/ready          GOOD; READY, or 503 before the first round
    GET /v3/kafka                                   the clusters: one
    GET /v3/kafka/CLUSTER                           how it is watched
    GET /v3/kafka/CLUSTER/topic[/TOPIC[/consumers]] topics, their ends, the groups that read them
    GET /v3/kafka/CLUSTER/consumer[/GROUP]          groups, the windows of one
    GET …/consumer/GROUP/status, /lag               the verdict; with all partitions by /lag
    DELETE …/consumer/GROUP                         forget the group's commits, until the next round
    GET /metrics                                    the metrics, for Prometheus

Paths are taken apart before names are unescaped: the names of groups may have slashes. Callers see the groups
that their rules name (`ottla.access.rules`), and topics if they may read everything.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol
from urllib.parse import unquote

from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from ottla.lag.core.tracker import GroupVerdict, Tracker
from ottla.lag.sampler import Snapshot
from ottla.lag.wire import commit_body, group_body
from ottla.metrics.exposition import TEXT, Exposition
from ottla.web.access_rules import Action
from ottla.web.application import json_answer
from ottla.web.callers import denied, grants_of
from ottla.web.errors import ApiError
from ottla.web.request_figures import note_route

MAX_PATH_BYTES: Final = 16 << 10
_CLUSTER: Final = "/v3/kafka/{cluster}"
TEMPLATES: Final = tuple(
    (template, tuple(template.split("/")[1:]))
    for template in (
        "/burrow/admin",
        "/burrow/admin/ready",
        "/metrics",
        "/v3/kafka",
        _CLUSTER,
        f"{_CLUSTER}/topic",
        f"{_CLUSTER}/topic/{{topic}}",
        f"{_CLUSTER}/topic/{{topic}}/consumers",
        f"{_CLUSTER}/consumer",
        f"{_CLUSTER}/consumer/{{consumer}}",
        f"{_CLUSTER}/consumer/{{consumer}}/status",
        f"{_CLUSTER}/consumer/{{consumer}}/lag",
    )
)
"""The templates of the routes, by which requests are counted, with their segments."""
MODULE: Final = "cluster module detail returned"


class Watched(Protocol):
    """The cluster, as the API sees it. name: in paths. described: how it is watched, in JSON."""

    @property
    def name(self) -> str: ...

    @property
    def described(self) -> Mapping[str, Any]: ...

    @property
    def tracker(self) -> Tracker: ...

    @property
    def snapshot(self) -> Snapshot | None: ...

    @property
    def exposition(self) -> Exposition: ...


class HttpApi:
    """Answers requests about one cluster."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self._host = socket.gethostname()
        self._scrape = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            return
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        path = raw[:MAX_PATH_BYTES].decode("latin-1")
        try:
            answer = await self._answer(scope, raw)
        except ApiError as problem:
            answer = self._error(path, problem.status, problem.message)
        await answer(scope, receive, send)

    async def _answer(self, scope: Scope, raw: bytes) -> Response:
        if len(raw) > MAX_PATH_BYTES:
            raise ApiError(414, 414, "the path is too long")
        path = raw.decode("latin-1")
        segments = tuple(unquote(one) for one in path.rstrip("/").split("/")[1:])
        template = _template_of(segments)
        if template is not None:
            note_route(scope, template)
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        match (method, *segments):
            case ("GET", "burrow", "admin"):
                return PlainTextResponse("GOOD")
            case ("GET", "burrow", "admin", "ready"):
                ready = self._watched.snapshot is not None
                return PlainTextResponse("READY" if ready else "STARTING", 200 if ready else 503)
            case ("GET", "metrics"):
                _require_all(scope)
                return await self._metrics()
            case ("GET", "v3", "kafka"):
                return self._told(path, "cluster list returned", clusters=[self._watched.name])
            case ("GET" | "DELETE", "v3", "kafka", cluster, *rest) if cluster == self._watched.name:
                return self._of_cluster(scope, path, method, rest)
            case ("GET" | "DELETE", "v3", "kafka", _, *_):
                raise ApiError(404, 404, "cluster not found")
            case ("GET", *_):
                raise ApiError(404, 404, "invalid request type")
        raise ApiError(405, 405, "method not allowed")

    def _of_cluster(self, scope: Scope, path: str, method: str, rest: Sequence[str]) -> Response:
        match (method, *rest):
            case ("GET",):
                return self._told(path, MODULE, module=self._watched.described)
            case ("GET", "topic", *of_topic):
                _require_all(scope)
                return self._topics(path, of_topic)
            case ("GET", "consumer"):
                grants = grants_of(scope)
                groups = [one for one in self._verdicts() if grants.allow(Action.READ, one)]
                return self._told(path, "consumer list returned", consumers=groups)
            case ("GET", "consumer", group):
                _require_group(scope, Action.READ, group)
                return self._windows(path, group)
            case ("GET", "consumer", group, "status" | "lag" as view):
                _require_group(scope, Action.READ, group)
                verdict = self._verdicts().get(group)
                body = group_body(self._watched.name, group, verdict, everything=view == "lag")
                status = 404 if verdict is None else 200
                return self._told(path, "consumer status returned", status_code=status, status=body)
            case ("DELETE", "consumer", group):
                _require_group(scope, Action.ADMIN, group)
                self._watched.tracker.forget_group(group)
                return self._told(path, "consumer group removed")
        raise ApiError(404, 404, "invalid request type")

    def _topics(self, path: str, of_topic: Sequence[str]) -> Response:
        tracker = self._watched.tracker
        match of_topic:
            case []:
                topics = sorted({one.topic for one in tracker.partitions})
                return self._told(path, "topic list returned", topics=topics)
            case [topic]:
                ends = tracker.ends(topic)
                if ends is None:
                    raise ApiError(404, 404, "cluster or topic not found")
                return self._told(path, "topic offsets returned", offsets=ends)
            case [topic, "consumers"]:
                groups = [
                    group
                    for group, verdict in self._verdicts().items()
                    if any(one.partition.topic == topic for one in verdict.partitions)
                ]
                return self._told(path, "consumers of topic returned", consumers=groups)
        raise ApiError(404, 404, "invalid request type")

    def _windows(self, path: str, group: str) -> Response:
        """The windows of a group: by topic, a list in the order of the partitions."""
        verdict = self._verdicts().get(group)
        if verdict is None:
            raise ApiError(404, 404, "cluster or consumer not found")
        tracker = self._watched.tracker
        topics: dict[str, list[dict[str, Any]]] = {}
        for one in verdict.partitions:
            listed = topics.setdefault(one.partition.topic, [])
            # a partition's place in the list is its number
            listed += [_partition([], "", "", 0)] * (one.partition.partition - len(listed))
            window = tracker.window(group, one.partition)
            commits = [commit_body(commit) for commit in window]
            unfilled = [None] * (tracker.rules.intervals - len(commits)) if commits else []
            listed.append(_partition([*unfilled, *commits], one.owner, one.client_id, one.lag))
        return self._told(path, "consumer detail returned", topics=topics)

    async def _metrics(self) -> Response:
        async with self._scrape:
            pieces = []
            for piece in self._watched.exposition.slices():
                pieces.append(piece)
                await asyncio.sleep(0)
        return Response(b"".join(pieces), media_type=TEXT)

    def _verdicts(self) -> Mapping[str, GroupVerdict]:
        snapshot = self._watched.snapshot
        return {} if snapshot is None else snapshot.verdicts

    def _told(self, path: str, message: str, *, status_code: int = 200, **content: Any) -> Response:
        request = {"url": path, "host": self._host}
        return json_answer({"error": False, "message": message, **content, "request": request}, status_code)

    def _error(self, path: str, status_code: int, message: str) -> Response:
        request = {"url": path, "host": self._host}
        return json_answer({"error": True, "message": message, "request": request}, status_code)


def _template_of(segments: Sequence[str]) -> str | None:
    for template, names in TEMPLATES:
        if len(names) == len(segments) and all(
            name.startswith("{") or name == segment for name, segment in zip(names, segments, strict=True)
        ):
            return template
    return None


def _partition(offsets: Sequence[Any], owner: str, client_id: str, lag: int) -> dict[str, Any]:
    return {
        "offsets": offsets,
        "owner": owner,
        "client_id": client_id,
        "current-lag": lag,
    }


def _require_group(scope: Scope, action: Action, group: str) -> None:
    """Raises ApiError for a caller who may not do this to the group."""
    if not grants_of(scope).allow(action, group):
        raise denied(scope, action, f"group {group}")


def _require_all(scope: Scope) -> None:
    """Raises ApiError for a caller who may not read everything."""
    if not grants_of(scope).allow_all(Action.READ):
        raise denied(scope, Action.READ, "everything")
