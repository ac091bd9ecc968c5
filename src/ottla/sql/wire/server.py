"""The listener of PostgreSQL's protocol: TLS where it is asked for, startups, cancel requests."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import ssl
import struct
from collections.abc import Callable
from functools import partial
from typing import Final

from pygwire.messages import ErrorResponse, StartupMessage

from ottla.sql.wire.connection import (
    CANCEL_REQUEST,
    GSS_REQUEST,
    LOGIN_SECONDS,
    MAX_STARTUP_BYTES,
    PROTOCOL_3,
    SSL_REQUEST,
    Connection,
    Hangup,
)
from ottla.sql.wire.port import Admit

MAX_CONNECTIONS: Final = 500
SECRET_BYTES: Final = 4
_HEAD: Final = struct.Struct(">II")

log = logging.getLogger("ottla.sql.wire")


class WireServer:
    """Listens at one address. tls: gives the context of a new connection; None without TLS."""

    def __init__(
        self, admit: Admit, *, asks_password: bool, tls: Callable[[], ssl.SSLContext] | None = None
    ) -> None:
        self._admit = admit
        self._asks_password = asks_password
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._connections: dict[int, tuple[bytes, Connection]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> int:
        """Listen; the port. Raises OSError."""
        self._server = await asyncio.start_server(self._accept, host, port)
        found: int = self._server.sockets[0].getsockname()[1]
        return found

    async def stop(self) -> None:
        """End all connections."""
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks))

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._serve(reader, writer)
        except Hangup as problem:
            log.debug("a connection ends: %s", problem)
        except (asyncio.IncompleteReadError, OSError, TimeoutError, ssl.SSLError) as problem:
            log.debug("a connection ends: %r", problem)
        except asyncio.CancelledError:
            pass  # the server stops
        except Exception:
            log.exception("a connection ends by a fault of the server")
        finally:
            self._tasks.discard(task)
            with contextlib.suppress(OSError, ssl.SSLError):
                writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(LOGIN_SECONDS):
            startup = await self._startup(reader, writer)
            if startup is None:
                return
            if len(self._connections) >= MAX_CONNECTIONS:
                await self._refuse(writer, "53300", f"there are {MAX_CONNECTIONS} connections already")
                return
            number, secret = secrets.randbits(31), secrets.token_bytes(SECRET_BYTES)
            secured = writer.get_extra_info("ssl_object")
            certificate = None if secured is None else secured.getpeercert(binary_form=True)
            admit = partial(self._admit, certificate)
            connection = Connection(reader, writer, admit, (number, secret), self._asks_password)
            if not await connection.log_in(startup):
                return
        self._connections[number] = secret, connection
        try:
            await connection.serve()
        finally:
            del self._connections[number]

    async def _startup(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> StartupMessage | None:
        """The client's startup, behind its questions for encryption; None where there is to be none."""
        is_secured = False
        while True:
            length, code = _HEAD.unpack(await reader.readexactly(_HEAD.size))
            if not _HEAD.size <= length <= MAX_STARTUP_BYTES:
                raise Hangup(f"a startup of {length} bytes")
            data = await reader.readexactly(length - _HEAD.size)
            if code == SSL_REQUEST:
                writer.write(b"N" if self._tls is None or is_secured else b"S")
                await writer.drain()
                if self._tls is not None and not is_secured:
                    if _has_more(reader):
                        # It came unencrypted, from anybody between the client and here, and would be read
                        # as if the client had sent it encrypted.
                        raise Hangup("bytes behind the question for encryption")
                    await writer.start_tls(self._tls())
                    is_secured = True
            elif code == GSS_REQUEST:
                writer.write(b"N")
                await writer.drain()
            elif code == CANCEL_REQUEST:
                self._cancel(data)
                return None
            elif code >> 16 != PROTOCOL_3:
                await self._refuse(writer, "0A000", f"protocol {code >> 16}.{code & 0xFFFF} is not known")
                return None
            elif self._tls is not None and not is_secured:
                await self._refuse(writer, "28000", "connections have to be encrypted here: sslmode=require")
                return None
            else:
                return StartupMessage.decode(memoryview(struct.pack(">I", code) + data))

    def _cancel(self, data: bytes) -> None:
        number = int.from_bytes(data[:4], "big")
        found = self._connections.get(number)
        if found is not None and secrets.compare_digest(found[0], data[4:]):
            found[1].cancel()

    async def _refuse(self, writer: asyncio.StreamWriter, code: str, message: str) -> None:
        fields = {"S": "FATAL", "V": "FATAL", "C": code, "M": message}
        writer.write(ErrorResponse(fields=fields).to_wire())
        await writer.drain()


def _has_more(reader: asyncio.StreamReader) -> bool:
    """Whether bytes have come that nobody has read; one of them is lost. Without a step of the event loop."""
    reading = reader.read(1)
    try:
        reading.send(None)
    except StopIteration as read:
        return bool(read.value)
    reading.close()
    return False
