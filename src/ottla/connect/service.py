"""`ottla connect` as a service: its settings, its worker and its application, put together."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from starlette.types import ASGIApp, Receive, Scope, Send

from ottla.config.settings import Settings
from ottla.connect import settings as names
from ottla.connect.observed import AnyWorker, connect_checks, connect_families
from ottla.connect.rest.app import connect_application
from ottla.connect.rest.connectors import is_signed
from ottla.connect.served_workers import GroupWorker, LoneWorker, ServedWorker
from ottla.connect.worker.standalone import GivenConnector
from ottla.metrics.exposition import Family
from ottla.web.front_settings import FrontOptions
from ottla.web.request_figures import RequestFigures
from ottla.web.server import HttpAddress
from ottla.web.service_metrics import Observed

log = logging.getLogger("ottla.connect")


class ConnectService:
    """Satisfies `Service`: one worker, which is made when it is known where the service listens."""

    name = "connect"

    def __init__(self, front: FrontOptions, make: Callable[[HttpAddress], ServedWorker]) -> None:
        """make: the worker. Raises ServiceError, ConfigError."""
        self.front = front
        self._make = make
        self._served: ServedWorker | None = None
        self._application: ASGIApp | None = None

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers once started."""
        assert self._application is not None
        await self._application(scope, receive, send)

    def observed(self, figures: RequestFigures) -> Observed:
        """See `Service`."""

        def worker() -> AnyWorker | None:
            return None if self._served is None else self._served.worker

        def families() -> Iterable[Family]:
            return connect_families(figures, worker())

        return Observed(families, connect_checks(worker))

    async def start(self, address: HttpAddress) -> None:
        """Ready when the worker is. Raises ServiceError, ConfigError."""
        self._served = self._make(address)
        self._application = connect_application(self._served, self._served.java)
        await self._served.start()

    async def failed(self) -> str:
        """See `Service`."""
        assert self._served is not None
        return f"ottla connect: {await self._served.worker.failed()}"

    def end_requests(self) -> None:
        """Nothing to do: no request waits for long by itself."""

    async def stop(self) -> None:
        """See `Service`."""
        if self._served is None:
            return
        if self._served.java is not None:
            await self._served.java.close()
        await self._served.worker.stop()


def connect_service(settings: Settings) -> ConnectService:
    """The service of a worker of a group. Raises ConfigError."""
    settings.warn_of_unknown(log)
    front = replace(FrontOptions.of(settings, settings[names.ADVERTISED_HOST]), is_signed=is_signed)
    return ConnectService(front, partial(GroupWorker, settings, front))


def standalone_service(settings: Settings, connectors: Sequence[GivenConnector]) -> ConnectService:
    """The service of a worker alone, with these connectors. Raises ConfigError."""
    settings.warn_of_unknown(log)
    names.require_offset_file(settings)
    front = FrontOptions.of(settings, settings[names.ADVERTISED_HOST])
    return ConnectService(front, partial(LoneWorker, settings, connectors))
