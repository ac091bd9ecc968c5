"""One client's connection: startup, authentication, simple and extended queries.

PostgreSQL's documentation, "Message Flow". Messages are framed here, with a limit; pygwire reads and writes
what is in them. A statement's rows are sent as they come, with the socket's back-pressure; a cancel request,
or the end of the connection, ends it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import struct
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pygwire.constants import TransactionStatus
from pygwire.exceptions import DecodingError
from pygwire.messages import (
    AuthenticationCleartextPassword,
    AuthenticationOk,
    BackendKeyData,
    Bind,
    BindComplete,
    Close,
    CloseComplete,
    CommandComplete,
    DataRow,
    Describe,
    EmptyQueryResponse,
    ErrorResponse,
    Execute,
    FieldDescription,
    NoData,
    NoticeResponse,
    ParameterDescription,
    ParameterStatus,
    Parse,
    ParseComplete,
    PasswordMessage,
    PGMessage,
    PortalSuspended,
    Query,
    ReadyForQuery,
    RowDescription,
    StartupMessage,
)

from ottla.client.errors import ClusterError
from ottla.sql.language.errors import SqlError
from ottla.sql.wire.pg_types import (
    TEXT_FORMAT,
    TEXT_OID,
    BadParameter,
    encoder,
    modifier,
    parameter_text,
    pg_type,
)
from ottla.sql.wire.port import AdmitUser, Answers, Column, Result
from ottla.sql.wire.statements import parameters_of, split, with_parameters

MAX_MESSAGE_BYTES: Final = 16 << 20
MAX_STARTUP_BYTES: Final = 10_000
MAX_PREPARED: Final = 1_000
LOGIN_SECONDS: Final = 30.0
SSL_REQUEST: Final = 80_877_103
GSS_REQUEST: Final = 80_877_104
CANCEL_REQUEST: Final = 80_877_102
PROTOCOL_3: Final = 3
PARAMETERS: Final[Mapping[str, str]] = {
    "server_version": "15.0 (ottla)",
    "server_encoding": "UTF8",
    "client_encoding": "UTF8",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "iso_8601",
    "TimeZone": "UTC",
    "integer_datetimes": "on",
    "standard_conforming_strings": "on",
    "is_superuser": "off",
}
_LENGTH: Final = struct.Struct(">I")

log = logging.getLogger("ottla.sql.wire")


class Hangup(Exception):
    """The client went away, or broke the protocol."""


@dataclass(slots=True)
class _Prepared:
    """A prepared statement."""

    text: str
    types: Sequence[int]


@dataclass(slots=True)
class _Portal:
    """A statement with its parameters. rows: of a statement that has begun."""

    text: str
    formats: Sequence[int]
    result: Result | None = None
    rest: list[Sequence[Any]] = field(default_factory=list)
    chunks: AsyncIterator[Sequence[Sequence[Any]]] | None = None


class Connection:
    """One connection. key: of its cancel requests."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        admit: AdmitUser,
        key: tuple[int, bytes],
        asks_password: bool,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._admit = admit
        self._key = key
        self._asks_password = asks_password
        self._answers: Answers | None = None
        self._prepared: dict[str, _Prepared] = {}
        self._portals: dict[str, _Portal] = {}
        self._running: asyncio.Task[None] | None = None
        self._is_cancelled = False
        self._in_block = False

    # -- bytes ----------------------------------------------------------------------------------------

    def _send(self, *messages: PGMessage) -> None:
        self._writer.write(b"".join(each.to_wire() for each in messages))

    async def _message(self) -> tuple[bytes, memoryview]:
        """The next message: its kind and what is in it. Raises Hangup."""
        try:
            head = await self._reader.readexactly(5)
            length = _LENGTH.unpack_from(head, 1)[0]
            if not 4 <= length <= MAX_MESSAGE_BYTES:
                raise Hangup(f"a message of {length} bytes")
            return head[:1], memoryview(await self._reader.readexactly(length - 4))
        except (asyncio.IncompleteReadError, OSError) as problem:
            raise Hangup(str(problem)) from None

    # -- startup --------------------------------------------------------------------------------------

    async def log_in(self, startup: StartupMessage) -> bool:
        """Let the client in, or not."""
        user = startup.params.get("user", "")
        password: str | None = None
        if self._asks_password:
            self._send(AuthenticationCleartextPassword())
            kind, data = await self._message()
            if kind != b"p":
                raise Hangup("no password")
            given = PasswordMessage.decode(data).password
            password = given if isinstance(given, str) else given.decode("utf-8", "replace")
        self._answers = await self._admit(user, password)
        if self._answers is None:
            code, message = "28P01", f'password authentication failed for user "{user}"'
            if not self._asks_password:
                code, message = "28000", "whoever connects so may not read here"
            fields = {"S": "FATAL", "V": "FATAL", "C": code, "M": message}
            self._send(ErrorResponse(fields=fields))
            await self._writer.drain()
            return False
        self._send(AuthenticationOk())
        told = {
            **PARAMETERS,
            "application_name": startup.params.get("application_name", ""),
            "session_authorization": user,
        }
        self._send(*(ParameterStatus(name=name, value=value) for name, value in told.items()))
        process, secret = self._key
        self._send(BackendKeyData(process_id=process, secret_key=secret), self._ready())
        await self._writer.drain()
        return True

    def _ready(self) -> ReadyForQuery:
        status = TransactionStatus.IN_TRANSACTION if self._in_block else TransactionStatus.IDLE
        return ReadyForQuery(status=status)

    # -- messages -------------------------------------------------------------------------------------

    async def serve(self) -> None:
        """Answer until the client says goodbye. Raises Hangup."""
        skips = False  # up to the next Sync, behind an error
        try:
            while True:
                kind, data = await self._message()
                if kind == b"X":
                    return
                if kind == b"S":
                    skips = False
                    self._send(self._ready())
                elif kind == b"H":
                    pass
                elif kind == b"Q":
                    await self._guarded(self._simple(Query.decode(data).query_string))
                    self._send(self._ready())
                elif not skips:
                    skips = not await self._guarded(self._extended(kind, data))
                await self._drain()
        finally:
            await self._close_portals()

    async def _drain(self) -> None:
        try:
            await self._writer.drain()
        except OSError as problem:
            raise Hangup(str(problem)) from None

    async def _guarded(self, work: Any) -> bool:
        """Do the work of a message; its failure is told. Whether it was done."""
        self._is_cancelled = False
        self._running = asyncio.ensure_future(work)
        try:
            await self._running
            return True
        except asyncio.CancelledError:
            if not self._is_cancelled:
                raise
            self._fail("57014", "the statement was cancelled")
        except SqlError as problem:
            self._fail("42601" if problem.position else "42000", problem.message, problem)
        except BadParameter as problem:
            self._fail("22P02", str(problem))
        except ClusterError as problem:
            self._fail("58000", str(problem))
        except (struct.error, IndexError, UnicodeDecodeError, DecodingError) as problem:
            raise Hangup(f"a message that can't be read: {problem!r}") from None
        finally:
            self._running = None
        return False

    def _fail(self, code: str, message: str, problem: SqlError | None = None) -> None:
        fields = {"S": "ERROR", "V": "ERROR", "C": code, "M": message}
        if problem is not None and problem.position is not None:
            fields["P"] = str(problem.position.offset + 1)
        if problem is not None and problem.advice is not None:
            fields["H"] = problem.advice
        self._send(ErrorResponse(fields=fields))

    def cancel(self) -> None:
        """End the statement that runs, as its client asks by another connection."""
        if self._running is not None:
            self._is_cancelled = True
            self._running.cancel()

    # -- simple queries -------------------------------------------------------------------------------

    async def _simple(self, text: str) -> None:
        statements = split(text)
        if not statements:
            self._send(EmptyQueryResponse())
        for each in statements:
            await self._close_portal("")
            result = await self._run(each)
            try:
                await self._whole(result)
            finally:
                await result.close()

    async def _run(self, text: str) -> Result:
        assert self._answers is not None
        result = await self._answers.run(text)
        if result.tag == "BEGIN":
            self._in_block = True
        elif result.tag in ("COMMIT", "ROLLBACK"):
            self._in_block = False
        for each in result.notices:
            self._send(NoticeResponse(fields={"S": "NOTICE", "V": "NOTICE", "C": "00000", "M": each}))
        return result

    async def _whole(self, result: Result) -> None:
        if result.columns is None:
            self._send(CommandComplete(tag=result.tag))
            return
        self._send(described(result.columns, [TEXT_FORMAT]))
        encoders = [encoder(each.type, TEXT_FORMAT) for each in result.columns]
        count = 0
        assert result.rows is not None
        async for chunk in result.rows:
            for row in chunk:
                self._send(_data(row, encoders))
            count += len(chunk)
            await self._drain()
        self._send(CommandComplete(tag=f"{result.tag} {count}"))

    # -- extended queries -----------------------------------------------------------------------------

    async def _extended(self, kind: bytes, data: memoryview) -> None:
        match kind:
            case b"P":
                self._parse(Parse.decode(data))
            case b"B":
                await self._bind(Bind.decode(data))
            case b"D":
                await self._describe(Describe.decode(data))
            case b"E":
                await self._execute(Execute.decode(data))
            case b"C":
                await self._close(Close.decode(data))
            case _:
                raise SqlError(f"messages of kind {kind!r} are not known", None)

    def _parse(self, message: Parse) -> None:
        if len(self._prepared) >= MAX_PREPARED:
            raise SqlError(f"there are {MAX_PREPARED} prepared statements already", None)
        statements = split(message.query)
        if len(statements) > 1:
            raise SqlError("a prepared statement is one statement", None)
        text = statements[0] if statements else ""
        types = [*message.param_types]
        types += [TEXT_OID] * (parameters_of(text) - len(types))
        self._prepared[message.statement] = _Prepared(text, [each or TEXT_OID for each in types])
        self._send(ParseComplete())

    async def _bind(self, message: Bind) -> None:
        prepared = self._found(message.statement)
        values, forms = message.param_values, message.param_formats
        if len(values) != len(prepared.types):
            raise SqlError(f"there are {len(values)} values for {len(prepared.types)} parameters", None)
        literals = [
            parameter_text(value, oid, _form(forms, at))
            for at, (value, oid) in enumerate(zip(values, prepared.types, strict=True))
        ]
        await self._close_portal(message.portal)
        text = with_parameters(prepared.text, literals)
        self._portals[message.portal] = _Portal(text, message.result_formats)
        self._send(BindComplete())

    def _found(self, name: str) -> _Prepared:
        found = self._prepared.get(name)
        if found is None:
            raise SqlError(f"there is no prepared statement {name!r}", None)
        return found

    def _portal(self, name: str) -> _Portal:
        found = self._portals.get(name)
        if found is None:
            raise SqlError(f"there is no portal {name!r}", None)
        return found

    async def _describe(self, message: Describe) -> None:
        assert self._answers is not None
        if message.kind == "S":
            prepared = self._found(message.name)
            self._send(ParameterDescription(type_oids=list(prepared.types)))
            text = with_parameters(prepared.text, ["NULL"] * len(prepared.types))
            columns = await self._answers.describe(text) if prepared.text else None
            self._send(NoData() if columns is None else described(columns, [TEXT_FORMAT]))
            return
        portal = self._portal(message.name)
        columns = await self._answers.describe(portal.text) if portal.text else None
        self._send(NoData() if columns is None else described(columns, portal.formats))

    async def _execute(self, message: Execute) -> None:
        portal = self._portal(message.portal)
        if not portal.text:
            self._send(EmptyQueryResponse())
            return
        if portal.result is None:
            portal.result = await self._run(portal.text)
            if portal.result.rows is not None:
                portal.chunks = aiter(portal.result.rows)
        result = portal.result
        if result.columns is None:
            self._send(CommandComplete(tag=result.tag))
            return
        encoders = [encoder(each.type, _form(portal.formats, at)) for at, each in enumerate(result.columns)]
        count, most = 0, message.max_rows or None
        while most is None or count < most:
            if not portal.rest:
                assert portal.chunks is not None
                chunk = await anext(portal.chunks, None)
                if chunk is None:
                    self._send(CommandComplete(tag=f"{result.tag} {count}"))
                    return
                portal.rest = list(chunk)
                if most is None:
                    await self._drain()
                continue
            taken = portal.rest if most is None else portal.rest[: most - count]
            portal.rest = portal.rest[len(taken) :]
            for row in taken:
                self._send(_data(row, encoders))
            count += len(taken)
        self._send(PortalSuspended())

    async def _close(self, message: Close) -> None:
        if message.kind == "S":
            self._prepared.pop(message.name, None)
        else:
            await self._close_portal(message.name)
        self._send(CloseComplete())

    async def _close_portal(self, name: str) -> None:
        portal = self._portals.pop(name, None)
        if portal is not None and portal.result is not None:
            await portal.result.close()

    async def _close_portals(self) -> None:
        for name in list(self._portals):
            with contextlib.suppress(SqlError, ClusterError):
                await self._close_portal(name)


def described(columns: Sequence[Column], formats: Sequence[int]) -> RowDescription:
    """The description of rows."""
    fields = []
    for at, each in enumerate(columns):
        of = pg_type(each.type)
        fields.append(
            FieldDescription(
                name=each.name,
                type_oid=of.oid,
                type_size=of.size,
                type_modifier=modifier(each.type),
                format_code=_form(formats, at),
            )
        )
    return RowDescription(fields=fields)


def _form(formats: Sequence[int], at: int) -> int:
    """The format of one of several values: none said is text, one said is that of all."""
    if not formats:
        return TEXT_FORMAT
    return formats[0] if len(formats) == 1 else formats[at]


def _data(row: Sequence[Any], encoders: Sequence[Any]) -> DataRow:
    cells = zip(row, encoders, strict=True)
    return DataRow(columns=[None if value is None else encode(value) for value, encode in cells])
