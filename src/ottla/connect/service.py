"""`ottla connect` as a service: its settings, its worker and its application, put together."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ottla.client.access import ClusterAccess
from ottla.client.errors import ClientOptionError, ClusterError
from ottla.config.settings import Settings
from ottla.connect import settings as names
from ottla.connect.java.connect import JavaConnect
from ottla.connect.java.settings import java_options
from ottla.connect.observed import connect_checks, connect_families
from ottla.connect.offsets.checkpoint_offsets import CheckpointOffsets
from ottla.connect.offsets.sink_offsets import SinkOffsets
from ottla.connect.offsets.source_offsets import SourceOffsets
from ottla.connect.plugins.catalog import installed_plugins
from ottla.connect.rest.app import connect_application
from ottla.connect.rest.connectors import is_signed
from ottla.connect.rest.endpoints import MAX_BODY_BYTES, Endpoint
from ottla.connect.worker.building import Surroundings
from ottla.connect.worker.distributed import HEADERS, DistributedWorker
from ottla.connect.worker.herder import Herder, Offsets
from ottla.connect.worker.standalone import StandaloneWorker
from ottla.metrics.exposition import Family
from ottla.replicated.errors import StateError
from ottla.replicated.forwarding import ClientGone, HttpRequest, NoPrimary, PrimaryUnreachable
from ottla.replicated.loss import TopicLost
from ottla.replicated.topic import OtherTopic
from ottla.replicated.writer import require_known
from ottla.tracing.trace_context import request_headers
from ottla.web.bodies import hung_up, read_body
from ottla.web.errors import ApiError, ServiceError
from ottla.web.front_settings import FrontOptions
from ottla.web.request_figures import RequestFigures
from ottla.web.server import HttpAddress
from ottla.web.service_metrics import Observed

CLIENT_ID: Final = "ottla-connect"
HEALTHY: Final = "Worker has completed startup and is ready to handle requests."
STARTING: Final = "Worker is still starting up."
UNHEALTHY: Final = "Worker was unable to handle this request and may be unable to handle other requests."
NO_LEADER: Final = (
    "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway."
)
_ANYWHERE: Final = frozenset({"", "0.0.0.0", "::"})
log = logging.getLogger("ottla.connect")


def surroundings() -> Surroundings:
    """The plugins of this installation, and the offsets of the clusters that connectors use."""
    return Surroundings(installed_plugins(), Offsets(SourceOffsets(), SinkOffsets(), CheckpointOffsets()))


class ConnectService:
    """Satisfies `Service`, and `Worker` of the REST API: one distributed worker."""

    name = "connect"

    def __init__(self, settings: Settings, around: Surroundings | None = None) -> None:
        """Raises ConfigError."""
        settings.warn_of_unknown(log)
        self._settings = settings
        self._around = around
        front = FrontOptions.of(settings, settings[names.ADVERTISED_HOST])
        self._front = replace(front, is_signed=is_signed)
        self._worker: DistributedWorker | None = None
        self._java: JavaConnect | None = None
        self._application: ASGIApp | None = None

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers once started."""
        assert self._application is not None
        await self._application(scope, receive, send)

    @property
    def front(self) -> FrontOptions:
        """See `Service`."""
        return self._front

    def observed(self, figures: RequestFigures) -> Observed:
        """See `Service`."""

        def families() -> Iterable[Family]:
            return connect_families(figures, self._worker)

        return Observed(families, connect_checks(lambda: self._worker))

    # -- life -----------------------------------------------------------------------------------------

    async def start(self, address: HttpAddress) -> None:
        """Ready when all configurations were read; the group is joined behind that. Raises ServiceError."""
        host, port = self._advertised(address)
        shown = f"[{host}]" if ":" in host else host
        try:
            access = self._access(port)
            self._worker = DistributedWorker(
                self._settings,
                access,
                f"{address.scheme}://{shown}:{port}/",
                f"{shown}:{port}",
                self._around or surroundings(),
                self._peer_tls(address),
            )
            options = java_options(self._settings.texts())
        except ClientOptionError as problem:
            raise ServiceError(f"ottla connect: the settings of Kafka clients: {problem}") from None
        if options is not None:
            self._java = JavaConnect(options, self._worker.parts.logs.add_of_java)
        self._application = connect_application(self, self._java)
        try:
            await self._worker.start()
            if self._java is not None:
                await self._java.start()
        except (StateError, ClientOptionError, ClusterError) as problem:
            raise ServiceError(str(problem)) from None

    def _advertised(self, address: HttpAddress) -> tuple[str, int]:
        host = self._settings[names.ADVERTISED_HOST] or address.host
        if host in _ANYWHERE:
            host = socket.gethostname()
        wanted = self._settings[names.ADVERTISED_LISTENER]
        if wanted is not None and wanted.lower() != address.scheme:
            name = names.ADVERTISED_LISTENER.name
            raise self._settings.refusal(name, f"but the first listener is {address.url}")
        return host, self._settings[names.ADVERTISED_PORT] or address.port

    def _access(self, port: int) -> ClusterAccess:
        properties = names.client_properties(self._settings)
        access = ClusterAccess(self._settings[names.BOOTSTRAP_SERVERS], properties, f"{CLIENT_ID}-{port}")
        require_known(access)
        return access

    def _peer_tls(self, address: HttpAddress) -> Callable[[], ssl.SSLContext] | None:
        """The TLS of connections to other workers, None where they speak http."""
        listener = address.tls_listener
        if listener is None:
            return None
        assert self._front.security is not None
        checks_host = self._settings[names.IDENTIFICATION] is not None
        watched = self._front.security.peer_context(listener, checks_host=checks_host)
        return lambda: watched.value

    async def failed(self) -> str:
        """See `Service`."""
        assert self._worker is not None
        return f"ottla connect: {await self._worker.failed()}"

    def end_requests(self) -> None:
        """Nothing to do: no request waits for long by itself."""

    async def stop(self) -> None:
        """See `Service`."""
        if self._java is not None:
            await self._java.close()
        if self._worker is not None:
            await self._worker.stop()

    # -- the worker as endpoints see it ---------------------------------------------------------------

    @property
    def herder(self) -> Herder:
        """See `Worker`."""
        assert self._worker is not None
        return self._worker.parts.herder

    @property
    def kafka_cluster_id(self) -> str:
        """See `Worker`."""
        return "" if self._worker is None else self._worker.kafka_cluster_id

    def health(self) -> tuple[int, str, str]:
        """See `Worker`."""
        if self._worker is None or not self._worker.is_ready:
            return 503, "starting", STARTING
        loss = self._worker.configs.topic.loss
        if loss is not None:
            return 500, "unhealthy", f"{UNHEALTHY} The topic of configurations {loss.value}."
        return 200, "healthy", HEALTHY

    async def on_leader(self, request: Request, endpoint: Endpoint) -> Response:
        """See `Worker`."""
        worker = self._worker
        assert worker is not None
        await _known_leader(worker)
        if not worker.leadership.is_here:
            body = await read_body(request, MAX_BODY_BYTES)
            try:
                return await self._forwarded(worker, request, body)
            except NoPrimary:
                # The leader has died meanwhile, and this worker may have followed it.
                if not _leads(worker):
                    raise ApiError(409, 409, NO_LEADER) from None
                request = _again(request, body)
        answer = await endpoint(request)
        answer.headers.update(HEADERS.answered(request.headers, worker.configs.topic.place))
        return answer

    async def _forwarded(self, worker: DistributedWorker, request: Request, body: bytes) -> Response:
        """The leader's answer. Raises NoPrimary, ApiError."""
        path: bytes = request.scope.get("raw_path") or request.url.path.encode()
        query: bytes = request.scope["query_string"]
        whole = HttpRequest(
            request.method,
            path + (b"?" + query if query else b""),
            {**request.headers, **request_headers()},
            body,
        )
        try:
            answer = await worker.forwarder.forward(whole, partial(hung_up, request))
        except PrimaryUnreachable as problem:
            raise ApiError(500, 500, f"IO Error trying to forward REST request: {problem}") from None
        except ClientGone as problem:
            raise ApiError(400, 400, str(problem)) from None
        except (TopicLost, OtherTopic) as problem:
            raise ApiError(500, 500, f"The topic of configurations: {problem}") from None
        return Response(answer.body, answer.status, dict(answer.headers))


