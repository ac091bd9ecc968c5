"""`ottla rest` as a service: its parts, started and stopped in order, and watched while they run."""

from __future__ import annotations

import logging
from typing import Final

from starlette.types import Receive, Scope, Send

from ottla.client.errors import ClientOptionError
from ottla.client.registry.async_client import RegistryClient
from ottla.client.registry.wire import RegistryAccess
from ottla.config.settings import Settings
from ottla.rest.caller_proxies import CallerProxies, caller_proxies
from ottla.rest.figures import RestFigures
from ottla.rest.observed import RestParts, rest_checks, rest_families
from ottla.rest.operations import JSON
from ottla.rest.proxy import Proxy
from ottla.rest.settings import (
    HOST_NAME,
    PROPAGATE_METHOD,
    SCHEMA_REGISTRY_KEYSTORE,
    SCHEMA_REGISTRY_TOKEN,
    SCHEMA_REGISTRY_TRUSTSTORE,
    SCHEMA_REGISTRY_URL,
    SCHEMA_REGISTRY_USER_INFO,
    PropagateMethod,
)
from ottla.rest.urls import Urls
from ottla.web.application import error_answer
from ottla.web.authentication import Unauthenticated
from ottla.web.callers import caller_of
from ottla.web.errors import ApiError, ServiceError
from ottla.web.front_settings import FrontOptions
from ottla.web.request_figures import RequestFigures
from ottla.web.server import HttpAddress
from ottla.web.service_metrics import Observed

_NO_KEYS: Final = (
    "the private key of a caller is not known, so its certificate can't be shown to the brokers: "
    "use JETTY_AUTH, or let ottla.access.rules decide"
)
log = logging.getLogger("ottla.rest")


class RestService:
    """The REST Proxy as one service of a process; one proxy for all callers, or one for each of them."""

    name: Final = "rest"

    def __init__(self, settings: Settings) -> None:
        """Raises ServiceError for a URL of the registry that can't be, ConfigError."""
        settings.warn_of_unknown(log)
        propagates = settings[PROPAGATE_METHOD]
        if propagates is PropagateMethod.SSL:
            raise settings.refusal(PROPAGATE_METHOD.name, _NO_KEYS)
        self.front = FrontOptions.of(
            settings, settings[HOST_NAME], passes_credentials_on=propagates is not None
        )
        self._schemas = RegistryClient(_registry(settings))
        self._urls = Urls(settings[HOST_NAME])

        self._settings = settings
        figures = self._figures = RestFigures()

        def make(own: Settings) -> Proxy:
            return Proxy(own, self._schemas, self._urls, figures)

        self.proxy: Proxy | None = None
        self._callers: CallerProxies | None = None
        if propagates is None:
            self.proxy = make(settings)
        else:
            self._callers = caller_proxies(settings, make)

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, with the proxy's clients or the caller's."""
        if self.proxy is not None:
            await self.proxy.app(scope, receive, send)
            return
        assert self._callers is not None
        credentials = caller_of(scope).credentials
        if credentials is None:  # its path is one of authentication.skip.paths
            await error_answer(401, 401, "Unauthorized", JSON)(scope, receive, send)
            return
        try:
            async with self._callers.of(credentials) as proxy:
                await proxy.app(scope, receive, send)
        except Unauthenticated as problem:
            assert self.front.security is not None
            await self.front.security.refusal(scope, problem)(scope, receive, send)
        except ApiError as problem:
            refused = error_answer(problem.status, problem.error_code, problem.message, JSON)
            await refused(scope, receive, send)

    def observed(self, figures: RequestFigures) -> Observed:
        """See `Service`."""
        parts = RestParts(self._settings, self._figures, self.proxy, self._callers)
        checks = rest_checks(self._settings, as_callers=self._callers is not None)
        return Observed(lambda: rest_families(figures, parts), checks)

    async def start(self, address: HttpAddress) -> None:
        """Start all parts. The cluster need not be there yet. Raises ServiceError."""
        self._urls.port = address.port
        if self.proxy is not None:
            await self.proxy.start()

    async def failed(self) -> str:
        """Wait until one of the parts fails; its reason."""
        failing = self.proxy or self._callers
        assert failing is not None
        return f"ottla rest: {await failing.failed()}"

    def end_requests(self) -> None:
        """See `Service`."""
        for each in (self.proxy, self._callers):
            if each is not None:
                each.end_requests()

    async def stop(self) -> None:
        """Stop all parts."""
        for each in (self.proxy, self._callers):
            if each is not None:
                await each.stop()
        await self._schemas.close()


def _registry(settings: Settings) -> RegistryAccess:
    """The registry, to be asked once a request: the client may come again. Raises ServiceError."""
    user = settings[SCHEMA_REGISTRY_USER_INFO]
    token = settings[SCHEMA_REGISTRY_TOKEN]
    try:
        return RegistryAccess(
            settings[SCHEMA_REGISTRY_URL],
            None if user is None else user.value,
            None if token is None else token.value,
            settings[SCHEMA_REGISTRY_TRUSTSTORE],
            settings[SCHEMA_REGISTRY_KEYSTORE],
            attempts=1,
        )
    except ClientOptionError as problem:
        raise ServiceError(f"ottla rest: {SCHEMA_REGISTRY_URL.name}: {problem}") from None
