"""The rows of a node: queries, their routes, and the views of its tables."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.routing import BaseRoute

from ottla.client.registry.wire import RegistryAccess
from ottla.sql.commands.state import SqlState
from ottla.sql.rows.routes import RowRoutes
from ottla.sql.rows.row_queries import SqlRows
from ottla.sql.server.node import SqlNode
from ottla.sql.server.printing import TopicPrinter
from ottla.sql.server.transients import Transients

LOOK_SECONDS: Final = 1.0


class RowParts:
    """Made with the node, started after it, stopped before it."""

    def __init__(self, node: SqlNode, registry: RegistryAccess | None) -> None:
        settings: dict[str, str] | None = None
        if registry is not None:
            settings = {"schema.registry.url": registry.url}
            if registry.user_info is not None:
                settings["basic.auth.credentials.source"] = "USER_INFO"
                settings["basic.auth.user.info"] = registry.user_info
        self._node = node
        self.queries = SqlRows(
            node.access,
            lambda: node.state.catalog,
            node.functions,
            node.view_directory,
            Transients(node),
            settings,
            self,
        )
        self._news = asyncio.Event()
        self._following: asyncio.Task[None] | None = None
        node.on_state.append(self._changed)

    def addresses(self) -> list[str]:
        """See Peers: the servers of the group but this one."""
        return [url for url in self._node.group.urls if url != self._node.url]

    def routes(self) -> list[BaseRoute]:
        """The routes of rows."""
        node = self._node
        defaults = lambda: {**node.default_properties, **node.state.properties}  # noqa: E731
        catalog = lambda: node.state.catalog  # noqa: E731
        return RowRoutes(self.queries, catalog, defaults, TopicPrinter(node.cluster)).routes()

    async def start(self) -> None:
        """Follow the tables from now on."""
        self._news.set()
        self._following = asyncio.create_task(self._follow(), name="views of tables")

    def _changed(self, _state: SqlState) -> None:
        self._news.set()

    async def _follow(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            await self.queries.open_views(self._node.state.catalog)

    def end_requests(self) -> None:
        """End the push queries: the server stops."""
        self.queries.end_requests()

    async def stop(self) -> None:
        """Close everything."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait([self._following])
        await self.queries.stop()
