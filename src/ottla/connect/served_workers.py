"""Workers as their REST API has them: one of a group, which asks its leader, or one alone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

from starlette.requests import Request
from starlette.responses import Response

from ottla.client.access import ClusterAccess
from ottla.client.errors import ClientOptionError, ClusterError
from ottla.config.settings import Settings
from ottla.connect import settings as names
from ottla.connect.java.connect import JavaConnect
from ottla.connect.java.settings import java_options
from ottla.connect.observed import AnyWorker
from ottla.connect.offsets.checkpoint_offsets import CheckpointOffsets
from ottla.connect.offsets.sink_offsets import SinkOffsets
from ottla.connect.offsets.source_offsets import SourceOffsets
from ottla.connect.plugins.catalog import installed_plugins
from ottla.connect.rest.endpoints import MAX_BODY_BYTES, Endpoint, Worker
from ottla.connect.worker.building import Surroundings
from ottla.connect.worker.distributed import HEADERS, DistributedWorker
from ottla.connect.worker.herder import Herder, Offsets
from ottla.connect.worker.standalone import GivenConnector, StandaloneWorker
from ottla.replicated.errors import StateError
from ottla.replicated.forwarding import ClientGone, HttpRequest, NoPrimary, PrimaryUnreachable
from ottla.replicated.loss import TopicLost
from ottla.replicated.topic import OtherTopic
from ottla.replicated.writer import require_known
from ottla.web.bodies import read_body
from ottla.web.errors import ApiError, ServiceError
from ottla.web.front_settings import FrontOptions
from ottla.web.passing_on import passed_on, with_body
from ottla.web.server import HttpAddress

CLIENT_ID: Final = "ottla-connect"
LEADER_SECONDS: Final = 30.0
HEALTHY: Final = "Worker has completed startup and is ready to handle requests."
STARTING: Final = "Worker is still starting up."
UNHEALTHY: Final = "Worker was unable to handle this request and may be unable to handle other requests."
NO_LEADER: Final = (
    "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway."
)


class ServedWorker(Worker, Protocol):
    """A worker with its life; endpoints see it as `Worker`."""

    @property
    def worker(self) -> AnyWorker:
        """The worker itself."""

    @property
    def java(self) -> JavaConnect | None:
        """Its Java worker, None where it has no plugins of Java's."""

    async def start(self) -> None:
        """Return when it is ready. Raises ServiceError."""


class GroupWorker:
    """Satisfies ServedWorker: one of a Connect cluster. Its group is joined behind the start."""

    def __init__(
        self, settings: Settings, front: FrontOptions, address: HttpAddress, path: str = "/"
    ) -> None:
        """address, path: where it listens. Raises ServiceError, ConfigError."""
        host, port = _advertised(settings, address)
        shown = f"[{host}]" if ":" in host else host
        checks_host = settings[names.IDENTIFICATION] is not None
        try:
            access = _access(settings, f"{CLIENT_ID}-{port}")
            options = java_options(settings.texts())
            self.worker: DistributedWorker = DistributedWorker(
                settings,
                access,
                f"{address.scheme}://{shown}:{port}{path}",
                f"{shown}:{port}",
                surroundings(),
                front.peer_tls(address.tls_listener, checks_host=checks_host),
            )
        except ClientOptionError as problem:
            raise _refused(problem) from None
        self.java: JavaConnect | None = None
        if options is not None:
            self.java = JavaConnect(options, self.worker.parts.logs.add_of_java)

    async def start(self) -> None:
        """See ServedWorker."""
        try:
            await self.worker.start()
            if self.java is not None:
                await self.java.start()
        except (StateError, ClientOptionError, ClusterError) as problem:
            raise ServiceError(str(problem)) from None

    @property
    def herder(self) -> Herder:
        """See `Worker`."""
        return self.worker.parts.herder

    @property
    def kafka_cluster_id(self) -> str:
        """See `Worker`."""
        return self.worker.kafka_cluster_id

    def health(self) -> tuple[int, str, str]:
        """See `Worker`."""
        if not self.worker.is_ready:
            return 503, "starting", STARTING
        loss = self.worker.configs.topic.loss
        if loss is not None:
            return 500, "unhealthy", f"{UNHEALTHY} The topic of configurations {loss.value}."
        return 200, "healthy", HEALTHY

    async def on_leader(self, request: Request, endpoint: Endpoint) -> Response:
        """See `Worker`."""
        worker = self.worker
        await _known_leader(worker)
        if not worker.leadership.is_here:
            body = await read_body(request, MAX_BODY_BYTES)
            try:
                return await self._forwarded(worker, request, body)
            except NoPrimary:
                # The leader has died meanwhile, and this worker may have followed it.
                if not _leads(worker):
                    raise ApiError(409, 409, NO_LEADER) from None
                request = with_body(request, body)
        answer = await endpoint(request)
        answer.headers.update(HEADERS.answered(request.headers, worker.configs.topic.place))
        return answer

    async def _forwarded(self, worker: DistributedWorker, request: Request, body: bytes) -> Response:
        """The leader's answer. Raises NoPrimary, ApiError."""
        try:
            return await passed_on(request, body, HttpRequest, worker.forwarder.forward)
        except PrimaryUnreachable as problem:
            raise ApiError(500, 500, f"IO Error trying to forward REST request: {problem}") from None
        except ClientGone as problem:
            raise ApiError(400, 400, str(problem)) from None
        except (TopicLost, OtherTopic) as problem:
            raise ApiError(500, 500, f"The topic of configurations: {problem}") from None


