"""Debezium's MariaDbConnector: a server's changes as records, in the order of its binary log.

One source partition, the server. The order that must not change: the schema history of a place, then records
whose offset is that place. The server keeps its log by itself (expire_logs_days): where it no longer has the
place that an offset names, snapshot.mode says whether tables are copied again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import ClassVar, Final

import pymysql

import ottla
from ottla.client.errors import ClusterError
from ottla.config.setting import Table as SettingsTable
from ottla.config.settings import Settings
from ottla.connect.cdc.core import settings as shared
from ottla.connect.cdc.core.envelope import HEARTBEAT_KEY, HEARTBEAT_VALUE, heartbeat_key, heartbeat_value
from ottla.connect.cdc.core.tables import TableShape
from ottla.connect.cdc.mariadb import settings as own
from ottla.connect.cdc.mariadb.history import HistoryError, HistoryRecord
from ottla.connect.cdc.mariadb.model import CREATE, Table, TableChange, TableId, Tables
from ottla.connect.cdc.mariadb.position import (
    FIRST_POSITION,
    GtidPosition,
    Position,
    position_of,
    whole_transactions,
)
from ottla.connect.cdc.mariadb.replication import NOTHING, BinlogConnection, Purged, ReplicationError
from ottla.connect.cdc.mariadb.server import (
    Connection,
    LogPlace,
    SetupError,
    check_privileges,
    check_server,
    connect,
    describe,
    is_access_problem,
    log_files,
    read_charsets,
    read_tables,
    run,
)
from ottla.connect.cdc.mariadb.settings import SnapshotMode
from ottla.connect.cdc.mariadb.signalled import SignalledStream, open_signals
from ottla.connect.cdc.mariadb.snapshot import (
    Snapshot,
    copy_tables,
    history_records,
    open_snapshot,
    release,
    schema_records,
)
from ottla.connect.cdc.mariadb.translation import Translator
from ottla.connect.cdc.signalling import settings as signalling
from ottla.connect.cdc.signalling.signalling import Signalling
from ottla.connect.data.record import (
    Record,
    SourceOffset,
    SourcePartition,
    SourceProgress,
    SourceRecord,
)
from ottla.connect.plugins.api import RetriableError
from ottla.connect.plugins.required import require

SERVER: Final = "server"
MAX_EVENTS_A_TURN: Final = 20_000
"""Events that are read in one turn, also where none of them gives a record."""
PROGRESS_SECONDS: Final = 10.0
"""How often the place of a stream without records is told."""
ASK_SECONDS: Final = 0.05
"""How long a turn waits for events while the stream has a place to reach."""
_NO_DATA: Final = frozenset({SnapshotMode.NO_DATA, SnapshotMode.SCHEMA_ONLY})
_log = logging.getLogger(__name__)


class MariaDbConnector:
    """The changes of one server."""

    TABLE: ClassVar[SettingsTable] = own.TABLE
    VERSION: ClassVar[str] = ottla.__version__

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._options = own.connect_options(settings)
        self._shaping = own.shaping(settings)
        self._events = own.event_options(settings)
        self._sources = own.gtid_sources(settings)
        self._history = own.history(settings)
        self._mode = settings[own.SNAPSHOT_MODE]
        self._server_id = require(settings, own.SERVER_ID)
        signalling.check(settings)
        self._copied_in_this_run = False
        self._stream: BinlogConnection | None = None
        self._signals: Signalling | None = None

    def partitions(self) -> Sequence[SourcePartition]:
        return ({SERVER: self._events.names.prefix},)

    def read(
        self, partition: SourcePartition, offset: SourceOffset | None
    ) -> Iterator[Sequence[SourceRecord]]:
        position = None if offset is None else whole_transactions(offset, position_of(offset))
        with (
            _errors(),
            closing(connect(self._options)) as connection,
            self._signals_of(partition, offset),
        ):
            check_server(connection)
            check_privileges(connection)
            while True:
                try:
                    yield from self._read(connection, partition, position)
                    return
                except Purged as problem:
                    if not self._can_copy_again():
                        raise SetupError(_purged(problem, position)) from problem
                    _log.warning("%s: tables are copied again", _purged(problem, position))
                    position = None

    def committed(self, partition: SourcePartition, offset: SourceOffset) -> None:
        """The server keeps no place for its readers; the topic of signals does."""
        if self._signals is not None:
            self._signals.committed(offset)

    def close(self) -> None:
        self._close_stream()
        self._history.store.close()

    @contextmanager
    def _signals_of(self, partition: SourcePartition, offset: SourceOffset | None) -> Iterator[None]:
        """Whatever takes signals, while the block runs."""
        with open_signals(
            self._settings, self._options, self._shaping, self._events, partition, offset
        ) as signals:
            self._signals = signals
            try:
                yield
            finally:
                self._signals = None

    # -- before the stream ---------------------------------------------------------------------------

    def _read(
        self, connection: Connection, partition: SourcePartition, position: Position | None
    ) -> Generator[Sequence[SourceRecord], None, None]:
        tables = None
        if position is not None:
            tables = self._known_tables(connection, position)
            if tables is None:
                position = None
        if position is None and self._mode is SnapshotMode.NEVER:
            position, tables = Position(log_files(connection)[0], FIRST_POSITION), read_charsets(connection)
        if position is None or self._needs_copy(position):
            position, tables = yield from self._copy(connection, partition, position, tables)
            self._copied_in_this_run = True
        assert tables is not None
        if self._mode is not SnapshotMode.INITIAL_ONLY:
            yield from self._follow(connection, partition, position, tables)

    def _known_tables(self, connection: Connection, position: Position) -> Tables | None:
        """The tables as of a place, by the history; None: to be copied again. Raises SetupError."""
        if self._mode is SnapshotMode.RECOVERY:
            return self._described_now(connection, position)
        tables = self._history.recover(position)
        if tables is not None or self._mode is SnapshotMode.NEVER:
            return tables or read_charsets(connection)
        if self._can_copy_again():
            _log.warning("the schema history is gone: tables are copied again")
            return None
        raise SetupError(
            "the schema history is empty, but the connector has an offset: was its topic or file removed? "
            "Set snapshot.mode to recovery once to begin it again from the tables as they are (nothing may "
            "have changed their columns since), or to when_needed to copy the tables again"
        )

    def _described_now(self, connection: Connection, position: Position) -> Tables:
        tables = read_charsets(connection)
        records = []
        for id in read_tables(connection):
            found = describe(connection, id, tables)
            if found is not None:
                change = TableChange(CREATE, id, found.table)
                records.append(HistoryRecord(position, id.database, found.ddl, (change,)))
        self._history.append(records)
        return tables

    def _can_copy_again(self) -> bool:
        return self._mode in (SnapshotMode.WHEN_NEEDED, SnapshotMode.ALWAYS)

    def _needs_copy(self, position: Position) -> bool:
        """Whether tables are to be copied before the stream goes on."""
        if position.copied is not None:
            return True
        return self._mode is SnapshotMode.ALWAYS and not self._copied_in_this_run

    def _copy(
        self,
        connection: Connection,
        partition: SourcePartition,
        position: Position | None,
        tables: Tables | None,
    ) -> Generator[Sequence[SourceRecord], None, tuple[Position, Tables]]:
        """The rows of the tables that are not copied yet; the place where the stream goes on."""
        with closing(connect(self._options)) as copying:
            mode, timeout_ms = self._settings[own.LOCKING_MODE], self._settings[own.LOCK_TIMEOUT_MS]
            snapshot = open_snapshot(copying, mode, timeout_ms)
            place = snapshot.place
            is_first = position is None
            if position is not None and tables is not None:
                position = yield from self._follow(connection, partition, position, tables, place)
            copied = None if position is None or is_first else position.copied
            start = Position(place.file, place.position, place.gtids, 0, 0, copied or frozenset())
            if position is not None and position.copying is not None:
                start = start.begins(position.copying)
            history = history_records(snapshot, start, self._takes_ddl)
            self._history.append(history)
            if is_first and self._events.schema_changes:
                yield schema_records(history, self._events, partition)
            if self._mode not in _NO_DATA:
                left = self._to_copy(snapshot, start)
                _log.info("%d tables are copied as of %s:%d", len(left), place.file, place.position)
                size = self._settings[shared.MAX_BATCH_SIZE]
                yield from copy_tables(copying, self._events, partition, left, start, size)
            release(copying)
        return start.complete(), snapshot.tables

    def _takes_ddl(self, database: str, changes: tuple[TableChange, ...]) -> bool:
        if not self._events.only_captured_ddl:
            return True
        takes = self._shaping.filter.takes_table
        if changes:
            return any(takes(*each.id) for each in changes)
        return not database or self._shaping.filter.schemas.takes(database)

    def _to_copy(self, snapshot: Snapshot, start: Position) -> list[tuple[Table, TableShape]]:
        copied = start.copied or frozenset()
        return [
            (each.table, self._shaping.shape(each.table))
            for each in snapshot.described
            if self._shaping.filter.copies_table(*each.table.id) and str(each.table.id) not in copied
        ]

    # -- the stream ----------------------------------------------------------------------------------

    def _follow(
        self,
        connection: Connection,
        partition: SourcePartition,
        position: Position,
        tables: Tables,
        until: LogPlace | None = None,
    ) -> Generator[Sequence[SourceRecord], None, Position]:
        """The changes from a place on, up to another one; None: without end. Returns the place."""
        around = _Around(self, connection, tables)
        takes = self._sources.takes if self._settings[own.GTID_FILTERS_DML] else _every
        translator = Translator(self._events, self._shaping, partition, position, tables, around, takes)
        if until is not None and not position.events and _is_at(position, until):
            return position
        signalled = None
        if self._signals is not None:
            signalled = SignalledStream(translator, self._signals, self._events)
        stream = BinlogConnection(self._options)
        self._stream = stream
        heart = _Heart(self._settings[shared.HEARTBEAT_MS], self._settings[shared.HEARTBEAT_QUERY])
        pace = _Pace(position)
        try:
            gtids = self._asked(position)
            stream.start(self._server_id, gtids, position.file, position.position, self._settings[own.QUERY])
            is_there = False
            while not is_there:
                if signalled is not None:
                    signalled.turn()
                batch, is_there = self._batch(stream, translator, until, signalled)
                if heart.is_due():
                    heart.act(connection)
                    if translator.is_between:
                        beat = self._heartbeat(partition, translator.position)
                        batch.append(beat if signalled is None else signalled.stamped(beat))
                if until is not None and not batch and not is_there:
                    stream.wait(ASK_SECONDS)
                if not batch and translator.is_between and pace.is_due(translator.position):
                    place = translator.position.offset()
                    yield SourceProgress(
                        partition, place if signalled is None else signalled.stamped_place(place)
                    )
                else:
                    yield batch
            return translator.position
        finally:
            self._close_stream()

    def _asked(self, position: Position) -> GtidPosition | None:
        """The transactions behind which the log is asked for, of the sources that are read."""
        if not position.gtids.domains:
            return None
        return GtidPosition(
            {
                domain: (server, sequence)
                for domain, (server, sequence) in position.gtids.domains.items()
                if self._sources.takes(f"{domain}-{server}")
            }
        )

    def _batch(
        self,
        stream: BinlogConnection,
        translator: Translator,
        until: LogPlace | None,
        signalled: SignalledStream | None,
    ) -> tuple[list[SourceRecord], bool]:
        """What has come: up to a batch of records, and whether the stream is where it has to go."""
        batch: list[SourceRecord] = []
        limit = self._settings[shared.MAX_BATCH_SIZE]
        take = translator.take
        if signalled is not None:
            take = signalled.take
            batch += signalled.due()
        for _ in range(MAX_EVENTS_A_TURN):
            found = stream.receive()
            if found is NOTHING:
                break
            header, event = found
            batch += take(header, event, time.time_ns())
            if until is not None and translator.is_between and _is_behind(translator, until):
                return batch, True
            if len(batch) >= limit:
                break
        return batch, False

    def _heartbeat(self, partition: SourcePartition, position: Position) -> SourceRecord:
        names = self._events.names
        record = Record(
            names.heartbeat_topic(),
            None,
            heartbeat_key(names.prefix),
            HEARTBEAT_KEY,
            heartbeat_value(time.time_ns() // 1_000_000),
            HEARTBEAT_VALUE,
        )
        return SourceRecord(record, partition, position.offset())

    def keep(self, records: Sequence[HistoryRecord]) -> None:
        """Write to the schema history, durably. Raises HistoryError."""
        self._history.append(records)

    def _close_stream(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()


def _every(_: str) -> bool:
    return True


def _is_at(position: Position, until: LogPlace) -> bool:
    """Whether nothing lies between a place and another one."""
    if position.gtids.domains or until.gtids.domains:
        return position.gtids == until.gtids
    return position.is_behind(until.file, until.position)


def _is_behind(translator: Translator, until: LogPlace) -> bool:
    file, end = translator.place
    return Position(file, end).is_behind(until.file, until.position)


def _purged(problem: Purged, position: Position | None) -> str:
    where = "the oldest binary log" if position is None else f"{position.file}:{position.position}"
    if position is not None and position.gtids.domains:
        where = f"GTID {position.gtids}"
    return (
        f"the server can't send its binary log from {where} on: {problem}. Its log was purged, or this is "
        "another server that lacks those transactions. Set snapshot.mode to when_needed to copy the tables "
        "again, or reset the connector's offsets"
    )


class _Around:
    """The history, and the server's tables of now."""

    def __init__(self, connector: MariaDbConnector, connection: Connection, tables: Tables) -> None:
        self._connector = connector
        self._connection = connection
        self._tables = tables

    def keep(self, records: Sequence[HistoryRecord]) -> None:
        self._connector.keep(records)

    def describe(self, table: TableId) -> Table | None:
        apart = Tables({}, dict(self._tables.charsets), self._tables.server_charset)
        found = describe(self._connection, table, apart)
        return None if found is None else found.table


