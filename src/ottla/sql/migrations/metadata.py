"""The stream of events on a server of SQL, and the table of the last one of each version.

Both are over one topic of one partition: the table is no query, so that asking for it, and applying
migrations, needs no Spark. The pull query of the stream reads to the end that the topic has when it is asked,
and an INSERT is answered when the row is in the topic: so a run sees its own events, and all before them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from ottla.client.errors import ClusterError
from ottla.config.errors import UserError
from ottla.sql.migrations.events import CURRENT, Event, State
from ottla.sql.terminal.api import SqlApi
from ottla.sql.terminal.http import SqlRefusal
from ottla.sql.terminal.row_stream import Row
from ottla.sql.types.sql_types import text_literal

ANSWER_SECONDS: Final = 60.0
MAX_EVENTS: Final = 1_000_000
MAX_REASON_CHARACTERS: Final = 2_000
_RUN: Final = re.compile(r"run (\w+)(?: after (\w*))?")
COLUMNS: Final = (
    "version",
    "name",
    "state",
    "checksum",
    "started_on",
    "completed_on",
    "previous",
    "error_reason",
)
NO_PREVIOUS: Final = "<none>"


@dataclass(frozen=True, slots=True)
class Names:
    """What the metadata are called. replicas: of the topic."""

    stream: str = "MIGRATION_EVENTS"
    table: str = "MIGRATION_SCHEMA_VERSIONS"
    topic: str | None = None
    replicas: int = 1


class Metadata:
    """The metadata of one project. All methods raise ClusterError."""

    def __init__(self, api: SqlApi, names: Names) -> None:
        self._api, self._names = api, names

    def initialize(self) -> None:
        """Make the stream and the table that are missing."""
        service = str(self._api.info().get("ksqlServiceId") or "")
        topic = self._names.topic or f"{service}ksql_{self._names.stream}"
        columns = ", ".join(f"{each} STRING" for each in COLUMNS)
        settings = f"kafka_topic = {text_literal(topic)}, key_format = 'KAFKA', value_format = 'JSON'"
        # A kill between the two leaves the stream, and the next call makes the table.
        self._api.statements(
            f"CREATE STREAM IF NOT EXISTS {self._names.stream} (version_key STRING KEY, {columns}) "
            f"WITH ({settings}, partitions = 1, replicas = {self._names.replicas});"
        )
        self._api.statements(
            f"CREATE SOURCE TABLE IF NOT EXISTS {self._names.table} "
            f"(version_key STRING PRIMARY KEY, {columns}) WITH ({settings});"
        )

    def destroy(self) -> None:
        """Remove table, stream and topic. A kill between leaves what the next call removes."""
        self._api.statements(f"DROP TABLE IF EXISTS {self._names.table};")
        self._api.statements(f"DROP STREAM IF EXISTS {self._names.stream} DELETE TOPIC;")

    def events(self) -> list[Event]:
        """All events, in their order. Raises UserError where the metadata are not there."""
        query = f"SELECT version_key, {', '.join(COLUMNS)} FROM {self._names.stream};"
        try:
            return [_event(row) for row in self._rows(query)]
        except SqlRefusal as refusal:
            if refusal.status == 400 and self._names.stream.upper() in refusal.message.upper():
                raise UserError(
                    f"the metadata of migrations can't be read ({refusal.message.splitlines()[0]}): "
                    "`ottla sql migrate initialize-metadata` makes them"
                ) from None
            raise

    def write(self, event: Event) -> None:
        """Add an event: it is in the topic when this returns."""
        reason = event.reason
        if event.run is not None:
            reason = f"run {event.run}" + ("" if event.after is None else f" after {event.after}")
        values = (
            event.key,
            str(event.version),
            event.name,
            event.state.value,
            event.checksum,
            str(event.started_on or ""),
            str(event.completed_on or ""),
            NO_PREVIOUS if event.previous is None else str(event.previous),
            (reason or "")[:MAX_REASON_CHARACTERS],
        )
        names = ", ".join(("version_key", *COLUMNS))
        told = ", ".join(map(text_literal, values))
        self._api.statements(f"INSERT INTO {self._names.stream} ({names}) VALUES ({told});")

    def _rows(self, query: str) -> list[Row]:
        rows: list[Row] = []
        with self._api.query(query) as stream:
            while True:
                chunk = stream.take(ANSWER_SECONDS)
                if chunk is None:
                    raise ClusterError(f"the events of migrations did not come in {ANSWER_SECONDS:g} s")
                rows += chunk.rows
                if len(rows) > MAX_EVENTS:
                    raise ClusterError(f"{self._names.stream} has more than {MAX_EVENTS:,} events")
                if chunk.is_last:
                    return rows


def _event(row: Row) -> Event:
    key, version, name, state, checksum, started, completed, previous, reason = (
        "" if each is None else str(each) for each in row
    )
    run = _RUN.fullmatch(reason) if state == State.RUNNING.value else None
    try:
        return Event(
            CURRENT if key == CURRENT else str(int(key)),
            int(version),
            name,
            State(state),
            checksum,
            _number(started),
            _number(completed),
            int(previous) if previous.isdecimal() else None,
            None if run is not None else reason or None,
            None if run is None else run[1],
            None if run is None else run[2],
        )
    except ValueError:
        raise UserError(
            f"the metadata of migrations have a row that is none of theirs: {_shown(row)}"
        ) from None


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def _shown(row: list[Any]) -> str:
    return repr(row)[:300]
