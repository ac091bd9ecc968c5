"""A replication connection: commands, and the stream of a slot with its confirmations.

libpq's own functions by `psycopg.pq`: reading never waits, and a message is copied once. PostgreSQL's manual,
"Streaming Replication Protocol". One thread at a time.
"""

from __future__ import annotations

import enum
import struct
import time
from dataclasses import dataclass
from typing import Final

from psycopg import pq

from ottla.connect.cdc.postgres.continuity import Switches, switches_of
from ottla.connect.cdc.postgres.pgoutput import POSTGRES_EPOCH_US
from ottla.connect.cdc.postgres.position import History, lsn_of, lsn_text

_DATA: Final = ord("w")
_KEEPALIVE: Final = ord("k")
_DATA_HEADER: Final = struct.Struct(">xQQq")
_KEEPALIVE_HEADER: Final = struct.Struct(">xQqB")
_STATUS: Final = struct.Struct(">cQQQqB")
DATA_HEADER_BYTES: Final = _DATA_HEADER.size
_OK: Final = frozenset({pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK})


class ReplicationError(Exception):
    """The server refused a command, or the connection is lost."""


class _Nothing(enum.Enum):
    """No message is there now."""

    NOTHING = "nothing"


NOTHING: Final = _Nothing.NOTHING


@dataclass(frozen=True, slots=True)
class StreamData:
    """A message of the output plugin. lsn: its place in the log."""

    lsn: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Keepalive:
    """The server is alive, and has sent all that was committed before this place."""

    wal_end: int
    wants_reply: bool


@dataclass(frozen=True, slots=True)
class CreatedSlot:
    """A new slot. consistent_point: transactions that commit from there on come in its stream."""

    consistent_point: int
    snapshot: str | None


class ReplicationConnection:
    """A connection with `replication=database`. Raises ReplicationError."""

    def __init__(self, conninfo: str) -> None:
        """conninfo: of libpq, with `replication=database` in it."""
        self._connection = pq.PGconn.connect(conninfo.encode())
        if self._connection.status != pq.ConnStatus.OK:
            problem = _words(self._connection.error_message)
            self._connection.finish()
            raise ReplicationError(f"cannot connect to PostgreSQL: {problem}")
        self._confirmed = 0
        self._received = 0
        self._status_sent_at = time.monotonic()
        self._wants_reply = False

    # -- commands -----------------------------------------------------------------------------------

    def identify(self) -> tuple[History, Switches]:
        """The history of the server's log, and where it left earlier timelines."""
        system, timeline = self._run("IDENTIFY_SYSTEM")[0][:2]
        history = History(str(system), int(timeline or 0))
        if history.timeline <= 1:
            return history, {}
        rows = self._run(f"TIMELINE_HISTORY {history.timeline}")
        return history, switches_of(rows[0][1] or "")

    def create_slot(self, name: str, *, temporary: bool, export: bool) -> CreatedSlot:
        """Make a logical slot of pgoutput. export: its snapshot can be used until the next command here."""
        kind = "TEMPORARY LOGICAL" if temporary else "LOGICAL"
        snapshot = "EXPORT_SNAPSHOT" if export else "NOEXPORT_SNAPSHOT"
        rows = self._run(f'CREATE_REPLICATION_SLOT "{name}" {kind} pgoutput {snapshot}')
        return CreatedSlot(lsn_of(rows[0][1] or "0/0"), rows[0][2] or None)

    def drop_slot(self, name: str) -> None:
        """Remove a slot that nobody uses."""
        self._run(f'DROP_REPLICATION_SLOT "{name}"')

    def start(self, slot: str, lsn: int, publication: str) -> None:
        """Begin the stream of a slot: transactions that commit from this place on. It confirms nothing."""
        quoted = publication.replace('"', '""').replace("'", "''")
        command = (
            f'START_REPLICATION SLOT "{slot}" LOGICAL {lsn_text(lsn)} '
            f"(proto_version '1', publication_names '\"{quoted}\"', messages 'true')"
        )
        result = self._connection.exec_(command.encode())
        if result.status != pq.ExecStatus.COPY_BOTH:
            raise ReplicationError(_words(result.error_message))
        self._received = lsn
        self._connection.nonblocking = 1

    def _run(self, command: str) -> list[list[str | None]]:
        result = self._connection.exec_(command.encode())
        if result.status not in _OK:
            raise ReplicationError(_words(result.error_message))
        return [
            [
                None if (value := result.get_value(row, column)) is None else value.decode()
                for column in range(result.nfields)
            ]
            for row in range(result.ntuples)
        ]

    # -- the stream ----------------------------------------------------------------------------------

    def receive(self) -> StreamData | Keepalive | _Nothing:
        """The next message, if it is there."""
        length, data = self._connection.get_copy_data(1)
        if length == 0:
            self._connection.consume_input()
            length, data = self._connection.get_copy_data(1)
            if length == 0:
                return NOTHING
        if length < 0:
            raise self._ended()
        kind = data[0]
        if kind == _DATA:
            lsn, _, _ = _DATA_HEADER.unpack_from(data)
            self._received = max(self._received, lsn)
            return StreamData(lsn, bytes(data[DATA_HEADER_BYTES:]))
        if kind == _KEEPALIVE:
            wal_end, _, wants_reply = _KEEPALIVE_HEADER.unpack_from(data)
            self._received = max(self._received, wal_end)
            self._wants_reply |= bool(wants_reply)
            return Keepalive(wal_end, bool(wants_reply))
        raise ReplicationError(f"the stream has a message of kind {chr(kind)!r}")

    @property
    def confirmed(self) -> int:
        """The place that was confirmed last."""
        return self._confirmed

    def confirm(self, lsn: int) -> None:
        """The server may forget what lies before this place. Told with the next status."""
        if lsn > self._confirmed:
            self._confirmed = lsn
            self._wants_reply = True

    def tell_status(self, interval_seconds: float, asks: bool = False) -> None:
        """Tell the server what is confirmed, where something is new or the interval is over.

        asks: for a keepalive in return.
        """
        now = time.monotonic()
        if not self._wants_reply and now - self._status_sent_at < interval_seconds:
            return
        at_us = time.time_ns() // 1000 - POSTGRES_EPOCH_US
        # Written, flushed, applied: the second one is what the slot keeps.
        received = max(self._received, self._confirmed)
        status = _STATUS.pack(b"r", received, self._confirmed, self._confirmed, at_us, asks)
        if self._connection.put_copy_data(status) < 0:
            raise self._ended()
        # What does not go out now goes with the next: it is 34 bytes.
        self._connection.flush()
        self._status_sent_at = now
        self._wants_reply = False

    def _ended(self) -> ReplicationError:
        words = _words(self._connection.error_message)
        if not words:
            self._connection.nonblocking = 0
            result = self._connection.get_result()
            words = "" if result is None else _words(result.error_message)
        return ReplicationError(words or "the server ended the stream")

    def close(self) -> None:
        """Give it up. Safe to call twice."""
        self._connection.finish()


def _words(message: bytes | str) -> str:
    text = message.decode("utf-8", "replace") if isinstance(message, bytes) else message
    return " ".join(text.split())
