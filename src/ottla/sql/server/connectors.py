"""Connectors by statements: CREATE, DROP, SHOW and DESCRIBE CONNECTOR ask a Connect worker."""

from __future__ import annotations

from typing import Any, Final

import httpx

from ottla.sql.language.errors import Position, SqlError
from ottla.sql.language.statements import CreateConnector, Drop, Listed
from ottla.sql.server.entities import Entity, entity

TIMEOUT_SECONDS: Final = 30.0


class Connectors:
    """The worker at one URL."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._client = httpx.AsyncClient(timeout=TIMEOUT_SECONDS, trust_env=False)

    async def close(self) -> None:
        """Hang up."""
        await self._client.aclose()

    async def create(self, asked: CreateConnector, text: str) -> Entity:
        """CREATE CONNECTOR. Raises SqlError."""
        known = await self._ask("GET", "/connectors", asked.at)
        if asked.name in known:
            if asked.if_not_exists:
                return entity("warning_entity", text, message=f"Connector {asked.name} already exists")
            raise SqlError(f"there is a connector {asked.name} already", asked.at, "DROP CONNECTOR first")
        config = {name: _text(each.value) for name, each in asked.properties.items()}
        body = {"name": asked.name, "config": config}
        info = await self._ask("POST", "/connectors", asked.at, body)
        return entity("connector_info", text, info=info)

    async def drop(self, asked: Drop, text: str) -> Entity:
        """DROP CONNECTOR. Raises SqlError."""
        known = await self._ask("GET", "/connectors", asked.at)
        if asked.name not in known:
            if asked.if_exists:
                return entity("warning_entity", text, message=f"Connector '{asked.name}' does not exist.")
            raise SqlError(f"there is no connector {asked.name}", asked.at, _there_are(known))
        await self._ask("DELETE", f"/connectors/{_quoted(asked.name)}", asked.at)
        return entity("drop_connector", text, connectorName=asked.name)

    async def list(self, what: Listed, text: str, at: Position) -> Entity:
        """SHOW CONNECTORS, and their plugins. Raises SqlError."""
        if what is Listed.CONNECTOR_PLUGINS:
            plugins = await self._ask("GET", "/connector-plugins", at)
            rows = [
                {"className": each.get("class"), "type": each.get("type"), "version": each.get("version")}
                for each in plugins
            ]
            return entity("connector_plugins_list", text, connectorsPlugins=rows)
        wanted = {Listed.SOURCE_CONNECTORS: "source", Listed.SINK_CONNECTORS: "sink"}.get(what)
        found = await self._ask("GET", "/connectors?expand=info&expand=status", at)
        rows = []
        for name, each in sorted(found.items()):
            info, status = each.get("info") or {}, each.get("status") or {}
            kind = info.get("type") or status.get("type")
            if wanted is not None and kind != wanted:
                continue
            tasks = status.get("tasks") or []
            running = sum(task.get("state") == "RUNNING" for task in tasks)
            state = (status.get("connector") or {}).get("state")
            rows.append(
                {
                    "name": name,
                    "type": kind,
                    "className": (info.get("config") or {}).get("connector.class"),
                    "state": f"{state} ({running}/{len(tasks)} tasks RUNNING)",
                }
            )
        return entity("connector_list", text, connectors=rows)

    async def describe(self, name: str, text: str, at: Position) -> Entity:
        """DESCRIBE CONNECTOR. Raises SqlError."""
        known = await self._ask("GET", "/connectors", at)
        if name not in known:
            raise SqlError(f"there is no connector {name}", at, _there_are(known))
        info = await self._ask("GET", f"/connectors/{_quoted(name)}", at)
        status = await self._ask("GET", f"/connectors/{_quoted(name)}/status", at)
        topics = await self._ask("GET", f"/connectors/{_quoted(name)}/topics", at)
        return entity(
            "connector_description",
            text,
            connectorClass=info["config"].get("connector.class"),
            status=status,
            sources=[],
            topics=(topics.get(name) or {}).get("topics", []),
        )

    async def _ask(self, method: str, path: str, at: Position, body: Any = None) -> Any:
        try:
            answer = await self._client.request(method, self._url + path, json=body)
        except httpx.HTTPError as problem:
            raise SqlError(
                f"the Connect worker at {self._url} does not answer: {type(problem).__name__} {problem}",
                at,
                "ksql.connect.url names it",
            ) from None
        if answer.status_code >= 300:
            try:
                told = str(answer.json().get("message", answer.text))
            except (ValueError, AttributeError):
                told = answer.text[:500]
            raise SqlError(f"the Connect worker refuses: {told.splitlines()[0] if told else ''}", at)
        return answer.json() if answer.content else None


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _quoted(name: str) -> str:
    from urllib.parse import quote

    return quote(name, safe="")


def _there_are(known: Any) -> str:
    return "there are: " + (", ".join(sorted(known)) or "none")
