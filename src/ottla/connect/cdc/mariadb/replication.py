"""A connection that the server sends its binary log over; reading never waits.

PyMySQL logs in and sends the command; from then on the packets are read here, without waiting. The package
`mysql-replication` was looked at: it waits for each event, keeps names of columns in a global, and gives None
for dates that are zero and for empty sets.
"""

from __future__ import annotations

import enum
import logging
import select
import ssl
import struct
import time
from collections.abc import Mapping
from typing import Any, Final

import pymysql
from pymysql.constants import COMMAND

from ottla.connect.cdc.mariadb.binlog import (
    BinlogError,
    Event,
    FormatDescription,
    Header,
    decode,
    decode_header,
)
from ottla.connect.cdc.mariadb.position import GtidPosition

HEARTBEAT_NS: Final = 1_000_000_000
SILENCE_SECONDS: Final = 60.0
"""Without a byte for so long, also without heartbeats, the connection is given up."""
MAX_PACKET_BYTES: Final = (1 << 24) - 1
MAX_EVENT_BYTES: Final = 1 << 30
ERROR_FATAL_READING: Final = 1236
_RECEIVE_BYTES: Final = 1 << 20
_ANNOTATIONS: Final = 2
_DUMP: Final = struct.Struct("<IHI")
_log = logging.getLogger(__name__)


class Purged(Exception):
    """The server can't send the log from the place that was asked for."""


class ReplicationError(Exception):
    """The stream is lost."""


class _Nothing(enum.Enum):
    """No event is there now."""

    NOTHING = "nothing"


NOTHING: Final = _Nothing.NOTHING


class BinlogConnection:
    """A replica's connection. Raises pymysql.Error, OSError, Purged, ReplicationError, BinlogError."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        """options: of pymysql.connect."""
        self._connection = pymysql.connect(**options)
        self._socket: Any = None
        self._buffer = bytearray()
        self._at = 0
        self._has_checksum = False
        self._heard_at = time.monotonic()

    def start(
        self, server_id: int, gtids: GtidPosition | None, file: str, position: int, annotations: bool
    ) -> None:
        """Ask for the log behind these transactions, or from a place of a file where there are none."""
        with self._connection.cursor() as cursor:
            cursor.execute("SET @master_binlog_checksum = @@global.binlog_checksum")
            cursor.execute("SELECT @master_binlog_checksum")
            self._has_checksum = str(cursor.fetchall()[0][0]).upper() == "CRC32"
            cursor.execute(f"SET @master_heartbeat_period = {HEARTBEAT_NS}")
            cursor.execute("SET @mariadb_slave_capability = 4")
            if gtids is not None:
                cursor.execute("SET @slave_connect_state = %s", (str(gtids),))
                cursor.execute("SET @slave_gtid_strict_mode = 0")
                cursor.execute("SET @slave_gtid_ignore_duplicates = 0")
                file, position = "", 4
        if position > 0xFFFF_FFFF:
            raise ReplicationError(f"{file} is asked for behind 4 GiB, which takes GTIDs")
        body = _DUMP.pack(position, _ANNOTATIONS if annotations else 0, server_id) + file.encode()
        self._connection._execute_command(COMMAND.COM_BINLOG_DUMP, body)
        self._socket = self._connection._sock
        self._socket.setblocking(False)

    def receive(self) -> tuple[Header, Event] | _Nothing:
        """The next event, if it is there."""
        packet = self._packet()
        if packet is None:
            return NOTHING
        self._heard_at = time.monotonic()
        match packet[:1]:
            case b"\x00":
                data = packet[1:]
            case b"\xff":
                code = int.from_bytes(packet[1:3], "little")
                words = packet[3:].decode("utf-8", "replace").removeprefix("#HY000")
                raise (Purged if code == ERROR_FATAL_READING else ReplicationError)(words)
            case b"\xfe":
                raise ReplicationError("the server ended the stream")
            case _:
                raise ReplicationError("a packet that the protocol does not have")
        header = decode_header(data)
        event = decode(header, data, self._has_checksum)
        if isinstance(event, FormatDescription):
            self._has_checksum = event.has_checksum
        return header, event

    def _packet(self) -> bytes | None:
        """A packet, put together of parts of 16 MiB; None where it is not all there."""
        parts: list[bytes] = []
        at = self._at
        while True:
            if len(self._buffer) - at < 4 or len(self._buffer) - at < 4 + self._length(at):
                if not self._fill():
                    return None
                at, parts = self._at, []
                continue
            length = self._length(at)
            parts.append(bytes(self._buffer[at + 4 : at + 4 + length]))
            at += 4 + length
            if length < MAX_PACKET_BYTES:
                self._at = at
                return parts[0] if len(parts) == 1 else b"".join(parts)

    def _length(self, at: int) -> int:
        return self._buffer[at] | self._buffer[at + 1] << 8 | self._buffer[at + 2] << 16

    def _fill(self) -> bool:
        """More of the stream, if it is there."""
        if self._at:
            del self._buffer[: self._at]
            self._at = 0
        if len(self._buffer) > MAX_EVENT_BYTES:
            raise BinlogError(f"an event of more than {MAX_EVENT_BYTES} bytes")
        try:
            data = self._socket.recv(_RECEIVE_BYTES)
        except (BlockingIOError, InterruptedError, ssl.SSLWantReadError):
            if time.monotonic() - self._heard_at > SILENCE_SECONDS:
                raise ReplicationError(f"nothing comes from the server for {SILENCE_SECONDS:.0f} s") from None
            return False
        if not data:
            raise ReplicationError("the server closed the connection")
        self._buffer += data
        return True

    def wait(self, seconds: float) -> None:
        """Until something is there, or the time is over."""
        if self._at == len(self._buffer):
            select.select([self._socket], [], [], seconds)

    def close(self) -> None:
        """Give it up. Safe to call twice."""
        self._connection._force_close()
