"""Debezium's PostgresConnector: a database's changes as records, in the order of commits.

One source partition, the database. The order that must not change: the publication, the slot (from then on
the server keeps its log), the copies of the tables, the stream. What is confirmed to the slot is what Kafka
has committed, together with the offset behind it; the server's log before that is given up. While nothing
comes for the captured tables, the server's keepalives move the offset, and with that the slot: the offset is
never behind it, so that a slot which is ahead tells a gap (continuity.py).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import ClassVar, Final

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

import ottla
from ottla.config.setting import Table
from ottla.config.settings import Settings
from ottla.connect.cdc.core import settings as shared
from ottla.connect.cdc.core.envelope import HEARTBEAT_KEY, HEARTBEAT_VALUE, heartbeat_key, heartbeat_value
from ottla.connect.cdc.core.tables import TableShape
from ottla.connect.cdc.postgres import settings as own
from ottla.connect.cdc.postgres.catalog import (
    CatalogTable,
    Connection,
    TableName,
    describe_tables,
    read_tables,
    read_types,
)
from ottla.connect.cdc.postgres.continuity import gap
from ottla.connect.cdc.postgres.copying.ranges import Ranges
from ottla.connect.cdc.postgres.copying.snapshot import (
    CopiedTable,
    TableCopy,
    lock_tables,
    open_snapshot,
    snapshot_moment,
)
from ottla.connect.cdc.postgres.copying.splitting import split_table, table_sizes
from ottla.connect.cdc.postgres.pgoutput import Begin, LogicalMessage, Message, Relation, decode
from ottla.connect.cdc.postgres.position import Copying, History, Position, lsn_text, position_of
from ottla.connect.cdc.postgres.replication import (
    NOTHING,
    Keepalive,
    ReplicationConnection,
    ReplicationError,
)
from ottla.connect.cdc.postgres.reselect import Reselector, reselections
from ottla.connect.cdc.postgres.settings import LockingMode, SnapshotMode
from ottla.connect.cdc.postgres.signalled import SignalledStream, Signals, Stream
from ottla.connect.cdc.postgres.signals import copy_blocking, notices_of_copy, open_signals, takes_signals
from ottla.connect.cdc.postgres.slot_watch import SlotWatch, warn_of_status
from ottla.connect.cdc.postgres.slots import (
    NotPromoted,
    SetupError,
    Slot,
    advise_limit,
    check_server,
    ensure_publication,
    find_slot,
)
from ottla.connect.cdc.postgres.translation import Translator
from ottla.connect.cdc.postgres.types import TypeRegistry
from ottla.connect.cdc.signalling import settings as signalling
from ottla.connect.data.record import Record, SourceOffset, SourcePartition, SourceProgress, SourceRecord
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
        self._overrides = own.overrides(settings)
        self._reselections = reselections(settings, settings[own.POST_PROCESSORS])
        self._mode = settings[own.SNAPSHOT_MODE]
        self._slot = settings[own.SLOT_NAME]
        self._database = require(settings, own.DBNAME)
        signalling.check(settings)
        self._signals: Signals | None = None
        self._copied_in_this_run = False
        self._stream: ReplicationConnection | None = None
        self._has_read = False
        self._history: History | None = None
        self._committed = 0
        self._watch = SlotWatch(self._connect, self._slot, self._database)

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
            begin, position, history = self._ensure_slot(connection, position)
            if position is None and self._mode in _NO_DATA:
                position = Position(begin, history=history)
            if position is None or self._needs_copy(position):
                position = yield from self._copied(connection, partition, tables, position, history)
                self._copied_in_this_run = True
            while self._mode is not SnapshotMode.INITIAL_ONLY:
                position = yield from self._follow(connection, partition, position)
                position = yield from self._block(connection, partition, position)

    def committed(self, partition: SourcePartition, offset: SourceOffset) -> None:
        """Kafka has everything up to here: the slot may move there."""
        position = position_of(offset)
        if position.history != self._history:
            return  # of before a failover
        if self._signals is not None:
            self._signals.signalling.committed(offset)
        self._committed = max(self._committed, position.commit)
        if self._stream is not None:
            self._stream.confirm(self._committed)
            self._stream.tell_status(self._settings[own.STATUS_INTERVAL_MS] / 1000)

    def figures(self) -> Mapping[str, float]:
        """How far the slot is behind."""
        return self._watch.figures() if self._has_read else {}

    def close(self) -> None:
        self._close_stream()
        self._watch.close()
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

    def _ensure_slot(
        self, connection: Connection, position: Position | None
    ) -> tuple[int, Position | None, History]:
        """The slot, made if it may be: its beginning, the place to go on from, and the log's history.

        The place is None where tables are to be copied. Raises SetupError.
        """
        found = find_slot(connection, self._slot, self._database)
        with closing(self._replication()) as replication:
            history, switches = replication.identify()
            if history != self._history:
                self._history, self._committed = history, 0
            problem = None if position is None else gap(position, history, switches, found, self._slot)
            if problem is not None and not self._can_copy_again():
                raise SetupError(
                    f"{problem}. Set snapshot.mode to when_needed to copy the tables again, or reset the "
                    "connector's offsets"
                )
            if problem is not None:
                _log.warning("%s: the tables are copied again", problem)
                position = None
            if position is not None:
                position = position.within(history)
            if found is not None and not found.is_lost:
                self._tell(connection, found)
                return found.confirmed, position, history
            if found is not None:
                replication.drop_slot(self._slot)
            created = replication.create_slot(self._slot, temporary=False, export=False)
        _log.info("the slot %s begins at %s", self._slot, lsn_text(created.consistent_point))
        advise_limit(connection, self._slot)
        return created.consistent_point, position, history

    def _can_copy_again(self) -> bool:
        return self._mode in (SnapshotMode.WHEN_NEEDED, SnapshotMode.ALWAYS)

    def _tell(self, connection: Connection, slot: Slot) -> None:
        advise_limit(connection, self._slot)
        warn_of_status(self._slot, slot)
        _log.info(
            "the slot %s is at %s, %d bytes of the log behind",
            self._slot,
            lsn_text(slot.confirmed),
            slot.lag_bytes,
        )

    def _needs_copy(self, position: Position) -> bool:
        """Whether tables are to be copied before the stream goes on."""
        if position.copying is not None:
            return True
        return self._mode is SnapshotMode.ALWAYS and not self._copied_in_this_run

    def _copy(
        self,
        connection: Connection,
        partition: SourcePartition,
        tables: Sequence[TableName],
        position: Position | None,
        history: History,
    ) -> Generator[Sequence[SourceRecord], None, Position]:
        """The rows of the tables that are not copied yet; the place where the stream goes on."""
        with ExitStack() as stack:
            others = [
                stack.enter_context(closing(self._connect()))
                for _ in range(self._settings[own.SNAPSHOT_THREADS] - 1)
            ]
            with closing(self._replication()) as replication:
                lsn = open_snapshot([connection, *others], replication)
            if position is None:
                position = Position(lsn, history=history)
            else:
                with closing(self._connect()) as other:
                    position = yield from self._follow(other, partition, position, lsn)
            position = position.at(lsn)
            copying = Copying() if position.copying is None else position.copying
            copies = self._shaping.filter.copies_table
            left = [
                each for each in tables if each.id not in copying.copied and copies(each.schema, each.name)
            ]
            to_copy = self._to_copy(connection, read_types(connection), left, copying)
            _log.info(
                "%d tables are copied as of %s, in %d parts",
                len(left),
                lsn_text(lsn),
                sum(len(each.ranges.left) for each in to_copy),
            )
            if self._settings[own.LOCKING] is LockingMode.SHARED:
                lock_tables(connection, left)
            moment = snapshot_moment(connection, lsn, time.time_ns())
            copy = TableCopy(
                self._events,
                partition,
                moment,
                position.with_copying(copying),
                self._settings[shared.MAX_BATCH_SIZE],
            )
            yield from copy.batches([connection, *others], to_copy)
            connection.rollback()
            return position.with_copying(None)

    def _copied(
        self,
        connection: Connection,
        partition: SourcePartition,
        tables: Sequence[TableName],
        position: Position | None,
        history: History,
    ) -> Generator[Sequence[SourceRecord], None, Position]:
        """As `_copy`, with its steps told as notifications."""
        copying = self._copy(connection, partition, tables, position, history)
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
            lsn = open_snapshot([connection], replication)
        try:
            with closing(self._connect()) as other:
                position = (yield from self._follow(other, partition, position, lsn)).at(lsn)
            size = self._settings[shared.MAX_BATCH_SIZE]
            yield from copy_blocking(connection, signals, self._events, partition, position, size)
            return position
        finally:
            if not connection.closed:
                connection.rollback()

    def _to_copy(
        self, connection: Connection, registry: TypeRegistry, tables: Sequence[TableName], copying: Copying
    ) -> list[CopiedTable]:
        described = describe_tables(connection, [each.oid for each in tables])
        sizes = table_sizes(connection, [each.oid for each in tables])
        only = sql.SQL("" if self._settings[own.PUBLISH_VIA_ROOT] else "ONLY ")
        found = []
        for each in tables:
            table = described[each.oid]
            source: sql.Composable = only + sql.Identifier(each.schema, each.name)
            ranges = copying.begun.get(each.id)
            override = self._overrides.get(each.id)
            if override is not None:
                source, ranges = sql.SQL("({}) selected").format(sql.SQL(override)), Ranges()
            elif ranges is None or (ranges.bounds and ranges.columns != table.key):
                ranges = Ranges()
                if (size := sizes.get(each.oid)) is not None:
                    range_rows = own.range_rows(self._settings, size.rows)
                    ranges = split_table(connection, source, table, size, range_rows)
            shape = self._shaping.of_catalog(registry, each.schema, each.name, table)
            found.append(CopiedTable(shape, [column.name for column in table.columns], source, ranges))
        return found

    # -- the stream ----------------------------------------------------------------------------------

    def _follow(
        self,
        connection: Connection,
        partition: SourcePartition,
        position: Position,
        until: int | None = None,
    ) -> Generator[Sequence[SourceRecord], None, Position]:
        """The changes from a place on, up to another one; None: without end. Returns the place."""
        reselector = Reselector(connection, self._reselections) if self._reselections else None
        describe = _Describer(self, connection, position, reselector)
        complete = None if reselector is None else reselector.complete
        translator: Stream = Translator(self._events, partition, position, describe.shape, complete)
        signalled: SignalledStream | None = None
        if self._signals is not None:
            assert isinstance(translator, Translator)
            translator = signalled = SignalledStream(translator, self._signals, self._events)
        stream = self._replication()
        self._stream = stream
        heart = _Heart(self._settings[shared.HEARTBEAT_MS], self._settings[shared.HEARTBEAT_QUERY])
        interval_seconds = self._settings[own.STATUS_INTERVAL_MS] / 1000
        pace = _Pace(interval_seconds, position)
        try:
            stream.start(self._slot, position.commit, self._settings[own.PUBLICATION_NAME])
            # Not the place where it begins: of that, Kafka may not have the offset yet.
            stream.confirm(self._committed)
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
                stream.tell_status(interval_seconds)
                waits = until is not None or (signalled is not None and signalled.waits_for_place)
                if waits and not batch:
                    stream.tell_status(ASK_SECONDS, asks=True)
                place = translator.position
                if batch:
                    pace.rest()
                    yield batch
                elif (
                    signalled is not None
                    and signalled.is_between
                    and (pace.is_due(place) or signalled.is_unsaved)
                ):
                    yield SourceProgress(partition, signalled.stamped_place(place.offset()))
                elif signalled is None and translator.is_between and pace.is_due(place):
                    yield SourceProgress(partition, place.offset())
                else:
                    yield batch
            return translator.position
        finally:
            self._close_stream()

    def _batch(
        self, stream: ReplicationConnection, translator: Stream, until: int | None
    ) -> tuple[list[SourceRecord], bool]:
        """What has come: up to a batch of records, and whether the stream is where it has to go."""
        batch: list[SourceRecord] = []
        limit = self._settings[shared.MAX_BATCH_SIZE]
        for _ in range(MAX_MESSAGES_A_TURN):
            found = stream.receive()
            if found is NOTHING:
                break
            if isinstance(found, Keepalive):
                if isinstance(translator, SignalledStream):
                    translator.reached(found.wal_end)
                if until is None:
                    translator.reach(found.wal_end)
                elif translator.is_between and found.wal_end >= until:
                    return batch, True
                continue
            message = decode(found.payload)
            if until is not None and _is_behind(message, until):
                return batch, True
            batch += translator.take(message, found.lsn, time.time_ns())
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

    def is_to_be_copied(self, relation: Relation, begun: frozenset[str]) -> bool:
        """Whether the table's rows are copied later: its changes until then are in the copy."""
        copies = self._shaping.filter.copies_table(relation.namespace, relation.name)
        return copies and f"{relation.namespace}.{relation.name}" not in begun

    def takes(self, relation: Relation) -> bool:
        """Whether the changes of a table are captured."""
        return self._shaping.filter.takes_table(relation.namespace, relation.name)

    def shape_of(self, registry: TypeRegistry, relation: Relation, described: CatalogTable) -> TableShape:
        """The shape of a relation of the stream."""
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

    def __init__(
        self,
        connector: PostgresConnector,
        connection: Connection,
        position: Position,
        reselector: Reselector | None,
    ) -> None:
        self._reselector = reselector
        self._begun: frozenset[str] | None = None
        if position.copying is not None:
            self._begun = position.copying.copied | frozenset(position.copying.begun)
        self._connector = connector
        self._connection = connection
        self._registry = read_types(connection)

    def shape(self, relation: Relation) -> TableShape | None:
        if self._begun is not None and self._connector.is_to_be_copied(relation, self._begun):
            return None
        if any(self._registry.find(each.type_oid) is None for each in relation.columns):
            self._registry = read_types(self._connection)
        if not self._connector.takes(relation):
            return None
        described = describe_tables(self._connection, [relation.oid])[relation.oid]
        shape = self._connector.shape_of(self._registry, relation, described)
        if self._reselector is not None:
            self._reselector.learn(relation, shape, described.key)
        return shape


class _Pace:
    """When the place of a stream that gives no records is told: with it the slot moves, and not before."""

    def __init__(self, interval_seconds: float, position: Position) -> None:
        self._interval = interval_seconds
        self._told = position.commit
        self._due = time.monotonic()

    def rest(self) -> None:
        """Records were given, which tell a place themselves."""
        self._due = time.monotonic() + self._interval

    def is_due(self, place: Position) -> bool:
        """Whether the place is to be told now."""
        if place.commit <= self._told or time.monotonic() < self._due:
            return False
        self._told = place.commit
        self.rest()
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
            connection.execute(self._query.encode())


@contextmanager
def _errors() -> Iterator[None]:
    """A server that is away, or busy with another reader of the slot, is asked again."""
    try:
        yield
    except (psycopg.OperationalError, psycopg.InterfaceError, ReplicationError, NotPromoted) as problem:
        raise RetriableError(" ".join(str(problem).split())) from problem
