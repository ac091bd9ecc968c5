"""`ottla rest` as a service: its parts, started and stopped in order, and watched while they run."""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol

from starlette.types import ASGIApp

from ottla.client.access import ClusterAccess
from ottla.client.errors import ClientOptionError
from ottla.client.registry.async_client import RegistryClient
from ottla.client.registry.wire import RegistryAccess
from ottla.config.settings import Settings
from ottla.rest.admin.cluster_admin import ClusterAdmin
from ottla.rest.app import all_routes, rest_application
from ottla.rest.consumers.consumer_instances import ConsumerInstances
from ottla.rest.operations import Api
from ottla.rest.records.producing import Producing
from ottla.rest.settings import (
    BOOTSTRAP_SERVERS,
    CLIENT_PREFIX,
    HOST_NAME,
    MAX_BODY_BYTES,
    SCHEMA_REGISTRY_URL,
)
from ottla.rest.urls import Urls
from ottla.rest.v2 import consumers, produce
from ottla.rest.v3 import records
from ottla.web.errors import ServiceError
from ottla.web.front_settings import FrontOptions
from ottla.web.server import HttpAddress

log = logging.getLogger("ottla.rest")


class Part(Protocol):
    """A part that runs beside the routes: the producer, the consumer instances, administration."""

    async def start(self) -> None:
        """Become able to answer. Raises ServiceError."""

    def end_requests(self) -> None:
        """End requests that would go on for long, with right answers: the service is about to stop."""

    async def stop(self) -> None:
        """End all of it, also after a `start` that raised."""

    async def failed(self) -> str:
        """Wait until the part fails; the reason."""


class RestService:
    """The REST Proxy as one service of a process: `parts` that run, and `routes` that answer."""

    name: Final = "rest"

    def __init__(self, settings: Settings) -> None:
        """Raises ServiceError for a URL of the registry that can't be."""
        settings.warn_of_unknown(log)
        self.front = FrontOptions.of(settings, settings[HOST_NAME])
        access = ClusterAccess(settings[BOOTSTRAP_SERVERS], settings.with_prefix(CLIENT_PREFIX))
        self._schemas = RegistryClient(_registry(settings[SCHEMA_REGISTRY_URL]))
        self._urls = Urls(settings[HOST_NAME])
        admin = ClusterAdmin(settings, access)
        producing = Producing(settings, access, self._schemas)
        instances = ConsumerInstances(settings, access, self._schemas)
        self.parts: tuple[Part, ...] = (admin, producing, instances)
        self._started: list[Part] = []
        api = Api(admin, self._urls, settings[MAX_BODY_BYTES])
        others = [*produce.routes(producing), *records.routes(producing), *consumers.routes(instances)]
        self.routes = all_routes(api, others)
        self._app = rest_application(self.routes)

    @property
    def app(self) -> ASGIApp:
        """The application that answers requests."""
        return self._app

    async def start(self, address: HttpAddress) -> None:
        """Start all parts. The cluster need not be there yet. Raises ServiceError."""
        self._urls.port = address.port
        for part in self.parts:
            self._started.append(part)
            await part.start()

    async def failed(self) -> str:
        """Wait until one of the parts fails; its reason."""
        watched = [asyncio.ensure_future(part.failed()) for part in self.parts]
        try:
            done, _ = await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
            return f"ottla rest: {done.pop().result()}"
        finally:
            for task in watched:
                task.cancel()
            await asyncio.gather(*watched, return_exceptions=True)

    def end_requests(self) -> None:
        """See `Service`."""
        for part in self._started:
            part.end_requests()

    async def stop(self) -> None:
        """Stop the parts, all at once: none needs another, and each may have to wait for the cluster."""
        parts, self._started = self._started[::-1], []
        outcomes = await asyncio.gather(*(part.stop() for part in parts), return_exceptions=True)
        for part, outcome in zip(parts, outcomes, strict=True):
            if isinstance(outcome, Exception):
                log.error("%s did not stop cleanly", type(part).__name__, exc_info=outcome)
        await self._schemas.close()


def _registry(urls: str) -> RegistryAccess:
    """The registry, to be asked once a request: the client may come again. Raises ServiceError."""
    try:
        return RegistryAccess(urls, attempts=1)
    except ClientOptionError as problem:
        raise ServiceError(f"ottla rest: {SCHEMA_REGISTRY_URL.name}: {problem}") from None