class LoneWorker:
    """Satisfies ServedWorker: a worker alone, with the connectors of files."""

    def __init__(
        self, settings: Settings, connectors: Sequence[GivenConnector], address: HttpAddress
    ) -> None:
        """address: where it listens. Raises ServiceError."""
        try:
            access = _access(settings, CLIENT_ID)
        except ClientOptionError as problem:
            raise _refused(problem) from None
        self._connectors = connectors
        worker_id = f"{address.host}:{address.port}"
        self.worker: StandaloneWorker = StandaloneWorker(settings, access, worker_id, surroundings())
        self.java: JavaConnect | None = None

    async def start(self) -> None:
        """See ServedWorker: ready when all connectors of the files were taken."""
        await self.worker.start(self._connectors)

    @property
    def herder(self) -> Herder:
        """See `Worker`."""
        return self.worker.parts.herder

    @property
    def kafka_cluster_id(self) -> str:
        """See `Worker`."""
        return self.worker.kafka_cluster_id

    def health(self) -> tuple[int, str, str]:
        """See `Worker`."""
        return (200, "healthy", HEALTHY) if self.worker.is_ready else (503, "starting", STARTING)

    async def on_leader(self, request: Request, endpoint: Endpoint) -> Response:
        """See `Worker`: it is its own leader."""
        return await endpoint(request)


def surroundings() -> Surroundings:
    """The plugins of this installation, and the offsets of the clusters that connectors use."""
    sources = SourceOffsets()
    return Surroundings(installed_plugins(), Offsets(sources, SinkOffsets(), CheckpointOffsets(sources)))


def _access(settings: Settings, client_id: str) -> ClusterAccess:
    """Raises ClientOptionError, also for a property that librdkafka does not know."""
    properties = names.client_properties(settings)
    access = ClusterAccess(settings[names.BOOTSTRAP_SERVERS], properties, client_id)
    require_known(access)
    return access


def _refused(problem: ClientOptionError) -> ServiceError:
    return ServiceError(f"ottla connect: the settings of Kafka clients: {problem}")


def _advertised(settings: Settings, address: HttpAddress) -> tuple[str, int]:
    """The host and the port at which other workers reach this one. Raises ConfigError."""
    wanted = settings[names.ADVERTISED_LISTENER]
    if wanted is not None and wanted.lower() != address.scheme:
        name = names.ADVERTISED_LISTENER.name
        raise settings.refusal(name, f"but the first listener is {address.url}")
    host = address.host_for_peers(settings[names.ADVERTISED_HOST])
    return host, settings[names.ADVERTISED_PORT] or address.port


def _leads(worker: DistributedWorker) -> bool:
    """Whether the worker is the leader now. (The type checker takes an earlier answer for lasting.)"""
    return worker.leadership.is_here


async def _known_leader(worker: DistributedWorker) -> None:
    """Wait for the group to have a leader: a rebalance is over soon. Raises ApiError 409."""
    try:
        async with asyncio.timeout(LEADER_SECONDS):
            await worker.leadership.wait_until_known()
            while worker.leadership.url is None:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise ApiError(409, 409, NO_LEADER) from None
