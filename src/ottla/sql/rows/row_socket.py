"""The route of rows over a WebSocket, as ksqlDB has it: /ws/query, with the request as JSON in the URL.

The first frame has the columns, each further one a row; the close tells the end: 1000 for a query that is
done, 1003 for one that can't be, 1011 for one that fails. Each frame waits for the client to take those
before it, so a push query's rows wait in its own bounded queue. What the client sends is dropped, but for its
close.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, Final

import orjson
from starlette.websockets import WebSocket, WebSocketDisconnect

from ottla.client.errors import ClusterError
from ottla.sql.language.errors import START, SqlError
from ottla.sql.language.parser import parse_script
from ottla.sql.language.statements import Print, Select
from ottla.sql.rows.answer_form import form_of
from ottla.sql.rows.bodies import (
    BAD_STATEMENT,
    ENTITIES,
    generic_problem,
    json_object,
    properties_of,
    text_of,
    texts_of,
)
from ottla.sql.rows.port import Answer
from ottla.sql.rows.printer import Printer
from ottla.sql.rows.row_queries import SqlRows
from ottla.sql.rows.schema_json import schema_json
from ottla.web.access_rules import Action
from ottla.web.application import json_answer
from ottla.web.callers import denied, grants_of
from ottla.web.errors import ApiError

DONE: Final = 1000
REFUSED: Final = 1003
FAILED: Final = 1011
MAX_REASON_BYTES: Final = 123
"""RFC 6455, 5.5: a close frame has 125 bytes, two of which are its code."""


class RowSocket:
    """The route. defaults: the properties of statements that give no others."""

    def __init__(self, rows: SqlRows, defaults: Callable[[], Mapping[str, str]], printer: Printer) -> None:
        self._rows = rows
        self._defaults = defaults
        self._printer = printer

    async def query(self, socket: WebSocket) -> None:
        """One connection: one query."""
        if not grants_of(socket.scope).allow_all(Action.READ):
            refusal = denied(socket.scope, Action.READ, "queries")
            body = generic_problem(refusal.error_code, refusal.message)
            await socket.send_denial_response(json_answer(body, refusal.status, ENTITIES))
            return
        await socket.accept()
        answering = asyncio.create_task(self._answered(socket), name="rows over a WebSocket")
        hearing = asyncio.create_task(_until_gone(socket), name="a WebSocket's client")
        try:
            await asyncio.wait([answering, hearing], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (answering, hearing):
                task.cancel()
            await asyncio.wait([answering, hearing])
        if answering.cancelled():
            return
        with contextlib.suppress(WebSocketDisconnect):
            code, reason = answering.result()
            await socket.close(code, close_reason(reason))

    async def _answered(self, socket: WebSocket) -> tuple[int, str]:
        """Send the answer; the code and reason of the close. Raises WebSocketDisconnect."""
        try:
            async with contextlib.aclosing(self._frames(socket.query_params.get("request", ""))) as frames:
                async for frame in frames:
                    await socket.send_text(frame)
        except ApiError as problem:
            return REFUSED, problem.message
        except (SqlError, ClusterError) as problem:
            return FAILED, str(problem)
        return DONE, "done"

    async def _frames(self, request: str) -> AsyncGenerator[str, None]:
        """An answer's frames. Raises ApiError for what can't be asked, SqlError, ClusterError."""
        given = json_object(request.encode(), 'The parameter "request"')
        text = text_of(given, "ksql")
        properties = {**self._defaults(), **properties_of(given, "streamsProperties")}
        try:
            answer = await self._rows.known(text, properties)
            if answer is None:
                statement = _single(text, texts_of(given, "sessionVariables"))
                if isinstance(statement, Print):
                    async for line in self._printer(statement, properties):
                        yield line.decode(errors="replace")
                    return
                answer = await self._rows.query(statement.query, text, properties)
        except SqlError as problem:
            raise ApiError(400, BAD_STATEMENT, problem.message) from None
        try:
            yield _schema(answer)
            cells = form_of(answer.columns).cells
            async for chunk in answer.rows:
                for row in chunk:
                    told: dict[str, Any] = {"columns": cells(row)}
                    if row.tombstone:
                        told["tombstone"] = True
                    yield orjson.dumps({"row": told}).decode()
        finally:
            await answer.close()


def _single(text: str, variables: Mapping[str, str]) -> Select | Print:
    """The one statement of a text. Raises SqlError."""
    found = list(parse_script(text, variables))
    if len(found) != 1:
        raise SqlError(f"one statement is wanted, there are {len(found)}", START)
    statement = found[0].statement
    if not isinstance(statement, Select | Print):
        raise SqlError("SELECT and PRINT are for /ws/query, others for /ksql", START)
    return statement


def _schema(answer: Answer) -> str:
    columns = [{"name": each.name, "schema": schema_json(each.type)} for each in answer.columns]
    return orjson.dumps(columns).decode()


def close_reason(reason: str) -> str:
    """A reason that fits into a close frame."""
    data = " ".join(reason.split()).encode()
    if len(data) <= MAX_REASON_BYTES:
        return data.decode()
    return data[: MAX_REASON_BYTES - 3].decode(errors="ignore") + "..."


async def _until_gone(socket: WebSocket) -> None:
    while (await socket.receive())["type"] != "websocket.disconnect":
        pass
