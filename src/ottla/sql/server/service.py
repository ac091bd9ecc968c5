"""`ottla sql server` as a service: its settings, its node and its application, put together."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from ottla.client.access import ClusterAccess
from ottla.client.errors import ClientOptionError
from ottla.client.registry.async_client import RegistryClient
from ottla.client.registry.wire import RegistryAccess
from ottla.config.errors import UserError
from ottla.config.settings import Settings
from ottla.replicated.writer import require_known
from ottla.sql.server import settings as names
from ottla.sql.server.app import SqlRoutes, sql_application
from ottla.sql.server.connectors import Connectors
from ottla.sql.server.node import SqlNode
from ottla.sql.server.observed import Parts, sql_checks, sql_families
from ottla.sql.server.row_parts import RowParts
from ottla.sql.server.statements import Statements
from ottla.web.errors import ServiceError
from ottla.web.front_settings import FrontOptions
from ottla.web.request_figures import RequestFigures
from ottla.web.server import HttpAddress
from ottla.web.service_metrics import Observed

if TYPE_CHECKING:
    from ottla.sql.wire.server import WireServer

CLIENT_ID: Final = "ottla-sql"
log = logging.getLogger("ottla.sql")


class SqlService:
    """Satisfies `Service`."""

    name = "sql"

    def __init__(self, settings: Settings) -> None:
        settings.warn_of_unknown(log)
        self._settings = settings
        advertised = settings[names.ADVERTISED_LISTENER]
        host = None if advertised is None else urlsplit(advertised).hostname
        self.front = replace(FrontOptions.of(settings, host), websockets=True, http2=True)
        self._node: SqlNode | None = None
        self._connectors: Connectors | None = None
        self._registry: RegistryClient | None = None
        self._rows: RowParts | None = None
        self._parts: Parts | None = None
        self._wire: WireServer | None = None
        self._application: ASGIApp | None = None

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers once started."""
        assert self._application is not None
        await self._application(scope, receive, send)

    def observed(self, figures: RequestFigures) -> Observed:
        """See `Service`."""
        return Observed(lambda: sql_families(self._parts), sql_checks(lambda: self._node))

    async def start(self, address: HttpAddress) -> None:
        """Ready when all commands were read. Raises ServiceError."""
        url = self._settings[names.ADVERTISED_LISTENER]
        if url is None:
            host = address.host_for_peers(None)
            url = HttpAddress(host, address.port, address.scheme).url
        try:
            peer_tls = self.front.peer_tls(address.tls_listener, checks_host=True)
            node = self._node = SqlNode(self._settings, self._access(), url.rstrip("/"), peer_tls)
            registry_access = self._registry_access()
        except ServiceError:
            raise
        except UserError as problem:
            raise ServiceError(f"ottla sql server: {problem}") from None
        self._registry = None if registry_access is None else RegistryClient(registry_access)
        self._connectors = Connectors(self._settings[names.CONNECT_URL])
        rows = self._rows = RowParts(node)
        statements = Statements(node, rows.queries, self._connectors, self._registry)
        self._parts = Parts(node, rows.queries, statements)
        self._application = sql_application([*SqlRoutes(node, statements).routes(), *rows.routes()])
        await node.start()
        await rows.start()
        if (place := self._settings[names.POSTGRES_LISTEN]) is not None:
            await self._start_wire(place, address, node, rows, statements)
        if (file := self._settings[names.QUERIES_FILE]) is not None:
            await statements.run_file(file)

    async def _start_wire(
        self, place: str, address: HttpAddress, node: SqlNode, rows: RowParts, statements: Statements
    ) -> None:
        """Listen for clients of PostgreSQL's protocol. Raises ServiceError."""
        try:
            from ottla.sql.server.postgres import wire_server  # and DuckDB, which takes a moment
        except ModuleNotFoundError as problem:
            raise ServiceError(f"ottla sql server: {problem.name} is not installed") from None
        wanted = HttpAddress.parse(place)
        security = self.front.security
        assert security is not None
        security.require_known_clients("sql", [(wanted.host, wanted.port, address.tls_listener)], warns=False)
        wire = wire_server(security, address.tls_listener, node, rows, statements)
        try:
            port = await wire.start(wanted.host, wanted.port)
        except OSError as problem:
            raise ServiceError(f"ottla sql server: can't listen at {place}: {problem}") from None
        self._wire = wire
        log.info("PostgreSQL's clients connect at %s:%d", wanted.host, port)

    def _access(self) -> ClusterAccess:
        """Raises ClientOptionError, also for a property that librdkafka does not know."""
        properties = {
            name: text
            for name, text in self._settings.with_prefix(names.STREAMS_PREFIX).items()
            if name not in names.NOT_OF_CLIENTS
        }
        sasl = self._settings.with_prefix(names.SASL_PREFIX)
        properties |= {f"{names.SASL_PREFIX}{name}": text for name, text in sasl.items()}
        if (protocol := self._settings[names.SECURITY_PROTOCOL]) is not None:
            properties["security.protocol"] = protocol
        access = ClusterAccess(self._settings[names.BOOTSTRAP_SERVERS], properties, CLIENT_ID)
        require_known(access)
        return access

    def _registry_access(self) -> RegistryAccess | None:
        url = self._settings[names.REGISTRY_URL]
        user = self._settings[names.REGISTRY_USER_INFO]
        try:
            return None if url is None else RegistryAccess(url, None if user is None else user.value)
        except ClientOptionError as problem:
            raise ServiceError(f"ottla sql server: {problem}") from None

    async def failed(self) -> str:
        """See `Service`."""
        assert self._node is not None
        return f"ottla sql server: {await self._node.failed()}"

    def end_requests(self) -> None:
        """Push queries end: their clients come again to another server."""
        if self._rows is not None:
            self._rows.end_requests()

    async def stop(self) -> None:
        """See `Service`."""
        for each in (self._wire, self._rows, self._node):
            if each is not None:
                await each.stop()
        for client in (self._connectors, self._registry):
            if client is not None:
                await client.close()
