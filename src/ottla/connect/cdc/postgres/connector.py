"""Debezium's PostgresConnector: a database's changes as records, in the order of commits.

One source partition, the database. The order that must not change: the publication, the slot (from then on
the server keeps its log), the copies of the tables, the stream. What is confirmed to the slot is what Kafka
has committed, together with the offset behind it; the server's log before that is given up. While nothing
comes for the captured tables, the server's keepalives move the slot.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import ClassVar, Final

import psycopg
from psycopg.conninfo import make_conninfo

import ottla
from ottla.config.setting import Table
from ottla.config.settings import Settings
from ottla.connect.cdc.core.envelope import HEARTBEAT_KEY, HEARTBEAT_VALUE, heartbeat_key, heartbeat_value
from ottla.connect.cdc.core.tables import TableShape
from ottla.connect.cdc.postgres import settings as own
from ottla.connect.cdc.postgres.catalog import (
    Connection,
    TableName,
    describe_tables,
    read_tables,
    read_types,
)
from ottla.connect.cdc.postgres.pgoutput import Begin, LogicalMessage, Message, Relation, decode
from ottla.connect.cdc.postgres.position import Position, SnapshotState, lsn_text, position_of
from ottla.connect.cdc.postgres.replication import (
    NOTHING,
    Keepalive,
    ReplicationConnection,
    ReplicationError,
)
from ottla.connect.cdc.postgres.settings import SnapshotMode
from ottla.connect.cdc.postgres.signalled import SignalledStream, Signals, Stream
from ottla.connect.cdc.postgres.signals import copy_blocking, notices_of_copy, open_signals, takes_signals
from ottla.connect.cdc.postgres.slots import (
    SetupError,
    Slot,
    advise_limit,
    check_server,
    ensure_publication,
    find_slot,
    require_wal,
)
from ottla.connect.cdc.postgres.snapshot import CopiedTable, copy_tables, open_snapshot
from ottla.connect.cdc.postgres.translation import Translator
from ottla.connect.cdc.postgres.types import TypeRegistry
from ottla.connect.cdc.signalling import settings as signalling
from ottla.connect.data.record import Record, SourceOffset, SourcePartition, SourceRecord
from ottla.connect.plugins.api import RetriableError
from ottla.connect.plugins.required import require

SERVER: Final = "server"
ASK_SECONDS: Final = 0.05
"""How often the server is asked where it is, while the stream has a place to reach."""
MAX_MESSAGES_A_TURN: Final = 20_000
"""Messages that are read in one turn, also where none of them gives a record."""
_NO_DATA: Final = frozenset({SnapshotMode.NEVER, SnapshotMode.NO_DATA})
_log = logging.getLogger(__name__)


class PostgresConnector:
    """The changes of one database, by one slot."""

    TABLE: ClassVar[Table] = own.TABLE
    VERSION: ClassVar[str] = ottla.__version__

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._conninfo = own.conninfo(settings)
        self._shaping = own.shaping(settings)
        self._events = own.event_options(settings)
        self._mode = settings[own.SNAPSHOT_MODE]
        self._slot = settings[own.SLOT_NAME]
        self._database = require(settings, own.DBNAME)
        signalling.check(settings)
        self._signals: Signals | None = None
        self._copied_in_this_run = False
        self._stream: ReplicationConnection | None = None
        self._yielded: SourceOffset | None = None
        self._has_read = False

    def partitions(self) -> Sequence[SourcePartition]:
        return ({SERVER: self._events.names.prefix},)

    def read(
        self, partition: SourcePartition, offset: SourceOffset | None
    ) -> Iterator[Sequence[SourceRecord]]:
        self._has_read = True
        with _errors(), closing(self._connect()) as connection, self._signals_of(partition, offset):
            check_server(connection)
            tables = self._captured(connection)
            ensure_publication(
                connection,
                self._settings[own.PUBLICATION_NAME],
                self._settings[own.PUBLICATION_AUTOCREATE],
                tables,
                self._settings[own.PUBLISH_VIA_ROOT],
            )
            position = None if offset is None else position_of(offset)
            begin, is_new = self._ensure_slot(connection, position)
            if is_new and position is not None:
                _log.warning(
                    "changes are missing from %s on: tables are copied again", lsn_text(position.commit)
                )
                position = None
            if position is None and self._mode in _NO_DATA:
                position = Position(begin)
            if position is None or self._needs_copy(position):
                position = yield from self._copied(connection, partition, tables, position)
                self._copied_in_this_run = True
            while self._mode is not SnapshotMode.INITIAL_ONLY:
                position = yield from self._follow(connection, partition, position)
                position = yield from self._block(connection, partition, position)

    def committed(self, partition: SourcePartition, offset: SourceOffset) -> None:
        """Kafka has everything up to here: the slot may move there."""
        if offset == self._yielded:
            self._yielded = None
        position = position_of(offset)
        if self._signals is not None:
            self._signals.signalling.committed(offset)
        if self._stream is not None:
            self._stream.confirm(position.commit)
            self._stream.tell_status(self._settings[own.STATUS_INTERVAL_MS] / 1000)

    def close(self) -> None:
        self._close_stream()
        if self._has_read and self._settings[own.SLOT_DROP_ON_STOP]:
            self._drop_slot()

    # -- before the stream ---------------------------------------------------------------------------

    def _connect(self) -> Connection:
        return psycopg.connect(self._conninfo, autocommit=True)

    def _replication(self) -> ReplicationConnection:
        return ReplicationConnection(make_conninfo(self._conninfo, replication="database"))

    def _captured(self, connection: Connection) -> list[TableName]:
        takes = self._shaping.filter.takes_table
        found = read_tables(connection, self._settings[own.PUBLISH_VIA_ROOT])
        return [each for each in found if takes(each.schema, each.name)]

    @contextmanager
    def _signals_of(self, partition: SourcePartition, offset: SourceOffset | None) -> Iterator[None]:
        """Whatever takes signals, while the block runs."""
        if not takes_signals(self._settings, offset):
            yield
            return
        with closing(self._connect()) as connection:
            self._signals = open_signals(
                self._settings, connection, self._shaping, self._events, partition, offset
            )
            try:
                yield
            finally:
                signals, self._signals = self._signals, None
                signals.signalling.close()

    def _ensure_slot(self, connection: Connection, position: Position | None) -> tuple[int, bool]:
        """The slot, made if it may be: the place that its stream begins at, and whether it is new.

        Raises SetupError.
        """
        found = find_slot(connection, self._slot, self._database)
        if found is not None and not (found.is_lost and self._can_copy_again()):
            if position is not None:
                require_wal(self._slot, found, position.commit)
            self._tell(connection, found)
            return found.confirmed, False
        if position is not None and not self._can_copy_again():
            raise SetupError(
                f"the slot {self._slot} is gone, and so are the changes from {lsn_text(position.commit)} on: "
                "set snapshot.mode to when_needed to copy the tables again, or reset the connector's offsets"
            )
        with closing(self._replication()) as replication:
            if found is not None:
                replication.drop_slot(self._slot)
            created = replication.create_slot(self._slot, temporary=False, export=False)
        _log.info("the slot %s begins at %s", self._slot, lsn_text(created.consistent_point))
        advise_limit(connection, self._slot)
        return created.consistent_point, True

    def _can_copy_again(self) -> bool:
        return self._mode in (SnapshotMode.WHEN_NEEDED, SnapshotMode.ALWAYS)

    def _tell(self, connection: Connection, slot: Slot) -> None:
        advise_limit(connection, self._slot)
        _log.info(
            "the slot %s is at %s, %d bytes of the log behind",
            self._slot,
            lsn_text(slot.confirmed),
            slot.lag_bytes,
        )

    def _needs_copy(self, position: Position) -> bool:
        """Whether tables are to be copied before the stream goes on."""
        if position.snapshot is SnapshotState.COPYING:
            return True
        return self._mode is SnapshotMode.ALWAYS and not self._copied_in_this_run

    def _copy(
        self,
        connection: Connection,
        partition: SourcePartition,
        tables: Sequence[TableName],
        position: Position | None,
    ) -> Generator[Sequence[SourceRecord], None, Position]:
        """The rows of the tables that are not copied yet; the place where the stream goes on."""
        with closing(self._replication()) as replication:
            lsn = open_snapshot(connection, replication)
        try:
            if position is None:
                position = Position(lsn)
            else:
                with closing(self._connect()) as other:
                    position = yield from self._follow(other, partition, position, lsn)
            copies = self._shaping.filter.copies_table
            left = [
                each for each in tables if each.id not in position.copied and copies(each.schema, each.name)
            ]
            _log.info("%d tables are copied as of %s", len(left), lsn_text(lsn))
            for batch in copy_tables(
                connection,
                self._events,
                partition,
                self._to_copy(connection, read_types(connection), left),
                position.at(lsn),
                lsn,
                self._settings[own.MAX_BATCH_SIZE],
            ):
                self._yielded = batch[-1].source_offset
                yield batch
            return position.at(lsn).done()
        finally:
            if not connection.closed:
                connection.rollback()

    def _copied(
        self,
        connection: Connection,
        partition: SourcePartition,
        tables: Sequence[TableName],
        position: Position | None,
    ) -> Generator[Sequence[SourceRecord], None, Position]:
        """As `_copy`, with its steps told as notifications."""
        copying = self._copy(connection, partition, tables, position)
        if self._signals is None:
            return (yield from copying)
        return (yield from notices_of_copy(self._signals.signalling, copying, [each.id for each in tables]))

    def _block(
        self, connection: Connection, partition: SourcePartition, position: Position
    ) -> Generator[Sequence[SourceRecord], None, Position]:
        """Copy what signals ask for while the stream waits: as of one place, where it goes on."""
        signals = self._signals
        assert signals is not None  # the stream ends for blocking snapshots alone
        with closing(self._replication()) as replication:
            lsn = open_snapshot(connection, replication)
        try:
            with closing(self._connect()) as other:
                position = (yield from self._follow(other, partition, position, lsn)).at(lsn)
            size = self._settings[own.MAX_BATCH_SIZE]
            for batch in copy_blocking(connection, signals, self._events, partition, position, size):
                self._yielded = batch[-1].source_offset
                yield batch
            return position
        finally:
            if not connection.closed:
                connection.rollback()

    def _to_copy(
        self, connection: Connection, registry: TypeRegistry, tables: Sequence[TableName]
    ) -> list[CopiedTable]:
        described = describe_tables(connection, [each.oid for each in tables])
        return [
            CopiedTable(
                self._shaping.of_catalog(registry, each.schema, each.name, described[each.oid]),
                [column.name for column in described[each.oid].columns],
                self._settings[own.PUBLISH_VIA_ROOT],
            )
            for each in tables
        ]

    # -- the stream ----------------------------------------------------------------------------------

    def _follow(
        self,
        connection: Connection,
        partition: SourcePartition,
        position: Position,
        until: int | None = None,
    ) -> Generator[Sequence[SourceRecord], None, Position]:
        """The changes from a place on, up to another one; None: without end. Returns the place."""
        describe = _Describer(self, connection, position)
        translator: Stream = Translator(self._events, partition, position, describe.shape)
        signalled: SignalledStream | None = None
        if self._signals is not None:
            assert isinstance(translator, Translator)
            translator = signalled = SignalledStream(translator, self._signals, self._events)
        stream = self._replication()
        self._stream = stream
        heart = _Heart(self._settings[own.HEARTBEAT_MS], self._settings[own.HEARTBEAT_QUERY])
        interval_seconds = self._settings[own.STATUS_INTERVAL_MS] / 1000
        try:
            stream.start(self._slot, position.commit, self._settings[own.PUBLICATION_NAME])
            is_there = False
            while not is_there:
                if signalled is not None:
                    signalled.turn()
                batch, is_there = self._batch(stream, translator, until)
                if heart.is_due():
                    heart.act(connection)
                    if translator.is_between:
                        beat = self._heartbeat(partition, translator.position)
                        batch.append(beat if signalled is None else signalled.stamped(beat))
                if signalled is not None:
                    batch += signalled.due()
                    is_there |= until is None and signalled.asks_to_block
                if batch:
                    self._yielded = batch[-1].source_offset
                stream.tell_status(interval_seconds)
                waits = until is not None or (signalled is not None and signalled.waits_for_place)
                if waits and not batch:
                    stream.tell_status(ASK_SECONDS, asks=True)
                yield batch
            return translator.position
        finally:
            self._close_stream()

    def _batch(
        self, stream: ReplicationConnection, translator: Stream, until: int | None
    ) -> tuple[list[SourceRecord], bool]:
        """What has come: up to a batch of records, and whether the stream is where it has to go."""
        batch: list[SourceRecord] = []
        limit = self._settings[own.MAX_BATCH_SIZE]
        for _ in range(MAX_MESSAGES_A_TURN):
            found = stream.receive()
            if found is NOTHING:
                break
            if isinstance(found, Keepalive):
                # All before this place was sent; what is not yet in Kafka is still to be confirmed.
                if isinstance(translator, SignalledStream):
                    translator.reached(found.wal_end)
                if self._may_confirm(translator) and not batch and until is None:
                    stream.confirm(found.wal_end)
                if until is not None and translator.is_between and found.wal_end >= until:
                    return batch, True
                continue
            message = decode(found.payload)
            if until is not None and _is_behind(message, until):
                return batch, True
            batch += translator.take(message, found.lsn, time.time_ns())
            if len(batch) >= limit:
                break
        return batch, False

    def _may_confirm(self, stream: Stream) -> bool:
        """Whether nothing that was sent is still to be in Kafka."""
        if not stream.is_between or self._yielded is not None:
            return False
        return self._signals is None or not self._signals.signalling.is_unsaved

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

    def shape_of(
        self, registry: TypeRegistry, connection: Connection, relation: Relation
    ) -> TableShape | None:
        """The shape of a relation of the stream; None where it is not captured."""
        if not self._shaping.filter.takes_table(relation.namespace, relation.name):
            return None
        described = describe_tables(connection, [relation.oid])[relation.oid]
        return self._shaping.of_relation(registry, relation, described)

    def _close_stream(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()

    def _drop_slot(self) -> None:
        try:
            with closing(self._replication()) as replication:
                replication.drop_slot(self._slot)
        except ReplicationError as problem:
            _log.warning("the slot %s is not removed: %s", self._slot, problem)


def _is_behind(message: Message, lsn: int) -> bool:
    """Whether a message, and all that come after it, belong behind a place."""
    match message:
        case Begin():
            return message.final_lsn >= lsn
        case LogicalMessage(is_transactional=False):
            return message.lsn > lsn
    return False


class _Describer:
    """Asks the catalog for relations, and for types that are new since it last asked.

    While tables are copied, those that are not begun yet have no changes of their own.
    """

    def __init__(self, connector: PostgresConnector, connection: Connection, position: Position) -> None:
        self._begun: frozenset[str] | None = None
        if position.snapshot is SnapshotState.COPYING:
            copying = frozenset() if position.copying is None else frozenset({position.copying})
            self._begun = position.copied | copying
        self._connector = connector
        self._connection = connection
        self._registry = read_types(connection)

    def shape(self, relation: Relation) -> TableShape | None:
        if self._begun is not None and f"{relation.namespace}.{relation.name}" not in self._begun:
            return None
        if any(self._registry.find(each.type_oid) is None for each in relation.columns):
            self._registry = read_types(self._connection)
        return self._connector.shape_of(self._registry, self._connection, relation)


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
            connection.execute(self._query.encode())


@contextmanager
def _errors() -> Iterator[None]:
    """A server that is away, or busy with another reader of the slot, is asked again."""
    try:
        yield
    except (psycopg.OperationalError, psycopg.InterfaceError, ReplicationError) as problem:
        raise RetriableError(" ".join(str(problem).split())) from problem
