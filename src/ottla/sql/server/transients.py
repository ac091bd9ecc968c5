"""Satisfies TransientQueries: push queries that need Spark run beside the persistent ones."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from typing import Final

from ottla.client.errors import ClusterError
from ottla.sql.commands.state import PersistentQuery
from ottla.sql.language.errors import START, SqlError
from ottla.sql.plan.statement_plan import PutQuery
from ottla.sql.rows.port import TransientQuery
from ottla.sql.running.checking import check_runs
from ottla.sql.server.node import SqlNode

START_SECONDS: Final = 60.0
ENDING_SECONDS: Final = 30.0


class Transients:
    """The transient queries of a node."""

    def __init__(self, node: SqlNode) -> None:
        self._node = node

    async def start(self, plan: PutQuery, properties: Mapping[str, str]) -> TransientQuery:
        """See TransientQueries."""
        node = self._node
        if not node.is_primary:
            raise SqlError(
                "this query needs Spark, which runs on another server of the service",
                None,
                f"ask {node.leadership.url}",
            )
        await asyncio.to_thread(check_runs, plan, node.functions, node.registry)
        completed = await asyncio.to_thread(node.topics.completed, plan, START)
        assert isinstance(completed, PutQuery)
        id = completed.target.name
        now_ms = time.time_ns() // 1_000_000
        query = PersistentQuery(id, completed, "", 1, now_ms, dict(properties))
        node.run_beside(query)
        found = TransientQuery(id, completed.target)
        if not await node.queries.until_running(id, 1, START_SECONDS):
            life = node.queries.life(id)
            problem = "it did not start in time" if life is None or life.problem is None else life.problem
            await self.stop(found)
            raise SqlError(f"the query can't run: {problem.splitlines()[0]}", None)
        return found

    async def stop(self, query: TransientQuery) -> None:
        """See TransientQueries."""
        self._node.stop_beside(query.query_id)
        await self._node.queries.until_gone(ENDING_SECONDS)
        with contextlib.suppress(ClusterError):
            await asyncio.to_thread(self._node.topics.delete, query.target.topic)

    async def failure(self, query: TransientQuery) -> str:
        """See TransientQueries. A host that dies is no failure: the query goes on in the next one."""
        while True:
            if not self._node.queries.leads:
                return f"another server runs the queries now, {self._node.leadership.url or 'not yet known'}"
            life = self._node.queries.life(query.query_id)
            if life is None:
                return "it has ended"
            if life.problem is not None:
                return life.problem
            await self._node.queries.until_changed()