class _Pace:
    """When the place of a stream without records is told: else a purge of the log would leave it behind."""

    def __init__(self, position: Position) -> None:
        self._told = position
        self._due = time.monotonic() + PROGRESS_SECONDS

    def is_due(self, place: Position) -> bool:
        if place == self._told or time.monotonic() < self._due:
            return False
        self._told = place
        self._due = time.monotonic() + PROGRESS_SECONDS
        return True


class _Heart:
    """When a heartbeat is due, and the statement that goes with it. interval_ms: 0 for none."""

    def __init__(self, interval_ms: int, query: str | None) -> None:
        self._interval = interval_ms / 1000
        self._query = query
        self._due = time.monotonic() + self._interval

    def is_due(self) -> bool:
        if self._interval <= 0 or time.monotonic() < self._due:
            return False
        self._due = time.monotonic() + self._interval
        return True

    def act(self, connection: Connection) -> None:
        if self._query:
            run(connection, self._query)


@contextmanager
def _errors() -> Iterator[None]:
    """A server that is away is asked again; one that refuses the user is not."""
    try:
        yield
    except pymysql.Error as problem:
        words = " ".join(str(each) for each in problem.args)
        if is_access_problem(problem):
            raise SetupError(f"the server refuses the user: {words}") from problem
        raise RetriableError(words) from problem
    except (ReplicationError, OSError, ClusterError, HistoryError) as problem:
        raise RetriableError(" ".join(str(problem).split())) from problem
