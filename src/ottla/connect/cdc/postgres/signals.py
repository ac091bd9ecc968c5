"""What a run of the PostgreSQL source makes of its settings of signals, and its blocking snapshots.

A blocking snapshot is a copy as of one place of the log, to which the stream goes first and where it goes on.
Until that is so in an offset, the offset names its tables, and after a kill it is made anew.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import psycopg

from ottla.config.settings import Settings
from ottla.connect.cdc.core.envelope import SnapshotMark
from ottla.connect.cdc.core.notifications import CONNECTOR_NAME, INITIAL, Notification
from ottla.connect.cdc.core.progress import Progress, Resumed, progress_of
from ottla.connect.cdc.postgres.catalog import Connection, TableName, read_tables
from ottla.connect.cdc.postgres.chunks import (
    Cells,
    Marks,
    PostgresChunks,
    ReadTable,
    chunk_record,
    condition_of,
    rows_query,
)
from ottla.connect.cdc.postgres.position import Position
from ottla.connect.cdc.postgres.shapes import Shaping
from ottla.connect.cdc.postgres.signalled import Signals
from ottla.connect.cdc.postgres.slots import SetupError
from ottla.connect.cdc.postgres.snapshot_view import ToldTransactions
from ottla.connect.cdc.postgres.source_block import Moment
from ottla.connect.cdc.postgres.translation import EventOptions
from ottla.connect.cdc.signalling import settings as own
from ottla.connect.cdc.signalling.channels import FileChannel, KafkaChannel, SignalChannel
from ottla.connect.cdc.signalling.settings import Watermarking
from ottla.connect.cdc.signalling.signalling import Signalling, SignalOptions
from ottla.connect.data.record import SourceOffset, SourcePartition, SourceRecord

VIA_ROOT: Final = "publish.via.partition.root"
_log = logging.getLogger(__name__)


def takes_signals(settings: Settings, offset: SourceOffset | None) -> bool:
    """Whether a run has to do with signals, notifications, or a snapshot that was begun."""
    channels = settings[own.CHANNELS]
    outside = own.KAFKA in channels or own.FILE in channels
    begun = offset is not None and progress_of(offset).progress != Progress()
    return bool(settings[own.COLLECTION] or outside or settings[own.NOTIFICATIONS] or begun)


def open_signals(
    settings: Settings,
    connection: Connection,
    shaping: Shaping,
    events: EventOptions,
    partition: SourcePartition,
    offset: SourceOffset | None,
) -> Signals:
    """All of it. Raises ConfigError, SetupError, psycopg.Error."""
    resumed = Resumed(Progress()) if offset is None else progress_of(offset)
    table = settings[own.COLLECTION]
    marked = None if table is None or settings[own.READ_ONLY] else _signal_table(connection, table)
    told = ToldTransactions()
    via_root = settings.texts().get(VIA_ROOT, "false").strip().lower() == "true"
    found = PostgresChunks(
        connection,
        shaping,
        Marks(marked, settings[own.WATERMARKING] is Watermarking.INSERT_DELETE),
        settings[own.CHUNK_SIZE],
        told,
        via_root,
    )
    notifications = settings[own.NOTIFICATIONS]
    options = SignalOptions(
        events.names.prefix,
        partition,
        table,
        own.SOURCE in settings[own.CHANNELS],
        settings[own.POLL_INTERVAL_MS] / 1000,
        settings[own.NOTIFICATION_TOPIC] if own.SINK in notifications else None,
        own.LOG in notifications,
    )
    channels = _channels(settings, events.names.prefix, resumed.progress)
    return Signals(Signalling(options, found, resumed, channels), found, told)


def _signal_table(connection: Connection, id: str) -> TableName:
    found = next((each for each in read_tables(connection, True) if each.id == id), None)
    if found is None:
        raise SetupError(
            f"there is no signal table {id}: make it with CREATE TABLE {id} "
            "(id VARCHAR(64) PRIMARY KEY, type VARCHAR(32) NOT NULL, data VARCHAR(2048) NULL)"
        )
    return found


def _channels(settings: Settings, prefix: str, progress: Progress) -> list[SignalChannel]:
    found: list[SignalChannel] = []
    if own.KAFKA in settings[own.CHANNELS]:
        access, topic = own.signal_access(settings), own.signal_topic(settings, prefix)
        found.append(KafkaChannel(access, topic, settings[own.GROUP], prefix, progress.signal_offset))
    if own.FILE in settings[own.CHANNELS]:
        found.append(FileChannel(Path(settings[own.FILENAME]), progress.signal_file))
    return found


# -- blocking snapshots ----------------------------------------------------------------------------------


def copy_blocking(
    connection: Connection,
    signals: Signals,
    events: EventOptions,
    partition: SourcePartition,
    position: Position,
    batch_size: int,
) -> Iterator[Sequence[SourceRecord]]:
    """The rows of the tables that wait, as the transaction of `connection` sees them, in batches.

    position: of the stream, as of this view. Raises psycopg.Error, ConversionError.
    """
    signalling = signals.signalling
    asked = signalling.blocking
    tables: list[tuple[ReadTable, str]] = []
    for each in asked:
        table = signals.chunks.whole_table(each)
        if table is None:
            _log.warning("%s is not copied: no captured table has this name", each.table)
        else:
            tables.append((table, rows_query(table, (condition_of(each),)).as_string(connection)))
    moment = Moment(position.commit, time.time_ns() // 1000, None, position.previous)
    place = position.offset()
    _tell(signalling, "STARTED", {})
    batch = signalling.notified(place)
    ended = "COMPLETED"
    try:
        for table, cells, mark in _marked_rows(connection, tables):
            record = chunk_record(events, table, cells, moment, mark)
            batch.append(SourceRecord(record, partition, place))
            if len(batch) >= batch_size:
                yield signalling.stamped(batch)
                batch = []
    except (psycopg.DataError, psycopg.ProgrammingError) as problem:
        # What a signal asks for can be wrong; the stream goes on without it.
        _log.warning("a blocking snapshot ends early: %s", " ".join(str(problem).split()))
        ended = "ABORTED"
    if batch:
        yield signalling.stamped(batch)
    signalling.blocking_done(len(asked))
    _tell(signalling, ended, {})
    # A copy is done when an offset says so: one of a notification, or of the stream's next record.
    if last := signalling.notified(place):
        yield last


def _marked_rows(
    connection: Connection, tables: Sequence[tuple[ReadTable, str]]
) -> Iterator[tuple[ReadTable, Cells, SnapshotMark]]:
    """All rows in their order; each is held until it is known whether it is its table's last."""
    held: tuple[ReadTable, Cells] | None = None
    is_first = is_first_of_all = True
    for table, query in tables:
        with connection.cursor() as cursor, cursor.copy(query.encode()) as copy:
            for cells in copy.rows():
                if held is not None:
                    is_last = held[0] is not table
                    yield *held, _mark(is_first_of_all, is_first, is_last)
                    is_first, is_first_of_all = is_last, False
                held = (table, cells)
    if held is not None:
        yield *held, SnapshotMark.LAST


