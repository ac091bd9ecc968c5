"""`ottla registry` as a service: its settings, its instance and its application, put together."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from ottla.client.access import ClusterAccess
from ottla.client.errors import ClientOptionError
from ottla.config.settings import Settings
from ottla.metrics.exposition import Family
from ottla.registry import settings as names
from ottla.registry.app import registry_application
from ottla.registry.instance import RegistryInstance
from ottla.registry.membership import Identity
from ottla.registry.observed import registry_checks, registry_families
from ottla.replicated.writer import require_known
from ottla.web.errors import ServiceError
from ottla.web.front_settings import FrontOptions
from ottla.web.request_figures import RequestFigures
from ottla.web.server import HttpAddress
from ottla.web.service_metrics import Observed

CLIENT_ID: Final = "ottla-registry"
log = logging.getLogger("ottla.registry")


class RegistryService:
    """Satisfies `Service`."""

    name = "registry"

    def __init__(self, settings: Settings) -> None:
        settings.warn_of_unknown(log)
        self._settings = settings
        self._front = FrontOptions.of(settings, settings[names.HOST_NAME])
        self._instance: RegistryInstance | None = None
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
            return registry_families(figures, self._instance)

        return Observed(families, registry_checks(lambda: self._instance))

    async def start(self, address: HttpAddress) -> None:
        """Ready when all schemas were read. Raises ServiceError."""
        try:
            identity = self._identity(address)
            checks_host = self._settings[names.INTER_INSTANCE_IDENTIFICATION] is not None
            peer_tls = self._front.peer_tls(address.tls_listener, checks_host=checks_host)
            self._instance = RegistryInstance(self._settings, self._access(), identity, peer_tls)
        except ClientOptionError as problem:
            raise ServiceError(f"ottla registry: the settings kafkastore.*: {problem}") from None
        self._application = registry_application(self._instance)
        await self._instance.start()

    def _identity(self, address: HttpAddress) -> Identity:
        host = address.host_for_peers(self._settings[names.HOST_NAME])
        former = self._settings[names.MASTER_ELIGIBILITY]
        eligible = self._settings[names.LEADER_ELIGIBILITY] if former is None else former
        wanted = self._settings[names.INTER_INSTANCE_PROTOCOL]
        if wanted is not None and wanted != address.scheme:
            name = names.INTER_INSTANCE_PROTOCOL.name
            raise ServiceError(f"ottla registry: {name}={wanted}, but the first listener is {address.url}")
        return Identity(host, self._settings[names.HOST_PORT] or address.port, eligible, address.scheme)

    def _access(self) -> ClusterAccess:
        """Raises ClientOptionError, also for a property that librdkafka does not know."""
        properties = self._settings.with_prefix(names.CLIENT_PREFIX)
        access = ClusterAccess(self._settings[names.BOOTSTRAP_SERVERS], properties, CLIENT_ID)
        require_known(access)
        return access

    async def failed(self) -> str:
        """See `Service`."""
        assert self._instance is not None
        return await self._instance.failed()

    def end_requests(self) -> None:
        """Nothing to do: no request waits for longer than kafkastore.timeout.ms by itself."""

    async def stop(self) -> None:
        """See `Service`."""
        if self._instance is not None:
            await self._instance.stop()