LEADER_SECONDS: Final = 30.0


def _leads(worker: DistributedWorker) -> bool:
    """Whether the worker is the leader now. (The type checker takes an earlier answer for lasting.)"""
    return worker.leadership.is_here


def _again(request: Request, body: bytes) -> Request:
    """The same request, whose body was read."""
    given: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        return given.pop() if given else await request.receive()

    return Request(request.scope, receive)


async def _known_leader(worker: DistributedWorker) -> None:
    """Wait for the group to have a leader: a rebalance is over soon. Raises ApiError 409."""
    try:
        async with asyncio.timeout(LEADER_SECONDS):
            await worker.leadership.wait_until_known()
            while worker.leadership.url is None:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise ApiError(409, 409, NO_LEADER) from None


class StandaloneService:
    """Satisfies `Service`, and `Worker` of the REST API: a worker alone, with connectors of files."""

    name = "connect"

    def __init__(
        self,
        settings: Settings,
        connectors: Sequence[Mapping[str, str]],
        around: Surroundings | None = None,
    ) -> None:
        """connectors: their configurations. Raises ConfigError."""
        settings.warn_of_unknown(log)
        names.require_offset_file(settings)
        self._settings = settings
        self._connectors = connectors
        self._around = around
        self._front = FrontOptions.of(settings, settings[names.ADVERTISED_HOST])
        self._worker: StandaloneWorker | None = None
        self._application: ASGIApp | None = None

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers once started."""
        assert self._application is not None
        await self._application(scope, receive, send)

    @property
    def front(self) -> FrontOptions:
        """See `Service`."""
        return self._front

    def observed(self, figures: RequestFigures) -> Observed:
        """See `Service`."""

        def families() -> Iterable[Family]:
            return connect_families(figures, self._worker)

        return Observed(families, connect_checks(lambda: self._worker))

    async def start(self, address: HttpAddress) -> None:
        """Ready when all connectors of the files were taken. Raises ServiceError."""
        properties = names.client_properties(self._settings)
        access = ClusterAccess(self._settings[names.BOOTSTRAP_SERVERS], properties, CLIENT_ID)
        worker_id = f"{address.host}:{address.port}"
        try:
            require_known(access)
        except ClientOptionError as problem:
            raise ServiceError(f"ottla connect: the settings of Kafka clients: {problem}") from None
        self._worker = StandaloneWorker(self._settings, access, worker_id, self._around or surroundings())
        self._application = connect_application(self)
        await self._worker.start(self._connectors)

    async def failed(self) -> str:
        """See `Service`."""
        assert self._worker is not None
        return f"ottla connect: {await self._worker.failed()}"

    def end_requests(self) -> None:
        """Nothing to do: no request waits for long by itself."""

    async def stop(self) -> None:
        """See `Service`."""
        if self._worker is not None:
            await self._worker.stop()

    @property
    def herder(self) -> Herder:
        """See `Worker`."""
        assert self._worker is not None
        return self._worker.parts.herder

    @property
    def kafka_cluster_id(self) -> str:
        """See `Worker`."""
        return "" if self._worker is None else self._worker.kafka_cluster_id

    def health(self) -> tuple[int, str, str]:
        """See `Worker`."""
        is_ready = self._worker is not None and self._worker.is_ready
        return (200, "healthy", HEALTHY) if is_ready else (503, "starting", STARTING)

    async def on_leader(self, request: Request, endpoint: Endpoint) -> Response:
        """See `Worker`."""
        return await endpoint(request)