def _mark(first_of_all: bool, first: bool, last: bool) -> SnapshotMark:
    if first_of_all:
        return SnapshotMark.FIRST
    if last:
        return SnapshotMark.LAST_IN_TABLE
    return SnapshotMark.FIRST_IN_TABLE if first else SnapshotMark.TRUE


# -- notifications of the first copy ---------------------------------------------------------------------


def notices_of_copy(
    signalling: Signalling,
    copying: Generator[Sequence[SourceRecord], None, Position],
    tables: Sequence[str],
) -> Generator[Sequence[SourceRecord], None, Position]:
    """The copy's batches, with the steps that they are."""
    _tell(signalling, "STARTED", {})
    started = signalling.notified({})
    if started:
        yield started
    counts: dict[str, int] = {}
    while True:
        try:
            batch = next(copying)
        except StopIteration as done:
            _tell(signalling, "COMPLETED", {})
            position: Position = done.value
            return position
        for each in batch:
            _tell_row(signalling, each, counts, ",".join(tables))
        stamped = signalling.stamped(batch)
        if stamped:
            stamped += signalling.notified(batch[-1].source_offset)
        yield stamped


def _tell_row(signalling: Signalling, row: SourceRecord, counts: dict[str, int], listed: str) -> None:
    """Tell the beginning or the end of a table, if this is its first or last row."""
    source = None if row.record.value is None else row.record.value.values.get("source")
    if source is None or source.values["snapshot"] is None:
        return
    table, mark = f"{source.values['schema']}.{source.values['table']}", source.values["snapshot"]
    counts[table] = counts.get(table, 0) + 1
    if counts[table] == 1:
        data = {"current_collection_in_progress": table, "data_collections": listed}
        _tell(signalling, "IN_PROGRESS", data)
    if mark in (SnapshotMark.LAST_IN_TABLE.value, SnapshotMark.LAST.value):
        data = {
            "scanned_collection": table,
            "data_collections": listed,
            "total_rows_scanned": str(counts[table]),
            "status": "SUCCEEDED",
        }
        _tell(signalling, "TABLE_SCAN_COMPLETED", data)


def _tell(signalling: Signalling, type: str, data: Mapping[str, str]) -> None:
    told = {**data, CONNECTOR_NAME: signalling.prefix}
    signalling.tell(Notification(str(uuid.uuid4()), INITIAL, type, told, time.time_ns() // 1_000_000))
