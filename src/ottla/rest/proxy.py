"""The proxy for one identity towards the cluster: the parts that act as it, and the routes over them."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from starlette.types import ASGIApp

from ottla.client.access import ClusterAccess
from ottla.client.registry.async_client import RegistryClient
from ottla.config.settings import Settings
from ottla.rest.admin.cluster_admin import ClusterAdmin
from ottla.rest.app import all_routes, rest_application
from ottla.rest.consumers.consumer_instances import ConsumerInstances
from ottla.rest.figures import RestFigures
from ottla.rest.operations import Api
from ottla.rest.records.producing import Producing
from ottla.rest.settings import BOOTSTRAP_SERVERS, CLIENT_PREFIX, MAX_BODY_BYTES
from ottla.rest.urls import Urls
from ottla.rest.v2 import consumers, produce
from ottla.rest.v3 import records

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


class Proxy:
    """`parts` that run, and `routes` that answer, all with the identity of the settings `client.*`."""

    def __init__(self, settings: Settings, schemas: RegistryClient, urls: Urls, figures: RestFigures) -> None:
        """Raises ServiceError for settings of clients that can't be."""
        access = ClusterAccess(settings[BOOTSTRAP_SERVERS], settings.with_prefix(CLIENT_PREFIX))
        admin = ClusterAdmin(settings, access)
        producing = self.producing = Producing(settings, access, schemas, figures)
        self.instances = ConsumerInstances(settings, access, schemas, figures=figures)
        self.parts: tuple[Part, ...] = (admin, producing, self.instances)
        self._started: list[Part] = []
        api = Api(admin, urls, settings[MAX_BODY_BYTES])
        others = [*produce.routes(producing), *records.routes(producing), *consumers.routes(self.instances)]
        self.routes = all_routes(api, others)
        self.app: ASGIApp = rest_application(self.routes)

    async def start(self) -> None:
        """Start all parts. The cluster need not be there yet. Raises ServiceError."""
        for part in self.parts:
            self._started.append(part)
            await part.start()

    async def failed(self) -> str:
        """Wait until one of the parts fails; its reason."""
        watched = [asyncio.ensure_future(part.failed()) for part in self.parts]
        try:
            done, _ = await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
            return done.pop().result()
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
