"""The rows of a node: queries, their routes, and the views of its tables."""

from __future__ import annotations

import asyncio

from starlette.routing import BaseRoute

from ottla.sql.commands.state import SqlState
from ottla.sql.rows.routes import RowRoutes
from ottla.sql.rows.row_queries import SqlRows
from ottla.sql.server import settings as names
from ottla.sql.server.node import SqlNode
from ottla.sql.server.printing import TopicPrinter
from ottla.sql.server.transients import Transients


class RowParts:
    """Made with the node, started after it, stopped before it."""

    def __init__(self, node: SqlNode) -> None:
        self._node = node
        self.queries = SqlRows(
            node.access,
            lambda: node.state.catalog,
            node.functions,
            node.view_directory,
            Transients(node),
            node.registry or None,
            self,
            answers_pulls=node.settings[names.PULL_ENABLE],
        )
        self._news = asyncio.Event()
        node.on_state.append(self._changed)

    def addresses(self) -> list[str]:
        """See Peers: the servers of the group but this one."""
        return [url for url in self._node.group.urls if url != self._node.url]

    def routes(self) -> list[BaseRoute]:
        """The routes of rows."""
        node = self._node
        printer = TopicPrinter(node.cluster)
        return RowRoutes(
            self.queries, lambda: node.state.catalog, lambda: node.default_properties, printer
        ).routes()

    async def start(self) -> None:
        """Follow the tables from now on."""
        self._news.set()
        self._node.keep_running("views of tables", self._follow())

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
        await self.queries.stop()
