"""The routes of rows, as ksqlDB has them: /query, /query-stream, /inserts-stream, /close-query."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from ottla.client.errors import ClusterError
from ottla.sql.catalog.sources import Catalog, Source
from ottla.sql.functions import casts
from ottla.sql.language.errors import START, SqlError
from ottla.sql.language.parser import parse_script
from ottla.sql.language.statements import Print, Role, Select
from ottla.sql.rows.answer_form import form_of
from ottla.sql.rows.bodies import (
    BAD_REQUEST,
    BAD_STATEMENT,
    ENTITIES,
    SERVER_ERROR,
    generic_problem,
    json_object,
    properties_of,
    statement_problem,
    text_of,
    texts_of,
)
from ottla.sql.rows.json_values import from_json, parsed
from ottla.sql.rows.port import Answer, OutRow, WholeRows
from ottla.sql.rows.printer import Lines, Printer
from ottla.sql.rows.row_queries import SqlRows
from ottla.sql.rows.row_socket import RowSocket
from ottla.sql.types.bad_value import BadValue
from ottla.sql.types.sql_types import STRING, Base
from ottla.web.access_rules import Action
from ottla.web.application import json_answer
from ottla.web.bodies import read_body
from ottla.web.callers import denied, grants_of
from ottla.web.errors import ApiError

DELIMITED: Final = "application/vnd.ksqlapi.delimited.v1"
JSON: Final = "application/json"
MAX_BODY_BYTES: Final = 1 << 20
MAX_LINE_BYTES: Final = 1 << 20
MAX_UNDER_WAY: Final = 500
"""Rows of one /inserts-stream that the cluster has not acknowledged."""

log = logging.getLogger("ottla.sql")


class RowRoutes:
    """The routes. defaults: the properties of statements that give no others."""

    def __init__(
        self,
        rows: SqlRows,
        catalog: Callable[[], Catalog],
        defaults: Callable[[], Mapping[str, str]],
        printer: Printer,
    ) -> None:
        self._rows = rows
        self._catalog = catalog
        self._defaults = defaults
        self._printer = printer
        self._socket = RowSocket(rows, defaults, printer)

    def routes(self) -> list[BaseRoute]:
        """All of them."""
        return [
            Route("/query-stream", self._query_stream, methods=["POST"]),
            Route("/query", self._query, methods=["POST"]),
            Route("/close-query", self._close, methods=["POST"]),
            Route("/inserts-stream", self._inserts, methods=["POST"]),
            WebSocketRoute("/ws/query", self._socket.query),
        ]

    # -- queries --------------------------------------------------------------------------------------

    async def _query_stream(self, request: Request) -> Response:
        given = await _body(request, Action.READ)
        text = text_of(given, "sql")
        properties = {**self._defaults(), **properties_of(given, "properties")}
        answer = await self._known(text, properties)
        if answer is None:
            variables = texts_of(given, "sessionVariables")
            statement = self._statement(text, variables)
            if isinstance(statement, Response):
                return statement
            if not isinstance(statement, Select):
                return _refused(
                    SqlError("SELECT is for /query-stream, other statements for /ksql", START), text
                )
            answer = await self._answer(statement, text, properties)
        if isinstance(answer, Response):
            return answer
        accepts = request.headers.get("accept", "")
        form = form_of(answer.columns)
        head = {"queryId": answer.query_id, "columnNames": form.names, "columnTypes": form.types}
        if ENTITIES in accepts and DELIMITED not in accepts:
            return await _sent(answer, _as_entities(answer), ENTITIES)
        if JSON in accepts and DELIMITED not in accepts:
            return await _sent(answer, _as_array(answer, head), JSON)
        return await _sent(answer, _as_lines(answer, head), DELIMITED)

    async def _query(self, request: Request) -> Response:
        given = await _body(request, Action.READ)
        text = text_of(given, "ksql")
        properties = {**self._defaults(), **properties_of(given, "streamsProperties")}
        statement = self._statement(text, texts_of(given, "sessionVariables"))
        if isinstance(statement, Response):
            return statement
        if isinstance(statement, Print):
            try:
                lines = self._printer(statement, properties)
                return StreamingResponse(_started(lines), media_type="text/plain")
            except SqlError as problem:
                return _refused(problem, text)
        if not isinstance(statement, Select):
            return _refused(SqlError("SELECT and PRINT are for /query, others for /ksql", START), text)
        answer = await self._answer(statement, text, properties)
        if isinstance(answer, Response):
            return answer
        return await _sent(answer, _as_entities(answer), ENTITIES)

    async def _known(self, text: str, properties: Mapping[str, str]) -> Answer | Response | None:
        """The answer to a query that needs no parsing; None for others."""
        try:
            return await self._rows.known(text, properties)
        except SqlError as problem:
            return _refused(problem, text)
        except ClusterError as problem:
            return _failed(str(problem))

    def _statement(self, text: str, variables: Mapping[str, str]) -> Any:
        try:
            found = list(parse_script(text, variables))
            if len(found) != 1:
                raise SqlError(f"one statement is wanted, there are {len(found)}", START)
        except SqlError as problem:
            return _refused(problem, text)
        return found[0].statement

    async def _answer(self, statement: Select, text: str, properties: Mapping[str, str]) -> Answer | Response:
        try:
            return await self._rows.query(statement.query, text, properties)
        except SqlError as problem:
            return _refused(problem, text)
        except ClusterError as problem:
            return _failed(str(problem))

    async def _close(self, request: Request) -> Response:
        given = await _body(request, Action.READ)
        id = text_of(given, "queryId")
        if await self._rows.close(id):
            return Response(status_code=200)
        return json_answer(generic_problem(BAD_REQUEST, f"No query with id {id}"), 400)

    # -- inserts --------------------------------------------------------------------------------------

    async def _inserts(self, request: Request) -> ASGIApp:
        if not grants_of(request.scope).allow_all(Action.WRITE):
            raise denied(request.scope, Action.WRITE, "rows")
        lines = _lines(request)
        first = await anext(lines, b"")
        given = json_object(first, "The first line")
        name = text_of(given, "target")
        catalog = self._catalog()
        target = catalog.sources.get(name) or catalog.sources.get(name.upper().strip("`"))
        if target is None or target.is_table or target.read_only:
            why = (
                "is a table" if target is not None and target.is_table else "does not exist, or is read only"
            )
            return json_answer(generic_problem(BAD_STATEMENT, f"The stream {name} {why}"), 400)
        accepts = request.headers.get("accept", "")
        if JSON in accepts and DELIMITED not in accepts:
            return _sent_while_read(_one_array(self._inserted(target, lines)), JSON)
        return _sent_while_read(self._inserted(target, lines), DELIMITED)

    async def _inserted(self, target: Source, lines: Lines) -> AsyncGenerator[bytes, None]:
        """An acknowledgement for each row, in their order; up to MAX_UNDER_WAY rows are under way at once."""
        under_way: asyncio.Queue[asyncio.Future[None] | Exception | None] = asyncio.Queue(MAX_UNDER_WAY)

        async def begin_all() -> None:
            try:
                async for line in lines:
                    if line.strip():
                        await under_way.put(await self._begun(target, line))
            except (ClientDisconnect, ApiError) as problem:
                await under_way.put(problem)
            finally:
                await under_way.put(None)

        reading = asyncio.create_task(begin_all(), name="rows of /inserts-stream")
        number = 0
        try:
            while (one := await under_way.get()) is not None:
                if isinstance(one, ClientDisconnect):
                    return
                yield orjson.dumps(await _acknowledged(one, number), option=orjson.OPT_APPEND_NEWLINE)
                number += 1
        finally:
            reading.cancel()
            await asyncio.wait([reading])

    async def _begun(self, target: Source, line: bytes) -> asyncio.Future[None] | Exception:
        try:
            return await self._rows.begin_write(target, row_of(target, line))
        except (SqlError, ClusterError, ValueError) as problem:
            return problem


async def _acknowledged(row: asyncio.Future[None] | Exception, number: int) -> Mapping[str, Any]:
    """What the client is told of a row."""
    try:
        if isinstance(row, Exception):
            raise row
        await row
    except (SqlError, ClusterError, ValueError, ApiError) as problem:
        return {"status": "error", "seq": number, "error_code": BAD_REQUEST, "message": str(problem)}
    return {"status": "ok", "seq": number}


def row_of(target: Source, line: bytes) -> dict[str, Any]:
    """A row out of a JSON object, whose names may be in any case. Raises ValueError."""
    found = parsed(line, True)
    if not isinstance(found, dict):
        raise BadValue("a row is a JSON object")
    names = {each.name: each for each in target.columns if each.role is not Role.HEADERS}
    values: dict[str, Any] = {}
    for given, value in found.items():
        column = names.get(given.strip("`")) or names.get(given.upper())
        if column is None:
            raise BadValue(f"{target.name} has no column {given}")
        if isinstance(value, str) and column.type.is_time:
            cast = casts.caster(STRING, column.type)
            assert cast is not None
            values[column.name] = cast(value)
        elif isinstance(value, str) and column.type.base is Base.STRING:
            values[column.name] = value
        else:
            values[column.name] = from_json(column.type)(value)
    return values


# -- answers ------------------------------------------------------------------------------------------


def _place(answer: Answer) -> dict[str, str]:
    """Of a pull query: as of which offsets it is answered, and how far that is behind."""
    if answer.is_push:
        return {}
    found = {
        f"{topic}-{partition}": offset for (topic, partition), offset in sorted(answer.positions.items())
    }
    headers = {"ottla-positions": orjson.dumps(found).decode()}
    if answer.lag is not None:
        headers["ottla-lag"] = str(answer.lag)
    return headers


async def _sent(answer: Answer, lines: Lines, media_type: str) -> Response:
    """The response; at once where all rows are there, as that takes half of the time."""
    if isinstance(answer.rows, WholeRows):
        body = b"".join([each async for each in lines])
        return Response(body, media_type=media_type, headers=_place(answer))
    return StreamingResponse(lines, media_type=media_type, headers=_place(answer))


async def _as_lines(answer: Answer, head: Mapping[str, Any]) -> Lines:
    cells = form_of(answer.columns).cells
    yield orjson.dumps(head, option=orjson.OPT_APPEND_NEWLINE)
    async for chunk in _guarded(answer):
        if isinstance(chunk, dict):
            yield orjson.dumps(chunk, option=orjson.OPT_APPEND_NEWLINE)
        else:
            yield b"".join(
                orjson.dumps(_array(each, cells), option=orjson.OPT_APPEND_NEWLINE) for each in chunk
            )


def _array(row: OutRow, cells: Callable[[OutRow], list[Any]]) -> Any:
    return {"row": {"columns": cells(row), "tombstone": True}} if row.tombstone else cells(row)


async def _as_array(answer: Answer, head: Mapping[str, Any]) -> Lines:
    cells = form_of(answer.columns).cells
    yield b"[" + orjson.dumps(head)
    async for chunk in _guarded(answer):
        if isinstance(chunk, dict):
            yield b",\n" + orjson.dumps(chunk)
        else:
            yield b"".join(b",\n" + orjson.dumps(_array(each, cells)) for each in chunk)
    yield b"]\n"


async def _as_entities(answer: Answer) -> Lines:
    """The older form: an array of objects, each in a line."""
    cells = form_of(answer.columns).cells
    schema = ", ".join(
        f"{quoted_always(each.name)} {each.type}{' KEY' if each.is_key else ''}" for each in answer.columns
    )
    yield b"[" + orjson.dumps({"header": {"queryId": answer.query_id, "schema": schema}})
    message = "Query Completed"
    async for chunk in _guarded(answer):
        if isinstance(chunk, dict):
            yield b",\n" + orjson.dumps({"errorMessage": chunk})
            message = ""
            continue
        for each in chunk:
            row: dict[str, Any] = {"columns": cells(each)}
            if each.tombstone:
                row["tombstone"] = True
            yield b",\n" + orjson.dumps({"row": row})
    if message and answer.is_push:
        message = "Limit Reached"
    if message:
        yield b",\n" + orjson.dumps({"finalMessage": message})
    yield b"]\n"


def quoted_always(name: str) -> str:
    """A name in backticks."""
    return "`" + name.replace("`", "``") + "`"


async def _guarded(answer: Answer) -> AsyncIterator[Sequence[OutRow] | dict[str, Any]]:
    """The chunks, and a failure behind them as an object. Ends the query with its client."""
    try:
        async for chunk in answer.rows:
            yield chunk
    except (SqlError, ClusterError) as problem:
        yield generic_problem(SERVER_ERROR, str(problem))
    finally:
        await answer.close()


async def _one_array(lines: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """Lines of JSON as one array of it."""
    before = b"["
    async with aclosing(lines):
        async for line in lines:
            yield before + line.rstrip(b"\n")
            before = b",\n"
    yield b"]\n" if before != b"[" else b"[]\n"


def _sent_while_read(lines: AsyncGenerator[bytes, None], media_type: str) -> ASGIApp:
    """An answer that is sent while its request's body still comes.

    Starlette's StreamingResponse reads the request itself, to notice a client that goes away: what it read of
    the body would be lost.
    """

    async def send_all(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", media_type.encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async with aclosing(lines):
            async for line in lines:
                await send({"type": "http.response.body", "body": line, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    return send_all


async def _started(lines: Lines) -> Lines:
    async for line in lines:
        yield line


def _refused(problem: SqlError, text: str) -> Response:
    return json_answer(statement_problem(problem, text, text), 400, ENTITIES)


def _failed(message: str) -> Response:
    return json_answer(generic_problem(SERVER_ERROR, message), 500, ENTITIES)


# -- requests -----------------------------------------------------------------------------------------


async def _body(request: Request, action: Action) -> Mapping[str, Any]:
    if not grants_of(request.scope).allow_all(action):
        raise denied(request.scope, action, "queries")
    body = await read_body(request, MAX_BODY_BYTES)
    return json_object(body)


async def _lines(request: Request) -> Lines:
    """The lines of a body, as they come. Raises ApiError for one that is too long."""
    rest = b""
    async for part in request.stream():
        rest += part
        *whole, rest = rest.split(b"\n")
        for line in whole:
            yield line
        if len(rest) > MAX_LINE_BYTES:
            raise ApiError(413, 413, f"A line is longer than {MAX_LINE_BYTES} bytes")
    if rest:
        yield rest
